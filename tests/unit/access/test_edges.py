"""Rules 10 and 11 at the edges: no public method forgets to ask who is there, and what is wrong is told as such."""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from passdown.agents import NeedsInput, Question
from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Scope
from passdown.broker.client import Broker
from passdown.broker.inbox import Draft, Inbox
from passdown.broker.session import Session
from passdown.contracts.errors import ContractError, Denied, NotFound, PassdownError, Unauthenticated
from passdown.contracts.pack import Resource
from tests.unit.broker.rig import Rig, plan
from tests.unit.cli.desk import Desk
from tests.unit.cli.doors import Doors

#: Public methods that ask for nothing, and why.
FREE = {
    "connect": "it opens a store and does nothing to it",
    "close": "it lets go of the store",
    "inbox": "each of its methods asks",
    "acting": "it is who asks",
    "by": "it is their own name",
    "each": "what it calls asks",
}
#: What stands for a required argument of this name.
GIVEN: dict[str, Any] = {
    "plan": "help", "specs": [], "work": [], "role": "helper", "goal": "Help.", "step": 1, "attempt": 1,
    "question": "reason", "value": "x", "ticket_no": 1, "resolution": "cancel", "reason": "gone", "for_s": 60.0,
    "text": "hm", "draft": Draft(), "person": Person(name="user:new"), "principal": "user:new", "by": "user:new",
    "token_id": "none", "version": 1,
}  # fmt: skip
BAD = "\ud800"


@pytest.fixture
def doors(tmp_path: Path) -> Iterator[Doors]:
    desk = Desk(tmp_path)
    yield Doors(desk, tmp_path)
    desk.close()


def _called(kind: type, name: str, of: Callable[[], Any], session_id: str) -> None:
    """Call a public method, or look at a property, with something for each argument that it needs."""
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        getattr(of(), name)
        return
    given = {**GIVEN, "session_id": session_id, "name": "a" if kind is Session else session_id}
    asked = list(inspect.signature(member).parameters.values())[1:]
    done = getattr(of(), name)(*[given[one.name] for one in asked if one.default is inspect.Parameter.empty])
    if inspect.isgenerator(done):
        next(done, None)


def _refuses(call: Callable[[], None], error: type[PassdownError]) -> bool:
    try:
        call()
    except PassdownError as raised:
        return type(raised) is error
    return False


def _methods() -> Iterator[tuple[type, str]]:
    for kind in (Broker, Session, Inbox, Directory):
        for name in sorted({name for name, _ in inspect.getmembers(kind) if not name.startswith("_")}):
            if name not in FREE:
                yield kind, name


def test_rule_10_every_public_method_asks_who_is_there(doors: Doors) -> None:
    revoked, token = doors.directory.create_token("user:operator", "user:me")
    doors.directory.revoke_token(token.id)
    bare, _ = doors.directory.create_token("user:operator", "user:me", scopes=[])
    before = doors.fingerprint()
    for text, error in ((revoked, Unauthenticated), (bare, Denied)):
        with Broker.connect(doors.desk.url, token=text) as broker:
            of: dict[type, Callable[[], Any]] = {
                Broker: lambda broker=broker: broker,
                Session: lambda broker=broker: Session(broker, doors.session_id),
                Inbox: lambda broker=broker: broker.inbox,
                Directory: lambda broker=broker: broker.directory,
            }
            asked_nobody = [
                f"{kind.__name__}.{name}"
                for kind, name in _methods()
                if not _refuses(
                    lambda kind=kind, name=name, of=of: _called(kind, name, of[kind], doors.session_id), error
                )
            ]
        assert asked_nobody == []
    assert doors.fingerprint() == before


def test_rule_10_no_group_is_a_principal(doors: Doors) -> None:
    with pytest.raises(ContractError, match="is a group"):
        doors.directory.set_person(Person(name="group:legal", roles=["operator"]))
    with pytest.raises(ContractError, match="is a group"):
        doors.directory.create_token("group:legal", "user:me")
    text, _ = doors.directory.create_token("user:operator", "user:me")
    with pytest.raises(Unauthenticated, match="act as a group"):
        _ = Broker(doors.desk.broker.app, "group:legal", token=text).acting


def test_rule_10_a_group_is_any_member_of_it_and_no_owner(doors: Doors) -> None:
    app = doors.desk.broker.app
    assert Broker(app, "group:refund-approvers").inbox.claim(doors.session_id, 1).holder
    with pytest.raises(Denied):
        Broker(app, "group:legal").inbox.claim(doors.session_id, 1)
    with pytest.raises(Denied):
        _ = Broker(app, "group:refund-approvers").directory


def test_rule_10_a_removed_principal_may_no_more_than_before(doors: Doors) -> None:
    doors.know("user:ann", "human", "legal")
    for _ in range(2):
        with pytest.raises(Denied):
            Broker(doors.desk.broker.app, "user:ann").inbox.claim(doors.session_id, 1)
        if doors.directory.person("user:ann"):
            doors.directory.remove_person("user:ann")
    assert Broker(doors.desk.broker.app, "user:somebody").acting.sees_all
    doors.know("user:ann", "operator")
    assert not doors.directory.was_removed("user:ann")
    assert Broker(doors.desk.broker.app, "user:ann").acting.sees_all


