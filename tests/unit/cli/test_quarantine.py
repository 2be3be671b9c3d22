"""`quarantine list`, `show`, `drop`, `retry`."""

import json
from typing import Any

import pytest

from passdown.broker.client import Session
from passdown.broker.outgoing import SOURCE
from passdown.broker.push.judging import KEPT, take_in
from passdown.broker.push.pusher import Pusher
from passdown.broker.stores.base import Quarantine
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.plans import Backoff, Plan, Stage
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk

JSON = "application/json"


class Out:
    """Keeps the last message published; ``lying`` is how many it says that nobody fetched."""

    message: dict[str, Any]
    lying = 0

    def publish(self, queue: str, body: bytes) -> None:
        """Keep a message."""
        del queue
        self.message = json.loads(body)

    def waiting(self, queue: str) -> int:
        """Say how many."""
        del queue
        return self.lying

    def close(self) -> None:
        """Do nothing."""


def put(desk: Desk, body: bytes, *, source: str = "passdown.returns", reason: str = "not JSON") -> int:
    """Put a message into quarantine; returns its id."""
    desk.broker.app.store.put(Quarantine(source=source, reason=reason, body=body))
    return kept(desk)[0].id


def kept(desk: Desk) -> list[QuarantineRow]:
    """Return what is in quarantine, newest first."""
    found = desk.broker.app.store.find(FindQuarantine())
    assert isinstance(found, list)
    return [row for row in found if isinstance(row, QuarantineRow)]


def pushed(desk: Desk) -> tuple[Session, bytes]:
    """Open a session whose pack is pushed; returns it and the return that would count."""
    stage = Stage(role="away", delivery="push", backoff=Backoff(first_seconds=0.0), lease_seconds=600.0)
    session = desk.broker.submit(desk.broker.register(Plan(name="pushed", start="a", stages={"a": stage})))
    out = Out()
    Pusher(desk.broker.app.controller, out).push("away")
    pack = out.message["pack"]
    bound = {name: pack[name] for name in ("sessionId", "step", "attempt", "stage")}
    keys = {"claimId": out.message["claimId"], "packDigest": pack["digest"], "nextStep": None}
    given: dict[str, Any] = {"spec": "passdown.return/1", "result": "done", **bound, **keys, "output": {}}
    return session, json.dumps(given).encode()


def test_the_newest_comes_first_with_why_it_was_refused(at_desk: Cli, desk: Desk) -> None:
    put(desk, b"one", reason="first\x1b[31m")
    put(desk, b"\xff" * 2048, source="passdown.push", reason="second")
    said = at_desk("quarantine", "list")
    assert said.code == 0
    _, newest, oldest = said.out.splitlines()
    assert newest.startswith("2   passdown.push")
    assert "2.0 KiB" in newest
    assert newest.endswith("second")
    assert oldest.endswith("first\\x1b[31m")
    (only,) = json.loads(at_desk("quarantine", "list", "--source", "passdown.returns", "--json").out)[
        "quarantine"
    ]
    assert (only["id"], only["bytes"], only["retryable"]) == (1, 3, True)
    assert len(json.loads(at_desk("quarantine", "list", "--limit", "1", "--json").out)["quarantine"]) == 1


def test_nothing_is_no_fault(at_desk: Cli, desk: Desk) -> None:
    del desk
    assert at_desk("quarantine", "list")[:2] == (0, "")
    assert at_desk("quarantine", "drop", "--all").out == "0 messages dropped\n"


def test_a_text_is_shown_harmless_and_what_is_none_as_numbers(at_desk: Cli, desk: Desk) -> None:
    put(desk, "grün\x1b[2J\nzwei".encode())
    shown = at_desk("quarantine", "show", 1).out
    assert shown.endswith("  not JSON\n\ngrün\\x1b[2J\nzwei\n")
    put(desk, b"\xffAB\x00" * 5)
    shown = at_desk("quarantine", "show", 2).out
    assert "00000000  ff 41 42 00 ff 41 42 00 ff 41 42 00 ff 41 42 00  .AB..AB..AB..AB.\n" in shown
    assert shown.endswith(".AB.\n")
    view = json.loads(at_desk("quarantine", "show", 2, "--json").out)
    assert (view["body"], view["bodyHex"]) == (None, "ff414200" * 5)


