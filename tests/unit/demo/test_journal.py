"""The outside's own journal: a key is applied once, whoever comes how often, and accidents strike once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from passdown.broker.demo.journal import Journal
from passdown.broker.demo.outside import outside_lines
from passdown.broker.demo.place import Where, place


def test_a_repeated_key_is_absorbed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "outside.db")
    assert journal.find("s0-1.e-1") is None
    assert journal.apply("s0-1.e-1", "mail.send", {"to": "ann"}, {"id": 1}) == {"id": 1}
    assert journal.apply("s0-1.e-1", "mail.send", {"to": "ann"}, {"id": 2}) == {"id": 1}
    journal.refuse("s0-1.e-2", "mail.send")
    (written,) = journal.written()
    assert written == journal.find("s0-1.e-1")
    assert (written.session_id, written.calls, written.arrivals) == ("s0-1", 1, 2)
    assert (written.args, written.result) == ({"to": "ann"}, {"id": 1})
    assert journal.fates() == {"applied": 1, "absorbed": 1, "refused": 1}
    journal.close()


def test_several_processes_would_write_one_after_the_other(tmp_path: Path) -> None:
    journals = [Journal(tmp_path / "outside.db") for _ in range(4)]

    def write(n: int) -> int:
        return journals[n % 4].apply(f"k{n % 5}", "t", {}, n)

    with ThreadPoolExecutor(4) as threads:
        results = list(threads.map(write, range(40)))
    assert len(set(results)) == 5
    assert journals[0].fates() == {"applied": 5, "absorbed": 35}
    for journal in journals:
        journal.close()


def test_an_accident_strikes_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "outside.db")
    journal.arrange("s0-1", "before-write")
    journal.arrange("s0-1", "before-write")
    assert not journal.strikes("s0-1", "after-write")
    assert journal.strikes("s0-1", "before-write")
    assert not journal.strikes("s0-1", "before-write")
    journal.close()


def test_the_lines_of_an_export_have_only_what_was_applied(tmp_path: Path) -> None:
    at = place(Where(str(tmp_path)), "test")
    journal = Journal(at.journal)
    journal.apply("s0-1.e-1", "mail.send", {}, None)
    journal.apply("s0-1.e-1", "mail.send", {}, None)
    journal.refuse("s0-2.e-1", "mail.send")
    journal.close()
    line = {
        "kind": "outside",
        "sessionId": "s0-1",
        "key": "s0-1.e-1",
        "tool": "mail.send",
        "calls": 1,
        "arrivals": 2,
    }
    assert list(outside_lines(at.store)) == [line]
