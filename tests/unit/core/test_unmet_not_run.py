"""Approved, and never run; or not done, and the step is left without its agent's word: a person is told first (H29, DESIGN §6)."""

from typing import Any

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict
from passdown.contracts.plans import FAIL, Grant, Level, Next, Overdue, Plan
from passdown.contracts.replies import Recorded, Run, Suspended
from tests.unit.core.desk import ticket
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, two
from tests.unit.core.spec import BOB, CLERK, Session, like

MEMO = {**ARGS, "memo": "sorry"}
HOUR = 3_600_000
NOT_RUN = "refund was approved by user:bob, and not run"
ANOTHER = {"to": "x"}


def approved(approvals: int = 1, **fields: Any) -> tuple[Session, str]:
    """A session whose refund was approved, and whose agent is at work again; a mail needs a yes too."""
    grants = [
        Grant(tool="refund", approve="approvers", approvals=approvals, approval_seconds=3_600.0),
        Grant(tool="mail", approve="mailers"),
    ]
    session = Session(two(tools=grants, **fields), REFUND, MAIL).submit().claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    for by in (BOB, CLERK)[:approvals]:
        session.resolve("approve", by=by)
    return session.claim(), reply.effect_id


def asks(session: Session, why: str) -> None:
    """Check that the session asks about an approval, and waits."""
    assert (ticket(session).kind, ticket(session).queue, ticket(session).why) == ("unmet", "approvers", why)
    session.stands("waiting-human", step=1, issued=None)


def test_h29_what_was_approved_and_not_run_is_not_left_unseen() -> None:
    session, effect = approved()
    session.done({"go": 1}).then("Returned", like(ev.TicketOpened, kind="unmet", about=effect))
    asks(session, NOT_RUN)
    session.resolve("approve", by=CLERK).then("TicketResolved", like(ev.PackIssued, cause="human")).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)
    session.report(effect).done().then("Returned", "StageEntered", "PackIssued")


def test_denied_it_is_left_at_that() -> None:
    session, effect = approved()
    session.done({"go": 1}).resolve("deny").then("TicketResolved", "StageEntered", "PackIssued")
    assert session.pack.inputs["go"] == 1
    assert session.effect(effect).approval is None, "that yes is void"


def test_edited_it_runs_as_a_person_wrote_it() -> None:
    session, effect = approved()
    session.refuse("no need").then("Returned", "TicketOpened").resolve("edit", MEMO).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=MEMO)


def test_sent_back_the_yes_still_holds() -> None:
    session, effect = approved()
    session.done().resolve("send-back", "do pay").claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_each_yes_that_is_not_used_is_asked_about() -> None:
    session, _ = approved()
    for by in (CLERK, BOB):
        session.done().resolve("approve", by=by).claim()
    asks(session.done(), NOT_RUN)


def test_rule_08_as_many_people_as_before_approve_it_once_more() -> None:
    session, effect = approved(2)
    assert ticket(session.done()).approvals == 2
    session.resolve("approve", by=BOB).then("TicketApproved").resolve("approve", by=CLERK).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_a_yes_that_has_run_out_is_nobody_s_business() -> None:
    session, _ = approved()
    session.tick(HOUR + 1).done().then("Returned", "StageEntered", "PackIssued")


def test_nor_is_one_that_another_proposal_took_the_place_of() -> None:
    session, effect = approved()
    assert isinstance(session.intend("refund", MEMO), Suspended)
    session.resolve("deny").claim()
    assert session.intend("refund", MEMO) == Recorded(
        effect_id=effect, status="denied", error="a person denied it"
    )
    session.done().then("Returned", "StageEntered", "PackIssued")


def test_approved_once_more_after_it_failed_and_not_run() -> None:
    session, effect = approved()
    session.report(session.run("refund", ARGS), "failed", error="no funds").done()
    asks(session, "refund was approved by user:bob, and then failed: no funds")
    session.resolve("approve", by=CLERK).claim().done()
    asks(session, "refund was approved by user:carla, and not run")
    session.resolve("deny").then("TicketResolved", "StageEntered", "PackIssued")
    assert session.effect(effect).status == "failed"


def test_what_turned_out_not_to_have_happened_is_asked_about_where_it_is_not_repeated() -> None:
    session, effect = approved()
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="unsure").resolve("not-done", by=CLERK).claim().done()
    asks(session, "refund was approved by user:bob, and then turned out not to have happened")
    session.resolve("approve", by=CLERK).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_a_return_that_says_done_of_it_is_rejected_first() -> None:
    session, _ = approved()
    session.run("refund", ARGS)
    session.done().claim().settle(e1="unsure").resolve("not-done", by=CLERK)
    session.then("TicketResolved", "EffectSettled", "ReturnRejected", "PackIssued")


# Attempts that are used up


