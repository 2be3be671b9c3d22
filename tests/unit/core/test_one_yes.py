"""One yes is one write: of exactly what was approved, on the terms that hold when it runs (rules 3, 5; DESIGN §6)."""

from typing import Any

import pytest
from msgspec.structs import replace

from passdown.contracts.errors import Conflict, Denied
from passdown.contracts.plans import Grant, Permit, Plan
from passdown.contracts.replies import Recorded, Run, Suspended
from tests.unit.core.desk import reassigning, ticket
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, stage, two
from tests.unit.core.spec import BOB, CLERK, Session

LARGE = ARGS
SMALL = {"order": "4711", "cents": 50}
MEMO = {**ARGS, "memo": "sorry"}
#: A stage may refund little by itself, and a person may permit more.
LITTLE = Grant(tool="refund", params={"cents": {"maximum": 100}})


def asking(**grant: Any) -> Plan:
    fields: dict[str, Any] = {"approve": "approvers", "approval_seconds": 3600.0, **grant}
    return one(tools=[Grant(tool="refund", **fields)])


def permitting(**permit: Any) -> Plan:
    fields: dict[str, Any] = {"queue": "security", **permit}
    return one(tools=[LITTLE], permits=[Permit(tool="refund", **fields)])


def proposed(plan: Plan) -> Session:
    session = Session(plan, REFUND, MAIL).submit().claim()
    assert isinstance(session.intend("refund", LARGE), Suspended)
    return session


def runs_of(session: Session, *calls: dict[str, Any]) -> list[Any]:
    """Make calls one after the other, each write at once, and return the arguments that were written."""
    written: list[Any] = []
    for args in calls:
        try:
            reply = session.intend("refund", args)
        except Denied:
            continue
        if isinstance(reply, Run):
            written.append(reply.args)
            session.report(reply.effect_id)
    return written


@pytest.mark.parametrize("plan", [asking(), permitting()], ids=["approval", "permission"])
@pytest.mark.parametrize("order", [(SMALL, LARGE), (LARGE, SMALL), (SMALL, LARGE, SMALL)])
def test_rule_03_a_call_and_the_edit_into_it_are_one_write(plan: Plan, order: tuple[Any, ...]) -> None:
    session = proposed(plan)
    session.resolve("edit", SMALL, by=BOB).claim()
    assert runs_of(session, *order) == [SMALL]
    assert isinstance(session.intend("refund", SMALL), Recorded)


def test_rule_03_nor_do_both_run_side_by_side() -> None:
    session = proposed(permitting())
    session.resolve("edit", SMALL, by=BOB).claim()
    assert isinstance(session.intend("refund", LARGE), Run)
    with pytest.raises(Denied, match="into it"):
        session.intend("refund", SMALL)
    assert [type(event).__name__ for event in session.last] == ["ToolDenied"]


def test_rule_03_nor_after_the_edit_failed() -> None:
    session = proposed(permitting())
    session.resolve("edit", SMALL, by=BOB).claim()
    session.report(session.run("refund", LARGE), "failed", error="no funds")
    with pytest.raises(Denied, match="call refund with the arguments first proposed"):
        session.intend("refund", SMALL)


def test_rule_03_an_edit_into_what_another_edit_became_is_refused() -> None:
    session = proposed(asking())
    session.resolve("edit", SMALL, by=BOB).claim()
    session.intend("refund", {"order": "4711", "cents": 700})
    with pytest.raises(Conflict, match="another effect"):
        session.resolve("edit", SMALL, by=BOB)


def test_an_edit_that_keeps_the_identity_leaves_a_second_call_free() -> None:
    session = proposed(asking())
    session.resolve("edit", MEMO, by=BOB).claim()
    assert runs_of(session, LARGE) == [MEMO]
    assert isinstance(session.intend("refund", LARGE, n=2), Suspended)


NARROW = {"cents": {"maximum": 1000}}
MUCH = {"order": "4711", "cents": 5000}