def test_rule_10_a_denial_of_the_core_is_logged_once() -> None:
    """Whoever opened a session may answer what it asks, but not what its plan asks of others."""
    rig = Rig()
    rig.broker.directory.set_person(Person(name="user:shop", roles=["producer"]))
    session = rig.person("user:shop").submit(rig.broker.register(plan(ask="desk")))
    rig.claim().give(NeedsInput([Question("why", "Why?")]))
    with capture_logs() as logs, pytest.raises(Denied):
        session.answer("why", "so")
    assert [(one["event"], one["by"]) for one in logs] == [("access.denied", "user:shop")]
    rig.broker.close()


SECONDS: list[Any] = [-5, 0, float("inf"), float("nan"), 1e300, 2**70, "5", True, []]
WRONG: dict[str, Callable[[Directory], object]] = {
    **{
        f"expires_s={seconds}": lambda one, seconds=seconds: one.create_token(
            "user:x", "user:y", expires_s=seconds
        )
        for seconds in SECONDS
    },
    **{
        f"{name}={value!r}": lambda one, name=name, value=value: getattr(one, name)(value)
        for name in ("person", "remove_person", "token", "revoke_token")
        for value in (BAD, None, 5, b"x")
    },
    "label": lambda one: one.create_token("user:x", "user:y", label=BAD),
    "no label": lambda one: one.create_token("user:x", "user:y", label=None),  # type: ignore[arg-type]
    "scope": lambda one: one.create_token("user:x", "user:y", scopes=[Scope(resource=BAD)]),
    "long scope": lambda one: one.create_token("user:x", "user:y", scopes=[Scope(verb="v" * 70_000)]),
    "no scopes": lambda one: one.create_token("user:x", "user:y", scopes=5),  # type: ignore[arg-type]
    "bearer": lambda one: one.create_token("user:" + BAD, "user:y"),
    "maker": lambda one: one.create_token("user:x", "user:" + BAD),
    "name": lambda one: one.set_person(Person(name="user:" + BAD)),
    "role": lambda one: one.set_person(Person(name="user:x", roles=["bogus"])),  # type: ignore[list-item]
    "group": lambda one: one.set_person(Person(name="user:x", groups=[5])),  # type: ignore[list-item]
    "groups": lambda one: one.set_person(Person(name="user:x", groups=["g"] * 20_000)),
    "nobody": lambda one: one.set_person(None),  # type: ignore[arg-type]
}


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker.connect(f"sqlite:///{tmp_path_factory.mktemp('edges')}/a.db", by="user:me") as broker:
        yield broker


@pytest.mark.parametrize("name", WRONG)
def test_rule_11_the_directory_refuses(known: Broker, name: str) -> None:
    with pytest.raises(ContractError):
        WRONG[name](known.directory)
    assert not list(known.directory.people())
    assert not known.directory.has_tokens()


BROKEN: dict[str, Callable[[Broker], object]] = {
    "session": lambda one: one.session(BAD),
    "session_id": lambda one: one.session_id(None),  # type: ignore[arg-type]
    "number": lambda one: one.session(5),  # type: ignore[arg-type]
    "list": lambda one: one.tickets(session_id=[]),  # type: ignore[arg-type]
    "comparison": lambda one: Session(one, "S").comparison("1"),  # type: ignore[arg-type]
    "token": lambda one: Broker(one.app, token=5),  # type: ignore[arg-type]
    "no token": lambda _: Broker.connect("sqlite:///:memory:", token=None),  # type: ignore[arg-type]
    "bytes": lambda one: one.sessions(before=b"x"),  # type: ignore[arg-type]
    "status": lambda one: one.sessions(status=BAD),
    "plan": lambda one: one.sessions(plan=BAD),
    "task": lambda one: one.sessions(task=BAD),
    "before": lambda one: one.sessions(before=BAD),
    "limit": lambda one: one.sessions(limit=2**70),
    "no limit": lambda one: one.sessions(limit=None),  # type: ignore[arg-type]
    "queue": lambda one: one.tickets(queue=BAD),
    "submit": lambda one: one.submit(BAD),
    "submit none": lambda one: one.submit(None),  # type: ignore[arg-type]
    "key": lambda one: one.submit("x", key=BAD),
    "resources": lambda one: one.submit("x", resources=[Resource(name=BAD, uri="x:y")]),
    "pause": lambda one: Session(one, "S").pause(for_s=float("nan")),
    "state": lambda one: Session(one, BAD).state(),
    "none": lambda one: Session(one, None).state(),  # type: ignore[arg-type]
    "pack": lambda one: Session(one, "S").pack(2**70, 1),
    "timeout": lambda one: Session(one, "S").result(timeout_s="5"),  # type: ignore[arg-type]
    "branches": lambda one: Session(one, "S").branches(limit=None),  # type: ignore[arg-type]
    "answer": lambda one: Session(one, "S").answer(BAD, "x"),
    "resolve": lambda one: Session(one, "S").resolve(2**70, "cancel"),
    "principal": lambda one: Broker(one.app, 5),  # type: ignore[arg-type]
    "surrogate": lambda one: Broker(one.app, "user:" + BAD),
}


@pytest.mark.parametrize("name", BROKEN)
def test_rule_11_a_broker_refuses_in_its_own_errors(known: Broker, name: str) -> None:
    with pytest.raises(PassdownError) as refused:
        BROKEN[name](known)
    assert isinstance(refused.value, ContractError | NotFound)
