"""Places that take nothing: nothing is repeated for them, nobody waits for them, and one day they are given up."""

import contextlib
from collections import Counter
from typing import cast

import pytest
from structlog.testing import capture_logs

from passdown.broker import outgoing
from passdown.broker.outgoing import GIVE_UP_MS, LEAVE_S, RESERVE_MS, SOURCE, SURE_S, Passed, Teller
from passdown.broker.stores.queries import FindEnded, FindQuarantine, QuarantineRow
from passdown.broker.transports.carrier import Refused
from passdown.contracts.errors import Unavailable
from tests.unit.broker.rig import Rig
from tests.unit.broker.test_outgoing import Mouth, teller_of, with_events


@pytest.fixture
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture
def teller(rig: Rig, mouth: Mouth) -> Teller:
    return teller_of(rig, mouth)


def ended(rig: Rig, *named: tuple[str, str]) -> None:
    """Have sessions end, each with a key and a queue for its outcome."""
    for key, queue in named:
        rig.open(key=key, reply_to=queue)
        rig.claim().give()


def pass_time(rig: Rig, teller: Teller, seconds: float) -> None:
    """Have the teller work for so long."""
    for _ in range(int(seconds * 1000) // RESERVE_MS):
        teller.once()
        rig.clock.forward(RESERVE_MS)


def told(mouth: Mouth) -> Counter[tuple[str, str]]:
    return Counter((where, event.data.status) for where, event in mouth.said)


def to_tell(rig: Rig) -> int:
    """Return how many ended sessions are kept because somebody is to be told of them."""
    free = rig.store.find(FindEnded(older_ms=0))
    assert isinstance(free, list)
    return len(rig.broker.sessions()) - len(free)


def quarantined(rig: Rig) -> list[QuarantineRow]:
    return cast("list[QuarantineRow]", rig.store.find(FindQuarantine()))


ONCE_EACH = {(f"events:{status}.p", status): 1 for status in ("queued", "running", "done")}


def test_rule_01_what_goes_to_the_exchange_is_not_repeated_for_a_queue_that_refuses(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    with_events(rig)
    ended(rig, ("a", "odd"))
    mouth.faults["odd"] = Refused("transport", "no right to write")
    pass_time(rig, teller, 600)
    assert told(mouth) == ONCE_EACH
    mouth.faults.clear()
    pass_time(rig, teller, LEAVE_S + 10)
    assert told(mouth) == {**ONCE_EACH, ("odd", "done"): 1}
    assert to_tell(rig) == 0


def test_rule_01_another_teller_repeats_at_most_what_the_queue_that_refuses_is_owed(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    with_events(rig)
    ended(rig, ("a", "odd"))
    mouth.faults["odd"] = Refused("transport", "no right to write")
    pass_time(rig, teller, 60)
    pass_time(rig, teller_of(rig, mouth), 60)
    assert told(mouth) == {**ONCE_EACH, ("events:done.p", "done"): 2}


def test_a_queue_does_not_wait_for_an_exchange_that_refuses(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    with_events(rig)
    ended(rig, ("a", "replies"))
    mouth.faults["events"] = Refused("transport", "no topic exchange")
    pass_time(rig, teller, 600)
    assert told(mouth) == {("replies", "done"): 1}
    mouth.faults.clear()
    pass_time(rig, teller, LEAVE_S + 10)
    assert told(mouth) == {**ONCE_EACH, ("replies", "done"): 1}
    assert [event.data.status for where, event in mouth.said if "events" in where] == [
        "queued",
        "running",
        "done",
    ]


# -- giving up ---------------------------------------------------------------------------------------------


def test_what_is_refused_for_a_day_is_given_up_and_kept(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    with_events(rig)
    ended(rig, ("a", "odd"))
    mouth.faults["odd"] = Refused("transport", "no right to write")
    pass_time(rig, teller, SURE_S + 60)
    assert (to_tell(rig), quarantined(rig)) == (1, [])
    rig.clock.forward(GIVE_UP_MS)
    with capture_logs() as logs:
        teller.once()
    assert [one["event"] for one in logs] == ["teller.refused", "teller.given_up"]
    assert to_tell(rig) == 0
    (row,) = quarantined(rig)
    assert (row.source, "queue odd" in row.reason, "no right to write" in row.reason) == (SOURCE, True, True)
    assert b'"passdown.session.outcome.v1"' in row.body
    assert told(mouth) == ONCE_EACH


def test_of_a_backlog_all_is_given_up_at_once(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    ended(rig, *((str(n), "odd") for n in range(5)))
    mouth.faults["odd"] = Refused("transport", "no right to write")
    pass_time(rig, teller, SURE_S + 60)
    rig.clock.forward(GIVE_UP_MS)
    teller.once()
    assert (to_tell(rig), len(quarantined(rig))) == (0, 5)


def test_a_moment_of_refusal_after_days_without_a_transport_costs_nothing(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    ended(rig, ("a", "replies"))
    rig.clock.forward(3 * GIVE_UP_MS)
    mouth.faults["replies"] = Refused("transport", "it is full")
    pass_time(rig, teller, SURE_S / 2)
    assert quarantined(rig) == []
    mouth.faults.clear()
    pass_time(rig, teller, LEAVE_S + 10)
    assert told(mouth) == {("replies", "done"): 1}


def test_an_hour_counts_from_when_it_took_something_last(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    ended(rig, ("a", "odd"))
    fault = Refused("transport", "it is full")
    mouth.faults["odd"] = fault
    pass_time(rig, teller, SURE_S * 0.9)
    mouth.faults.clear()
    pass_time(rig, teller, LEAVE_S + 10)
    ended(rig, ("b", "odd"))
    rig.clock.forward(GIVE_UP_MS)
    mouth.faults["odd"] = fault
    pass_time(rig, teller, SURE_S * 0.9)
    assert (to_tell(rig), quarantined(rig)) == (1, [])


@pytest.mark.parametrize("others", [1, 0])
def test_while_a_transport_is_away_no_hour_of_refusal_goes_by(
    rig: Rig, mouth: Mouth, teller: Teller, others: int
) -> None:
    ended(rig, ("a", "odd"), *[("b", "replies")] * others)
    mouth.faults["odd"] = Refused("transport", "it is full")
    teller.once()
    ended(rig, *[("c", "replies")] * others)
    mouth.faults = {name: Unavailable("transport", "connection refused") for name in ("odd", "replies")}
    for _ in range(8):
        rig.clock.forward(GIVE_UP_MS // 4)
        with contextlib.suppress(Unavailable):
            teller.once()
    assert quarantined(rig) == []
    mouth.faults = {"odd": Refused("transport", "it is full")}
    pass_time(rig, teller, SURE_S / 2)
    assert quarantined(rig) == []
    pass_time(rig, teller, SURE_S)
    assert len(quarantined(rig)) == 1


def test_rule_12_what_went_out_is_remembered_of_some_sessions_only(
    rig: Rig, mouth: Mouth, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "_MOST_LEFT", 3)
    with_events(rig)
    ended(rig, *((str(n), f"odd-{n}") for n in range(8)))
    mouth.faults = {f"odd-{n}": Refused("transport", "no right to write") for n in range(8)}
    pass_time(rig, teller, 300)
    assert max(len(vars(teller)[name]) for name in ("_out", "_left")) <= 3


def test_where_quarantine_cannot_be_written_it_is_tried_again(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    ended(rig, ("a", "odd"))
    mouth.faults["odd"] = Refused("transport", "no right to write")
    pass_time(rig, teller, SURE_S + 60)
    rig.clock.forward(GIVE_UP_MS)
    rig.fail("before", only={"put"})
    with pytest.raises(Unavailable):
        teller.once()
    assert to_tell(rig) == 1
    teller.once()
    assert (to_tell(rig), len(quarantined(rig))) == (0, 1)


# -- no answer ---------------------------------------------------------------------------------------------


def test_one_queue_that_does_not_answer_keeps_no_other_waiting(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    ended(rig, *((f"bad-{n}", "silent") for n in range(3)), *((f"good-{n}", "replies") for n in range(3)))
    mouth.faults["silent"] = Unavailable("transport", "no confirmation")
    assert teller.once() == Passed(6, 3)
    assert told(mouth) == {("replies", "done"): 3}
    tries = count_tries(mouth)
    pass_time(rig, teller, LEAVE_S - 1)
    assert tries == {}, "it is left alone for a while"
    mouth.faults.clear()
    pass_time(rig, teller, LEAVE_S + 10)
    assert told(mouth) == {("replies", "done"): 3, ("silent", "done"): 3}


def test_one_that_is_known_not_to_answer_stops_nobody_where_it_is_alone(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    ended(rig, ("bad", "silent"), ("good", "replies"))
    mouth.faults["silent"] = Unavailable("transport", "no confirmation")
    assert teller.once() == Passed(2, 1)
    rig.clock.forward(int(LEAVE_S * 1000))
    assert teller.once() == Passed(1, 0)


def test_others_are_looked_for_beyond_a_hand_that_waits_for_one_queue(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    """Whoever may do no more than try one session finds out that others can be told of."""
    ended(rig, ("bad-0", "silent"), ("bad-1", "silent"), ("good", "replies"))
    mouth.faults["silent"] = Unavailable("transport", "no confirmation")
    with pytest.raises(Unavailable):
        teller.once(2)
    assert teller.once(1) == Passed(3, 1)
    assert told(mouth) == {("replies", "done"): 1}


def test_a_transport_that_is_away_is_tried_twice_a_pass(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    ended(rig, *((str(n), f"queue-{n % 4}") for n in range(12)))
    for n in range(4):
        mouth.faults[f"queue-{n}"] = Unavailable("transport", "connection refused")
    tries = count_tries(mouth)
    for _ in range(3):
        with pytest.raises(Unavailable):
            teller.once()
    assert sum(tries.values()) == 6
    mouth.faults.clear()
    assert teller.once() == Passed(12, 12), "and all of it is still in hand"


def test_a_transport_that_goes_away_in_a_pass_is_no_fault_of_one_queue(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    """What went well before does not say that the transport is still there."""
    ended(rig, ("a", "replies"), ("b", "others"), ("c", "others"))
    mouth.faults["others"] = Unavailable("transport", "connection lost")
    with pytest.raises(Unavailable):
        teller.once()
    mouth.faults.clear()
    assert teller.once() == Passed(2, 2)


def count_tries(mouth: Mouth) -> Counter[str]:
    """Count from here on to where something is published, whether it arrives or not."""
    tries: Counter[str] = Counter()
    inner = mouth.publish

    def publish(body: bytes, *, queue: str = "", exchange: str = "", **how: object) -> None:
        tries[queue or exchange] += 1
        inner(body, queue=queue, exchange=exchange, **how)

    mouth.publish = publish  # type: ignore[method-assign]
    return tries
