"""The truth about a write comes late, and meets whatever its session does by then: it is taken, and the table knows it (rule 3)."""

from typing import Any

import pytest

from passdown.contracts import events as ev
from passdown.contracts.errors import Fenced
from passdown.contracts.plans import FAIL, Grant, Next, Overdue, Plan, Stage
from passdown.contracts.replies import Suspended
from tests.unit.core.joins import Parent, named
from tests.unit.core.plans import ARGS, MAIL, NO_WAIT, REFUND, one, stage, two
from tests.unit.core.spec import Session, like

GRANTS = [Grant(tool="refund"), Grant(tool="mail")]


def beside_a_settle() -> tuple[Session, str, str]:
    """An approval waits, and a worker finds out about a mail; returns also the mail and the claim that sent it."""
    grants = [Grant(tool="refund", approve="approvers"), Grant(tool="mail")]
    plan = one(tools=grants, overdue=Overdue(after_seconds=60.0, to=FAIL))
    session = Session(plan, REFUND, MAIL).submit().claim()
    mail, claim_id = session.run("mail", {"to": "x"}), session.fence.claim_id
    session.intend("refund", ARGS)
    return session.claim(), mail, claim_id


def test_rule_03_the_truth_ends_a_session_whose_settle_attempt_is_at_work() -> None:
    session, mail, claim_id = beside_a_settle()
    session.due("ticket-escalate").then("TicketExpired", like(ev.Ending, status="failed"))
    session.report(mail, claim_id=claim_id).then("EffectDone", "Failed").stands("failed", claim=None)
    with pytest.raises(Fenced):
        session.settle(e1="absent")


def test_nobody_approved_in_time_while_a_settle_attempt_has_nothing_left_to_find_out() -> None:
    session, mail, claim_id = beside_a_settle()
    session.report(mail, claim_id=claim_id).then("EffectDone").stands("running")
    session.due("ticket-escalate").then("TicketExpired", "Failed")


def branching() -> tuple[Parent, str, str]:
    """A refund is done, and of the branches after it one suffices: its merge is queued, the others are not called off yet."""
    stages = {
        "first": stage(tools=GRANTS, next=Next(to="spread")),
        "spread": Stage(fan_out=named(need="any"), next=Next(to="tell"), backoff=NO_WAIT),
        "work": stage(tools=GRANTS),
        "tell": stage(tools=GRANTS),
    }
    parent = Parent(Plan(name="fan", start="first", stages=stages), REFUND, MAIL)
    parent.submit().claim()
    refund, claim_id = parent.run("refund", ARGS), parent.fence.claim_id
    parent.report(refund).done()
    return parent.opens().ends(1).look(), refund, claim_id


def test_called_off_with_branches_at_work_while_a_person_is_asked_what_happened() -> None:
    session, refund, claim_id = branching()
    session.report(refund, "failed", claim_id=claim_id).then("EffectFailed", "TicketOpened").stands("queued")
    session.cancel().then("Ending").stands("waiting-human")
    session.resolve("done").then("TicketResolved").stands("waiting-join")


def test_called_off_while_a_merge_asks_and_a_person_is_asked_what_happened() -> None:
    session, refund, claim_id = branching()
    session.claim().ask("why")
    session.report(refund, "failed", claim_id=claim_id).stands("waiting-input")
    session.cancel().then("Ending").stands("waiting-human")


def test_a_kept_return_is_judged_while_branches_of_an_earlier_step_are_at_work() -> None:
    session, _, _ = branching()
    session.claim().done().stands("queued", stage="tell")
    session.claim().run("mail", {"to": "x"})
    claim_id = session.fence.claim_id
    session.done().claim().settle(e2="unsure").stands("waiting-human")
    mail = session.state.effects[1].effect_id
    session.report(mail, "failed", claim_id=claim_id)
    session.then("EffectFailed", "TicketWithdrawn", "ReturnRejected", "PackIssued")


def test_a_branch_is_sent_back_to_while_a_person_is_asked_what_happened_in_it() -> None:
    stages = {
        "spread": Stage(fan_out=named(), backoff=NO_WAIT),
        "work": stage(tools=GRANTS),
    }
    parent = Parent(Plan(name="fan", start="spread", stages=stages), REFUND, MAIL)
    branch = parent.submit().opens().branch(0).claim()
    refund = branch.run("refund", ARGS)
    branch.report(refund).done().report(refund, "failed").then("EffectFailed", "TicketOpened").stands("done")
    branch.rework(parent.join.join_id).then("Reopened").stands("waiting-human")
    branch.resolve("done").then("TicketResolved", "PackIssued")


def approved_anew(**fields: Any) -> tuple[Session, str, str]:
    """A refund failed, and was proposed and approved once more; returns also the refund and the claim that tried it."""
    grants = [Grant(tool="refund", approve="approvers")]
    session = Session(two(tools=grants, **fields), REFUND, MAIL).submit().claim()
    session.intend("refund", ARGS)
    session.resolve("approve").claim()
    refund, claim_id = session.run("refund", ARGS), session.fence.claim_id
    session.report(refund, "failed", error="no funds")
    assert isinstance(session.intend("refund", ARGS), Suspended)
    return session, refund, claim_id


def test_what_nobody_needs_to_approve_any_more_lets_the_step_go_on() -> None:
    session, refund, claim_id = approved_anew()
    session.report(refund, claim_id=claim_id).then("EffectDone", "TicketWithdrawn", "TicketOpened")
    session.resolve("done").then("TicketResolved", like(ev.PackIssued, cause="retry"))


def test_a_question_waits_for_its_answer_though_what_was_approved_did_happen() -> None:
    session, refund, claim_id = approved_anew()
    session.resolve("approve").claim().ask("why").report(refund, claim_id=claim_id)
    session.resolve("done").then("TicketResolved").stands("waiting-input", owed=None)
    session.answer("why", "so").then("InputProvided", like(ev.PackIssued, cause="input"))


def test_so_does_the_question_of_a_later_step() -> None:
    session, refund, claim_id = approved_anew()
    session.resolve("approve").claim().done().resolve("deny").claim().ask("why")
    session.report(refund, claim_id=claim_id).resolve("done").then("TicketResolved")
    session.stands("waiting-input", step=2, owed=None)


def test_so_does_a_step_that_a_person_decides() -> None:
    session, refund, claim_id = approved_anew(max_attempts=1)
    session.resolve("approve").claim().fail().then("ReturnRejected", like(ev.TicketOpened, kind="failure"))
    session.report(refund, claim_id=claim_id).stands("waiting-human", owed=None)
