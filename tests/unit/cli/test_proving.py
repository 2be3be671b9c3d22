"""`replay`: the log proves the state (rule 6), and tampering shows."""

import json
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from passdown.broker.cli import opening
from passdown.broker.cli.views.transitions import Replay, differences, prove
from passdown.broker.stores.base import Loaded, Store
from passdown.contracts.errors import NotFound
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


class Tampered:
    """A store whose stored bytes somebody changed: an event, or the state, by replacing a part of it."""

    def __init__(self, inner: Store, old: bytes, new: bytes | None, *, state: bool = False) -> None:
        self._inner = inner
        self._old = old
        self._new = new
        self._state = state

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def load(self, *args: str) -> Loaded:
        loaded = self._inner.load(*args)
        if not self._state or loaded.state is None:
            return loaded
        return replace(loaded, state=loaded.state.replace(self._old, self._new or b""))

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        every = self._inner.events(session_id, after=0, limit=1000)
        if not self._state and self._new is None:
            every = [one for one in every if self._old not in one]
        elif not self._state:
            every = [one.replace(self._old, self._new or b"") for one in every]
        return every[after : after + limit]


@pytest.fixture
def tamper(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Store]:
    """Let the command line, too, find the changed store."""

    def change(old: bytes, new: bytes | None, *, state: bool = False) -> Store:
        store: Any = Tampered(desk.broker.app.store, old, new, state=state)
        monkeypatch.setattr(opening, "open_store", Mock(return_value=store))
        return store

    return change


