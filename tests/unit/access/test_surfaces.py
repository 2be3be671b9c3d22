"""Rule 10 for the SDK: what each role may call, each on a copy of a store with an approval that waits."""

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.client import Broker
from passdown.broker.inbox import Draft, Inbox
from passdown.broker.session import Session
from passdown.contracts.errors import Denied, PassdownError
from tests.unit.cli.desk import PRODUCER, Desk, broker_on, help_plan
from tests.unit.cli.doors import Doors

WHO = {
    "producer": PRODUCER,
    "worker": "user:worker",
    "human": "user:human",
    "operator": "user:operator",
    "nobody": "user:nobody",
    "rival": "user:rival",
    "lawyer": "user:lawyer",
}
READERS = "producer human operator"
#: Method → what is called with the session's id, and who may: no other may, whatever else is wrong with the call.
#: `rival` is another producer, `lawyer` a human who serves another queue.
BROKER: dict[str, tuple[Callable[[Broker, str], object], str]] = {
    "register": (lambda broker, _: broker.register(help_plan()), "operator"),
    "register_tools": (lambda broker, _: broker.register_tools([]), "worker operator"),
    "submit": (lambda broker, _: broker.submit("help", key="new"), "producer rival operator"),
    "submit_all": (lambda broker, _: broker.submit_all("help", []), "producer rival operator"),
    "delegate": (lambda broker, _: broker.delegate("helper", "Help."), "producer rival operator"),
    "session": (lambda broker, id_: broker.session(id_), READERS),
    "sessions": (lambda broker, _: broker.sessions(), "producer human rival lawyer operator"),
    "queues": (lambda broker, _: broker.queues(), "operator"),
    "tickets": (lambda broker, _: broker.tickets(), "operator"),
    "ticket_page": (lambda broker, id_: broker.ticket_page(session_id=id_), "human operator"),
}
SESSION: dict[str, tuple[Callable[[Session], object], str]] = {
    "state": (Session.state, READERS),
    "status": (Session.status, READERS),
    "result": (lambda one: one.result(timeout_s=0), READERS),
    "events": (lambda one: list(one.events()), READERS),
    "raw_events": (lambda one: list(one.raw_events()), READERS),
    "beside": (Session.beside, READERS),
    "pack": (lambda one: one.pack(1, 1), READERS),
    "joins": (Session.joins, READERS),
    "branches": (Session.branches, READERS),
    "branch": (lambda one: one.branch("a"), READERS),
    "comparison": (lambda one: one.comparison(1), READERS),
    "answer": (lambda one: one.answer("reason", "x"), "producer operator"),
    "resolve": (lambda one: one.resolve(1, "approve"), "human operator"),
    "cancel": (Session.cancel, "producer operator"),
    "pause": (Session.pause, "producer operator"),
    "resume": (Session.resume, "producer operator"),
    "retry": (Session.retry, "producer operator"),
}
TAKERS = "human operator"
PEOPLE = "human lawyer operator"
INBOX: dict[str, tuple[Callable[[Inbox, str], object], str]] = {
    "next": (lambda inbox, _: inbox.next(), PEOPLE),
    "offered": (lambda inbox, _: inbox.offered(), PEOPLE),
    "mine": (lambda inbox, _: inbox.mine(), PEOPLE),
    "waiting": (lambda inbox, _: inbox.waiting("refund-approvers"), PEOPLE),
    "show": (lambda inbox, id_: inbox.show(id_, 1), TAKERS),
    "claim": (lambda inbox, id_: inbox.claim(id_, 1), TAKERS),
    "take_over": (lambda inbox, id_: inbox.take_over(id_, 1, "gone"), TAKERS),
    "extend": (lambda inbox, id_: inbox.extend(id_, 1), TAKERS),
    "release": (lambda inbox, id_: inbox.release(id_, 1), TAKERS),
    "reassign": (lambda inbox, id_: inbox.reassign(id_, 1, to="user:human"), TAKERS),
    "snooze": (lambda inbox, id_: inbox.snooze(id_, 1, 60), TAKERS),
    "wake": (lambda inbox, id_: inbox.wake(id_, 1), TAKERS),
    "comment": (lambda inbox, id_: inbox.comment(id_, 1, "hm"), TAKERS),
    "resolve": (lambda inbox, id_: inbox.resolve(id_, 1, "approve"), TAKERS),
    "draft": (lambda inbox, id_: inbox.draft(id_, 1), PEOPLE),
    "forget_draft": (lambda inbox, id_: inbox.forget_draft(id_, 1), PEOPLE),
    "keep_draft": (lambda inbox, id_: inbox.keep_draft(id_, 1, Draft()), TAKERS),
}
#: What gives nothing away, or only what is said elsewhere; `each` calls what it is told.
FREE = {"connect", "close", "session_id", "by", "acting", "inbox", "directory", "each"}


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    desk = Desk(tmp_path)
    made = Doors(desk, tmp_path)
    made.know_the_producer()
    made.know("user:rival", "producer")
    made.know("user:lawyer", "human", "legal")
    yield made
    desk.close()


def _called(doors: Doors, who: str, calls: dict[str, Any], of: Callable[[Broker, str], Any]) -> set[str]:
    """Return those of the calls that this principal is not denied."""
    session_id = doors.session_id
    allowed: set[str] = set()
    for name, (call, _) in calls.items():
        with broker_on(doors.copy(), WHO[who]) as broker:
            denied = False
            with suppress(PassdownError):
                try:
                    call(of(broker, session_id), *([session_id] if calls is not SESSION else []))
                except Denied:
                    denied = True
        allowed |= set() if denied else {name}
    return allowed


def _itself(broker: Broker, _: str) -> Broker:
    return broker


def _inbox(broker: Broker, _: str) -> Inbox:
    return broker.inbox


SURFACES: list[tuple[dict[str, tuple[Any, str]], Callable[[Broker, str], Any]]] = [
    (BROKER, _itself),
    (SESSION, Session),
    (INBOX, _inbox),
]


@pytest.mark.parametrize("who", WHO)
def test_rule_10_each_may_call_what_the_table_says(doors: Doors, who: str) -> None:
    for calls, of in SURFACES:
        expected = {name for name, (_, able) in calls.items() if who in able.split()}
        assert _called(doors, who, calls, of) == expected


@pytest.mark.parametrize(("kind", "calls"), [(Broker, BROKER), (Session, SESSION), (Inbox, INBOX)])
def test_no_public_method_was_left_out_above(kind: type, calls: dict[str, Any]) -> None:
    public = {name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}
    assert public - FREE == set(calls)
