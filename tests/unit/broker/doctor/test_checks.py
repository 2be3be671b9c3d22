import threading

from passdown.broker.doctor.checks import Check, looked, within
from passdown.broker.findings import Finding
from passdown.contracts.errors import NotFound, Unavailable

FINE = Finding(level="green", what="disk", found="fine")


def raising(error: Exception) -> Check:
    def look() -> list[Finding]:
        raise error

    return Check("disk", look)


def test_what_a_check_found_is_passed_on() -> None:
    assert looked(Check("disk", lambda: [FINE])) == ([FINE], True)
    assert within(lambda: 5, 1.0) == 5


def test_a_check_that_hangs_is_a_red_line_and_is_left_alone() -> None:
    done = threading.Event()
    found, answered = looked(Check("disk", lambda: [FINE] if done.wait(30) else []), within_s=0.05)
    done.set()
    assert (found[0].level, found[0].what, found[0].found) == ("red", "disk", "no answer within 0.05 s")
    assert not answered


def test_a_check_that_fails_is_a_red_line_with_what_went_wrong() -> None:
    (away,), answered = looked(raising(Unavailable("the store", "gone")))
    assert (away.level, away.found) == ("red", "the store is unavailable: gone; a retry is safe")
    assert away.advice == "is it up, and reachable?"
    assert answered
    (missing,), _ = looked(raising(NotFound("store", "x.db", "make one")))
    assert (missing.found, missing.advice) == ("there is no store 'x.db'; make one", "")
    (odd,), _ = looked(raising(KeyError("x")))
    assert (odd.level, odd.found) == ("red", "KeyError: 'x'")
    assert looked(raising(ValueError()))[0][0].found == "ValueError"