def test_the_log_gives_the_stored_state(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    said = at_desk("replay", "paid")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    count = session.state().seq
    assert len(lines) == count + 1
    assert lines[0].endswith("[new → queued]")
    assert lines[-2].endswith("[queued → done]")
    assert lines[-1].startswith(
        f"the log gives the stored state, byte for byte: {count} events, an unbroken chain, "
    )


def test_as_json_each_transition_is_a_line_and_the_proof_the_last(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    *lines, proof = [json.loads(line) for line in at_desk("replay", "paid", "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == list(range(1, session.state().seq + 1))
    assert [line["before"] for line in lines[1:]] == [line["after"] for line in lines[:-1]]
    assert proof["problems"] == []
    assert proof["sessionId"] == session.id


def test_all_sessions_are_proved_and_summed_up(at_desk: Cli, desk: Desk) -> None:
    desk.paid()
    desk.submit("k", orderId="1")
    events = sum(len(list(desk.broker.session(key).events())) for key in ("paid", "k"))
    said = at_desk("replay", "--all")
    assert said.code == 0
    assert said.out == f"2 sessions, {events} events: every log gives its stored state, byte for byte\n"
    lines = at_desk("replay", "--all", "--json").out.splitlines()
    assert [json.loads(line)["problems"] for line in lines] == [[], []]


def test_an_empty_store_is_proved_at_once(at_desk: Cli, desk: Desk) -> None:
    assert (
        at_desk("replay", "--all").out
        == "0 sessions, 0 events: every log gives its stored state, byte for byte\n"
    )


@pytest.mark.parametrize(("args", "code"), [([], 2), (["k", "--all"], 2), (["nope"], 3)])
def test_bad_usage_is_said(at_desk: Cli, desk: Desk, args: list[str], code: int) -> None:
    desk.submit("k", orderId="1")
    said = at_desk("replay", *args)
    assert (said.code, said.out) == (code, "")


def test_a_changed_event_breaks_the_chain(at_desk: Cli, desk: Desk, tamper: Callable[..., Store]) -> None:
    session = desk.paid()
    store = tamper(b'"result":{"id":"rf-4711"}', b'"result":{"id":"rf-9999"}')
    seq = next(json.loads(raw)["seq"] for raw in session.raw_events() if b'"EffectDone"' in raw)
    proof = prove(store, session.id)
    assert (proof.at, proof.events) == (seq + 1, seq)
    said = at_desk("replay", "paid")
    assert said.code == 1
    assert f"at event {seq + 1}: log does not fit its contract: event {seq + 1} (" in said.out
    assert "the chain is broken" in said.out


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"Completed"', b'"Nonsense"', "at event 24: log does not fit its contract"),
        (b'"Completed"', b'"Resumed"', "/head: stored "),
        (
            b'"seq":24',
            b' "seq":24',
            "at event 24: log does not fit its contract: event 24 is not in its canonical form",
        ),
        (b'{"seq":24', b'seq":24', "at event 24: log does not fit its contract: not UTF-8 JSON"),
        (
            b'"seq":24',
            b'"seq":25',
            "at event 24: log does not fit its contract: event 25 (Completed) does not follow on",
        ),
        (b'"Completed"', None, "the log has 23 events, the state is of event 24"),
        (b'"seq":4,', None, "at event 4: log does not fit its contract: event 5"),
        (b'"SessionOpened"', b'"Completed"', "at event 1: "),
    ],
)
def test_whatever_is_changed_in_the_log_shows(
    desk: Desk, tamper: Callable[..., Store], old: bytes, new: bytes | None, said: str
) -> None:
    session = desk.paid()
    proof = prove(tamper(old, new), session.id)
    assert not proof.holds
    assert any(one.startswith(said) for one in proof.problems)


def test_a_changed_state_shows_where(at_desk: Cli, desk: Desk, tamper: Callable[..., Store]) -> None:
    desk.submit("other", orderId="1")
    session = desk.paid()
    tamper(b'"by":"user:ann"', b'"by":"user:eve"', state=True)
    said = at_desk("replay", "paid")
    assert said.code == 1
    where = '  /effects/0/approval/by: stored "user:eve", the log gives "user:ann"'
    assert f"{session.id}: the log does not give the stored state\n" in said.out
    assert f"{where}\n" in said.out


def test_one_state_among_others_that_differs_shows(
    at_desk: Cli, desk: Desk, tamper: Callable[..., Store]
) -> None:
    desk.submit("other", orderId="1")
    desk.paid()
    tamper(b'"by":"user:ann"', b'"by":"user:eve"', state=True)
    every = at_desk("replay", "--all")
    assert every.code == 1
    assert every.out.splitlines()[-1] == "2 sessions, 35 events: 1 differ"


@pytest.mark.parametrize(
    ("stored", "folded", "said"),
    [
        (b'{"a":1}', b'{"a":2}', ["/a: stored 1, the log gives 2"]),
        (b'{"a":1}', b'{"a":1.0}', ["/a: stored 1, the log gives 1.0"]),
        (b'{"a":1,"b":1}', b'{"a":1}', ["/b: stored 1, the log gives null"]),
        (b'{"a":[1,2]}', b'{"a":[1]}', ["/a: stored 2 items, the log gives 1"]),
        (b'{"a":[{"b":1}]}', b'{"a":[{"b":2}]}', ["/a/0/b: stored 1, the log gives 2"]),
        (b'{ "a":1}', b'{"a":1}', ["the same content is stored in other bytes"]),
        (b"junk", b"{}", ["the stored state is not JSON: JSON is malformed: invalid character (byte 0)"]),
        (b"[]", b"{}", ["/: stored [], the log gives {}"]),
    ],
)
def test_differences_are_named_by_their_place(stored: bytes, folded: bytes, said: list[str]) -> None:
    assert differences(stored, folded) == said


def test_only_the_first_differences_are_named() -> None:
    assert len(differences(json.dumps(list(range(99))).encode(), json.dumps([0] * 99).encode())) == 5


def test_events_that_come_later_are_no_part_of_a_proof(desk: Desk) -> None:
    session = desk.submit("k", orderId="1")
    replay = Replay(desk.broker.app.store, session.id)
    session.pause()
    steps: list[Any] = list(replay)
    assert len(steps) == 3
    assert replay.proof().holds
    with pytest.raises(NotFound):
        Replay(desk.broker.app.store, "nope")