def test_raw_is_every_byte_and_nothing_else(
    at_desk: Cli, desk: Desk, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    del capfdbinary, monkeypatch
    put(desk, b"a\r\nb\n")
    assert at_desk("quarantine", "show", 1, "--raw").out == "a\r\nb\n"


def test_messages_are_dropped_by_id_or_all(at_desk: Cli, desk: Desk) -> None:
    for n in range(4):
        put(desk, b"%d" % n)
    assert at_desk("quarantine", "drop", 1, 3, 3).out == "2 messages dropped\n"
    assert [row.id for row in kept(desk)] == [4, 2]
    assert at_desk("quarantine", "drop", "--all").out == "2 messages dropped\n"
    assert kept(desk) == []


def test_rule_11_wrong_ids_are_said_and_change_nothing(at_desk: Cli, desk: Desk) -> None:
    put(desk, b"x")
    for verb in ("show", "drop", "retry"):
        args = (7,) if verb == "show" else (1, 7)
        said = at_desk("quarantine", verb, *args)
        assert said.code == 3
        assert "there is no quarantined message '7'" in said.err
        assert at_desk("quarantine", verb, "x").code == 2
        assert at_desk("quarantine", verb, "-1").code == 2
        assert at_desk("quarantine", verb).code == 2
    assert at_desk("quarantine", "drop", 1, "--all").code == 2
    assert len(kept(desk)) == 1


def test_a_return_that_is_good_by_now_is_accepted_and_dropped(at_desk: Cli, desk: Desk) -> None:
    session, good = pushed(desk)
    take_in(desk.broker.app.controller, good, "text/plain")
    assert at_desk("quarantine", "retry", 1).out == "1 was accepted, and is dropped\n"
    assert session.status() == "done"
    assert kept(desk) == []


def test_a_return_that_comes_too_late_is_fenced_and_dropped(at_desk: Cli, desk: Desk) -> None:
    session, good = pushed(desk)
    put(desk, good, source="return")
    session.cancel()
    said = at_desk("quarantine", "retry", 1)
    assert said.code == 0
    assert said.out.startswith("1 was fenced, and is dropped: ")
    assert kept(desk) == []


def test_one_that_is_still_wrong_stays_with_what_is_wrong_now(at_desk: Cli, desk: Desk) -> None:
    session, good = pushed(desk)
    put(desk, good.replace(b'"output": {}', b'"output": 1'), reason="some other reason")
    said = at_desk("quarantine", "retry", 1)
    assert said.code == 1
    assert said.out.startswith("it stays, as 2: return does not fit its contract at /output")
    (row,) = kept(desk)
    assert (row.id, row.source) == (2, "passdown.returns")
    assert "JSON object" in row.reason
    assert session.state().failures == 1


def test_one_that_is_wrong_as_before_stays_as_it_is(at_desk: Cli, desk: Desk) -> None:
    judged = take_in(desk.broker.app.controller, b"nothing", JSON)
    said = at_desk("quarantine", "retry", 1)
    assert (said.code, said.out) == (1, f"it stays, as 1: {judged.reason}\n")
    assert [row.id for row in kept(desk)] == [1]


def test_some_cannot_be_retried_and_then_none_is(at_desk: Cli, desk: Desk) -> None:
    session, good = pushed(desk)
    put(desk, good)
    put(desk, b"ding", source="passdown.push")
    said = at_desk("quarantine", "retry", 1, 2)
    assert said.code == 2
    assert "it came from 'passdown.push', and only returns can be retried" in said.err
    put(desk, b"[" * KEPT)
    assert "only its first 65536 bytes were kept" in at_desk("quarantine", "retry", 3).err
    assert session.status() == "running"
    assert len(kept(desk)) == 3


def test_an_event_that_was_given_up_is_for_its_readers_to_fetch(at_desk: Cli, desk: Desk) -> None:
    put(desk, b'{"id":"s0-a/4"}', source=SOURCE)
    said = at_desk("quarantine", "retry", 1)
    assert said.code == 2
    assert "publish it yourself (`passdown quarantine show 1 --raw`), then drop it" in said.err
    assert at_desk("quarantine", "show", 1, "--raw").out == '{"id":"s0-a/4"}'
    assert len(kept(desk)) == 1


def test_a_session_whose_pack_could_not_be_pushed_says_why(at_desk: Cli, desk: Desk) -> None:
    stage = Stage(role="away", delivery="push", lease_seconds=600.0)
    session = desk.broker.submit(desk.broker.register(Plan(name="pushed", start="a", stages={"a": stage})))
    assert "the pack to be pushed to role away (its queue: 1 ready" in at_desk("status", session.id).out
    full = Out()
    full.lying = 10**6
    Pusher(desk.broker.app.controller, full).push("away")
    assert "the message queue of its role is full" in at_desk("status", session.id).out
