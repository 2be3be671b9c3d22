"""Calls that a stage denies and a person may permit once (DESIGN §6; `Stage.permits`)."""

from typing import Any

import pytest

from passdown.broker.core.state import a2a_state
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.plans import FAIL, Grant, Level, Overdue, Permit, Plan
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.tools import narrow
from tests.unit.core.desk import ticket
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, Session, like

NARROW = {"cents": {"maximum": 500}}
WIDE = {"cents": {"maximum": 5_000}}
SMALL, LARGE, HUGE = ({"order": "4711", "cents": cents} for cents in (100, 900, 9_000))
PERMIT = Permit(tool="refund", queue="security", params=WIDE, approval_seconds=60.0)
#: The tool is not granted at all; or up to 500, and a person may permit up to 5,000.
ONLY = one(tools=[Grant(tool="mail")], permits=[PERMIT])
BEYOND = one(tools=[Grant(tool="mail"), Grant(tool="refund", params=NARROW)], permits=[PERMIT])


def running(plan: Plan = ONLY, *, newest: Plan | None = None) -> Session:
    return Session(plan, REFUND, MAIL, READ, newest=newest).submit().claim()


def asked(plan: Plan = ONLY, args: Any = LARGE) -> tuple[Session, str]:
    session = running(plan)
    reply = session.intend("refund", args)
    assert isinstance(reply, Suspended)
    return session, reply.effect_id


@pytest.mark.parametrize("plan", [ONLY, BEYOND])
def test_a_denied_call_within_a_permit_asks_a_person(plan: Plan) -> None:
    session, effect = asked(plan)
    session.then(
        like(ev.EffectProposed, effect_id=effect, args=LARGE),
        like(
            ev.TicketOpened,
            kind="permission",
            queue="security",
            about=effect,
            actions=["approve", "deny", "edit", "cancel"],
            why="refund: the stage denies it, and a person may permit it once",
        ),
    ).stands("waiting-human", claim=None, failures=0)
    assert ticket(session).needs.excluded == [AGENT, ANN]


@pytest.mark.parametrize("plan", [ONLY, BEYOND])
def test_what_a_person_permits_runs_once_and_exactly_so(plan: Plan) -> None:
    session, effect = asked(plan)
    session.resolve("approve").then("TicketResolved", like(ev.PackIssued, cause="human")).claim()
    assert session.intend("refund", LARGE) == Run(effect_id=effect, args=LARGE)
    session.report(effect, result=1)
    assert session.intend("refund", LARGE) == Recorded(effect_id=effect, status="done", result=1)
    again = session.intend("refund", LARGE, n=2)
    assert isinstance(again, Suspended)
    assert again.effect_id != effect
    assert ticket(session).kind == "permission"


def test_rule_08_h28_other_arguments_of_the_same_effect_are_asked_about_anew() -> None:
    session, effect = asked()
    session.resolve("approve").claim()
    reply = session.intend("refund", {**LARGE, "memo": "m"})
    assert isinstance(reply, Suspended)
    assert (reply.effect_id, ticket(session).kind) == (effect, "permission")


def test_a_permission_expires_like_an_approval() -> None:
    session, _ = asked()
    session.resolve("approve").tick(60_001).claim()
    assert isinstance(session.intend("refund", LARGE), Suspended)


def test_what_is_granted_runs_without_a_person_beside_a_permit() -> None:
    session = running(BEYOND)
    assert isinstance(session.intend("refund", SMALL), Run)


def test_rule_05_beyond_the_permit_a_call_is_denied() -> None:
    for plan in (ONLY, BEYOND):
        session = running(plan)
        session.refused_and_recorded(Denied, session.intent("refund", HUGE))
        session.then(like(ev.ToolDenied, tool="refund"))


def test_what_a_person_denies_is_told() -> None:
    session, effect = asked()
    session.resolve("deny", note="no").claim()
    assert session.intend("refund", LARGE) == Recorded(effect_id=effect, status="denied", error="no")


def test_rule_05_an_edit_stays_within_the_permit() -> None:
    session, effect = asked(BEYOND)
    session.refuses(ContractError, session.resolution("edit", HUGE), BOB, match="/cents")
    less = {"order": "4711", "cents": 800}
    session.resolve("edit", less).claim()
    assert session.intend("refund", LARGE) == Run(effect_id=effect, args=less)


def test_rule_08_four_eyes_and_several_people_as_of_an_approval() -> None:
    two = one(permits=[Permit(tool="refund", queue="security", approvals=2)])
    session, _ = asked(two)
    session.refuses(Denied, session.resolution("approve"), ANN, match="whoever initiated")
    session.resolve("approve", by=BOB).then("TicketApproved")
    session.resolve("approve", by=CLERK).then("TicketResolved", "PackIssued")


# The pack


def test_the_pack_says_what_may_be_permitted() -> None:
    for plan, params in ((ONLY, WIDE), (BEYOND, NARROW)):
        tools = {one_.name: one_ for one_ in running(plan).pack.tools}
        assert set(tools) == {"mail", "refund"}
        refund = tools["refund"]
        assert refund.params == narrow(REFUND.params, params)
        assert refund.needs_approval is (plan is ONLY)
        assert refund.permit == (None if plan is ONLY else narrow(REFUND.params, WIDE))
        assert tools["mail"].permit is None