@pytest.mark.parametrize(
    ("plan", "newest"),
    [(asking(), asking(params=NARROW)), (permitting(), permitting(params=NARROW))],
    ids=["approval", "permission"],
)
def test_rule_05_what_a_person_changed_is_checked_when_it_runs(plan: Plan, newest: Plan) -> None:
    session = proposed(plan)
    session.resolve("edit", MUCH, by=BOB)
    session.newest = newest
    session.claim()
    assert isinstance(session.intend("refund", LARGE), Suspended), (
        "it is proposed anew as the agent called it"
    )
    assert ticket(session).edited is None


@pytest.mark.parametrize("plan", [asking, permitting])
def test_rule_05_and_at_each_further_yes(plan: Any) -> None:
    session = proposed(plan(approvals=2))
    session.resolve("edit", MUCH, by=BOB)
    session.newest = plan(approvals=2, params=NARROW)
    session.refuses(Denied, session.resolution("approve"), CLERK, match="approve refund with these arguments")


def test_a_yes_is_to_the_tool_as_it_was() -> None:
    session = proposed(asking())
    session.resolve("approve", by=BOB)
    session.register(replace(REFUND, description="pays ten times as much"))
    session.claim().release().claim()
    assert isinstance(session.intend("refund", LARGE), Suspended)


def test_an_edit_is_to_the_tool_as_it_was() -> None:
    session = proposed(asking())
    session.resolve("edit", MEMO, by=BOB)
    fields: dict[str, Any] = {name: {} for name in LARGE}
    params: dict[str, Any] = {"type": "object", "properties": fields, "additionalProperties": False}
    session.register(replace(REFUND, params=params))
    session.claim().release().claim()
    assert isinstance(session.intend("refund", LARGE), Suspended)


@pytest.mark.parametrize(
    "stricter", [{"approve": "legal"}, {"approvals": 2}, {"approve": "legal", "approvals": 3}]
)
@pytest.mark.parametrize("first", ["yes", "plan"])
def test_a_yes_does_not_outlive_what_the_plan_asked_then(stricter: dict[str, Any], first: str) -> None:
    session = proposed(asking())
    if first == "yes":
        session.resolve("approve", by=BOB)
        session.newest = asking(**stricter)
        session.claim().release().claim()
    else:
        session.newest = asking(**stricter)
        session.resolve("approve", by=BOB).claim()
    assert isinstance(session.intend("refund", LARGE), Suspended)
    assert (ticket(session).queue, ticket(session).approvals) == (
        stricter.get("approve", "approvers"),
        stricter.get("approvals", 1),
    )


def test_a_yes_given_on_another_level_is_one() -> None:
    session = proposed(asking())
    session.do(reassigning(session, to_queue="operators", claim_id=""), BOB)
    session.resolve("approve", by=CLERK).claim()
    assert isinstance(session.intend("refund", LARGE), Run)


def failed_once(plan: Plan, args: dict[str, Any]) -> Session:
    """A session that asks what to do about an approved write that failed."""
    session = proposed(plan)
    session.resolve("approve" if args == LARGE else "edit", None if args == LARGE else args, by=BOB).claim()
    session.report(session.run("refund", LARGE), "failed", error="no funds").done({})
    assert ticket(session).kind == "unmet"
    return session


BIG = {**ARGS, "memo": "m" * 5_000}


def test_a_large_edit_of_what_failed_runs() -> None:
    session = failed_once(asking(), LARGE)
    session.resolve("edit", BIG, by=BOB).claim()
    assert runs_of(session, LARGE) == [BIG]


def test_a_large_edit_that_failed_runs_once_more() -> None:
    session = failed_once(asking(), BIG)
    session.resolve("approve", by=BOB).claim()
    assert runs_of(session, LARGE) == [BIG]


def test_what_can_run_no_more_leaves_its_bulk_in_the_log() -> None:
    plan = two(stage(tools=[Grant(tool="mail")]), tools=[Grant(tool="refund", approve="approvers")])
    session = failed_once(plan, BIG)
    session.resolve("deny", by=BOB)
    session.claim()
    session.report(session.run("mail", {"to": "a"}))
    assert [row.edited for row in session.state.effects] == [None, None]