@pytest.mark.parametrize(("target", "follows"), [("tell", "StageEntered"), (FAIL, "Failed")])
@pytest.mark.parametrize("ran", [False, True])
def test_h29_attempts_that_are_used_up_do_not_hide_it(target: str, follows: str, ran: bool) -> None:
    session, _ = approved(max_attempts=1, on_failed=target)
    if ran:
        session.report(session.run("refund", ARGS), "failed", error="no funds")
    session.fail().then("ReturnRejected", like(ev.TicketOpened, kind="unmet"))
    asks(session, "refund was approved by user:bob, and then failed: no funds" if ran else NOT_RUN)
    session.refuses(Conflict, cmd.Retry(seen=session.state.seq), match="nothing to retry")
    session.resolve("deny")
    assert [type(one).__name__ for one in session.last][:2] == ["TicketResolved", follows]


def test_approved_once_more_the_step_goes_on_though_its_attempts_were_used_up() -> None:
    session, effect = approved(max_attempts=1, on_failed="tell")
    session.lose().resolve("approve", by=CLERK).then("TicketResolved", "PackIssued").claim()
    session.report(session.run("refund", ARGS)).fail().then("ReturnRejected", "StageEntered", "PackIssued")
    assert session.effect(effect).status == "done"


def test_where_a_person_decides_anyway_there_is_no_ticket_beside() -> None:
    session, _ = approved(max_attempts=1)
    session.fail().then("ReturnRejected", like(ev.TicketOpened, kind="failure"))
    session.resolve("complete", {}).then("TicketResolved", "StageEntered", "PackIssued")


# Rules of the plan that lead on


def test_h29_an_overdue_ticket_does_not_hide_it_and_nobody_is_asked_for_ever() -> None:
    rule = Overdue(after_seconds=60.0, to="tell")
    session, effect = approved(ask="desk", overdue=rule, escalation=[Level(queue="leads")])
    session.ask("why").due("ticket-escalate").then("TicketExpired", like(ev.TicketOpened, kind="unmet"))
    asks(session, NOT_RUN)
    session.due("ticket-escalate")
    session.then("TicketExpired", like(ev.StageEntered, stage="tell", reason="overdue"), "PackIssued")
    assert session.effect(effect).approval is None


def test_h29_a_no_to_something_else_does_not_hide_it() -> None:
    session, _ = approved(on_denied="tell")
    session.intend("mail", ANOTHER)
    session.resolve("deny").then("TicketResolved", like(ev.TicketOpened, kind="unmet"))
    asks(session, NOT_RUN)
    session.resolve("deny").then("TicketResolved", like(ev.StageEntered, reason="denied"), "PackIssued")


def test_a_no_whose_step_goes_on_leads_nowhere_and_nobody_is_asked() -> None:
    session, _ = approved()
    session.intend("mail", ANOTHER)
    session.resolve("deny").then("TicketResolved", "PackIssued")


def test_failed_in_time_and_opened_again_it_is_proposed_anew() -> None:
    session, effect = approved(max_attempts=1, on_failed=FAIL, overdue=Overdue(after_seconds=60.0, to=FAIL))
    session.fail().due("ticket-escalate").then("TicketExpired", "Failed")
    session.retry().claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    assert reply.effect_id == effect


# A yes that is void, of a write that the stage grants


LESS = {"order": "4711", "cents": 50}


def changed_its_mind(plan: Plan) -> Session:
    """The agent refunded, was lost, and refunds with another amount: a person made less of it, and that failed."""
    session = Session(plan, REFUND, MAIL).submit().claim()
    session.report(session.run("refund", {**ARGS, "cents": 10})).lose().claim()
    assert isinstance(session.intend("refund", ARGS), Suspended)
    session.resolve("edit", LESS).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=session.state.effects[1].effect_id, args=LESS)
    return session.report(session.state.effects[1].effect_id, "failed", error="no funds")


def test_rule_03_after_a_no_it_runs_with_a_new_yes_only_where_its_step_goes_on() -> None:
    session = changed_its_mind(one(tools=[Grant(tool="refund")], next=Next(to="work"), max_entries=1))
    session.done().resolve("deny").then("TicketResolved", like(ev.TicketOpened, kind="failure"))
    session.resolve("send-back", "once more").claim()
    assert isinstance(session.intend("refund", ARGS), Suspended)
    session.resolve("approve").claim()
    assert isinstance(session.intend("refund", ARGS), Run)


def test_rule_03_nor_without_one_where_nobody_decided_in_time() -> None:
    rule = Overdue(after_seconds=60.0, to=FAIL)
    session = changed_its_mind(one(tools=[Grant(tool="refund")], overdue=rule))
    session.done().due("ticket-escalate").then("TicketExpired", "Failed").retry().claim()
    assert isinstance(session.intend("refund", ARGS), Suspended)