def test_rule_05_a_reading_tool_is_never_permitted() -> None:
    session = running(one(permits=[Permit(tool="orders.read", queue="security")]))
    assert session.pack.tools == []
    session.note(cmd.ToolNote(tool="orders.read", args={"id": 1})).then("ToolDenied")
    session.refused_and_recorded(Denied, session.intent("orders.read", {"id": 1}))


def test_rule_05_a_permit_is_bound_by_the_stage_s_scopes() -> None:
    session = running(one(permits=[PERMIT], scopes=["mail:send"]))
    assert session.pack.tools == []
    session.refused_and_recorded(Denied, session.intent("refund", LARGE))


def test_what_was_never_registered_may_not_be_permitted_and_holds_nothing_up() -> None:
    session = Session(ONLY, MAIL).submit().claim()
    assert [one_.name for one_ in session.pack.tools] == ["mail"]


# The newest plan


def newest(*permits: Permit, tools: list[Grant] | None = None) -> Plan:
    return one(tools=[Grant(tool="mail")] if tools is None else tools, permits=list(permits))


def test_the_newest_plan_withdraws_a_permit() -> None:
    session = running(newest=newest())
    assert [one_.name for one_ in session.pack.tools] == ["mail"]
    session.refused_and_recorded(Denied, session.intent("refund", LARGE))


def test_a_permit_that_is_withdrawn_while_an_attempt_runs_bothers_nobody() -> None:
    session = running()
    session.newest = newest()
    session.refused_and_recorded(Denied, session.intent("refund", LARGE))


def test_a_permission_that_is_withdrawn_after_it_was_given_is_denied_at_its_call() -> None:
    session, _ = asked()
    session.newest = newest()
    session.resolve("approve").claim()
    session.refused_and_recorded(Denied, session.intent("refund", LARGE))


def test_the_newest_plan_narrows_a_permit_and_asks_more_people_elsewhere() -> None:
    less = Permit(tool="refund", queue="audit", approvals=2, params={"cents": {"maximum": 1_000}})
    session = running(newest=newest(less))
    session.refused_and_recorded(Denied, session.intent("refund", {"order": "1", "cents": 2_000}))
    session.intend("refund", LARGE)
    assert (ticket(session).queue, ticket(session).approvals) == ("audit", 2)


def test_the_newest_plan_permits_no_more_than_the_pinned_one() -> None:
    session = running(newest=newest(Permit(tool="refund", queue="security")))
    session.refused_and_recorded(Denied, session.intent("refund", HUGE))
    session = running(one(), newest=newest(PERMIT))
    session.refused_and_recorded(Denied, session.intent("refund", LARGE))


def test_rule_05_a_grant_that_was_withdrawn_is_no_grant_for_being_permitted_too() -> None:
    """The pack still carries the tool, for the permit's sake: the call must ask a person."""
    both = one(tools=[Grant(tool="refund")], permits=[PERMIT])
    session = running(both, newest=one(permits=[PERMIT]))
    assert isinstance(session.intend("refund", LARGE), Suspended)
    assert ticket(session).kind == "permission"
    session = running(both, newest=one(permits=[PERMIT]))
    session.refused_and_recorded(Denied, session.intent("refund", HUGE))


def test_rule_08_who_approves_what_is_granted_has_not_permitted_what_is_denied_by_now() -> None:
    grant = Grant(tool="refund", approve="approvers")
    session, _ = asked(one(tools=[grant], permits=[PERMIT]))
    assert ticket(session).kind == "approval"
    session.resolve("approve").claim()
    session.newest = one(tools=[Grant(tool="refund", approve="approvers", params=NARROW)], permits=[PERMIT])
    assert isinstance(session.intend("refund", LARGE), Suspended)
    assert (ticket(session).kind, ticket(session).queue) == ("permission", "security")


def test_a_permission_escalates_and_expires_like_any_ticket() -> None:
    path = [Level(queue="leads"), Level(queue="boss", after_seconds=60.0)]
    session, _ = asked(one(permits=[PERMIT], escalation=path))
    session.due("ticket-escalate").then(like(ev.TicketEscalated, queue="boss"))


def test_rule_08_what_nobody_permitted_in_time_is_denied() -> None:
    session, effect = asked(one(permits=[PERMIT], overdue=Overdue(after_seconds=60.0, to=FAIL)))
    session.due("ticket-escalate").then("TicketExpired", "Failed")
    assert (session.effect(effect).status, session.effect(effect).error) == (
        "denied",
        "nobody approved it in time",
    )


def test_rule_08_an_agent_is_shown_that_it_waits_for_an_authorization() -> None:
    session, _ = asked()
    assert a2a_state(session.state) == "auth-required"


def test_args_of_a_permit_are_those_of_the_tool() -> None:
    session = running(one(permits=[Permit(tool="refund", queue="security")]))
    session.refused_and_recorded(Denied, session.intent("refund", {"cents": 1}))
    assert isinstance(session.intend("refund", ARGS), Suspended)
