"""Approved, and then it failed, and the agent ended without it: a person is told, and decides (H29, DESIGN §6)."""

from typing import Any

import pytest

from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError, Denied
from passdown.contracts.plans import Grant, Overdue, Permit
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.tools import action_digest
from tests.unit.core.desk import ticket
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, two
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, Session, like

MEMO = {**ARGS, "memo": "sorry"}
ACTIONS = ["approve", "deny", "edit", "send-back", "cancel"]


def failed(approvals: int = 1, *, edit: Any = None, **fields: Any) -> tuple[Session, str]:
    """A session whose refund was approved and failed, and whose agent goes on."""
    grants = [
        Grant(tool="refund", approve="approvers", approvals=approvals),
        Grant(tool="mail", approve="mailers"),
    ]
    session = Session(two(tools=grants, **fields), REFUND, MAIL).submit().claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    for by in (BOB, CLERK)[:approvals]:
        first = edit is not None and by == BOB
        session.resolve("edit" if first else "approve", edit if first else None, by=by)
    effect = session.claim().run("refund", ARGS)
    return session.report(effect, "failed", error="no funds"), effect


def unmet(approvals: int = 1, **fields: Any) -> tuple[Session, str]:
    """The agent returned without it."""
    session, effect = failed(approvals, **fields)
    return session.done({"go": 1}), effect


def test_h29_what_was_approved_and_failed_is_not_left_unseen() -> None:
    session, effect = unmet()
    session.then(
        "Returned",
        like(
            ev.TicketOpened,
            kind="unmet",
            queue="approvers",
            about=effect,
            action=action_digest(effect, "refund", ARGS),
            why="refund was approved by user:bob, and then failed: no funds",
            actions=ACTIONS,
        ),
    ).stands("waiting-human", step=1, issued=None)
    assert ticket(session).needs.excluded == [AGENT, ANN]


def test_h29_an_agent_that_refuses_after_that_is_asked_about_too() -> None:
    session, _ = failed()
    session.refuse("it did not work").then("Returned", like(ev.TicketOpened, kind="unmet"))
    session.resolve("deny").then("TicketResolved", like(ev.Refused, reason="it did not work"))


@pytest.mark.parametrize("verb", ["ask", "escalate"])
def test_where_a_person_is_asked_anyway_there_is_no_ticket_beside(verb: str) -> None:
    session, _ = failed()
    getattr(session, verb)("why")
    assert [one_.kind for one_ in session.state.tickets] == ([] if verb == "ask" else ["escalation"])


def test_approved_once_more_the_next_attempt_runs_it() -> None:
    session, effect = unmet()
    session.resolve("approve", by=CLERK).then(
        like(ev.TicketResolved, resolution="approve", action=action_digest(effect, "refund", ARGS)),
        like(ev.PackIssued, cause="human"),
    ).stands("queued", kept=None)
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)
    session.report(effect).done().then("Returned", "StageEntered", "PackIssued")


def test_approved_once_more_it_runs_though_other_effects_came_after_it() -> None:
    session, effect = failed()
    session.intend("mail", {"to": "x"})
    session.resolve("approve").claim().report(session.run("mail", {"to": "x"})).done()
    session.resolve("approve").claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_denied_the_return_is_followed() -> None:
    session, effect = unmet()
    session.resolve("deny").then(
        "TicketResolved", like(ev.StageEntered, stage="tell", reason="done"), "PackIssued"
    )
    assert session.pack.inputs["go"] == 1
    assert session.effect(effect).status == "failed"


def test_edited_the_next_attempt_runs_what_the_person_wrote() -> None:
    session, effect = unmet()
    session.refuses(ContractError, session.resolution("edit", {"order": 1}), BOB)
    session.resolve("edit", MEMO).then(like(ev.TicketResolved, resolution="edit", value=MEMO), "PackIssued")
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=MEMO)


def test_what_was_edited_before_runs_again_as_it_was_edited() -> None:
    session, effect = unmet(edit=MEMO)
    assert ticket(session).action == action_digest(effect, "refund", MEMO)
    session.resolve("approve", by=CLERK).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=MEMO)


def test_sent_back_the_agent_tries_again_and_is_asked_about_again() -> None:
    session, effect = unmet()
    session.resolve("send-back", "try the other card").then(
        "TicketResolved", like(ev.PackIssued, cause="rework")
    )
    assert [one_.text for one_ in session.pack.feedback] == ["try the other card"]
    session.claim()
    assert isinstance(session.intend("refund", ARGS), Suspended), "sending back is no approval"
    session.resolve("deny").claim().done().then("Returned", "StageEntered", "PackIssued")
    session, effect = unmet()
    session.resolve("send-back", "really?").claim().done().then(
        "Returned", like(ev.TicketOpened, kind="unmet", about=effect)
    )


def test_called_off_the_session_ends() -> None:
    session, _ = unmet()
    session.resolve("cancel").then("TicketResolved", "Cancelled")


def test_rule_08_four_eyes_hold_here_too() -> None:
    session, _ = unmet()
    for by in (AGENT, ANN):
        for resolution in ("approve", "deny", "edit"):
            session.refuses(
                Denied, session.resolution(resolution, MEMO), by, match="whoever initiated or proposed"
            )


def test_rule_08_as_many_people_as_before_approve_it_once_more() -> None:
    session, effect = unmet(2)
    assert ticket(session).approvals == 2
    session.resolve("approve", by=BOB).then("TicketApproved")
    session.resolve("approve", by=CLERK).then("TicketResolved", "PackIssued").claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)
    assert session.report(effect, "failed", error="e").done().state.tickets[0].approvals == 2


def test_two_of_them_are_asked_about_one_after_the_other() -> None:
    session, effect = failed()
    session.intend("mail", {"to": "x"})
    session.resolve("approve").claim()
    mail = session.run("mail", {"to": "x"})
    session.report(mail, "failed", error="bounced").done()
    session.then("Returned", like(ev.TicketOpened, kind="unmet", about=effect, queue="approvers"))
    session.resolve("deny").then(
        "TicketResolved", like(ev.TicketOpened, kind="unmet", about=mail, queue="mailers")
    )
    session.resolve("deny").then("TicketResolved", "StageEntered", "PackIssued")


def test_what_the_agent_proposed_anew_itself_is_asked_about_once() -> None:
    session, effect = failed()
    assert isinstance(session.intend("refund", ARGS), Suspended)
    session.resolve("deny", note="enough").claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=effect, status="denied", error="enough")
    session.done().then("Returned", "StageEntered", "PackIssued")


def test_what_needed_nobody_s_approval_and_failed_is_the_agent_s_affair() -> None:
    session = Session(two(tools=[Grant(tool="refund")]), REFUND).submit().claim()
    session.report(session.run("refund", ARGS), "failed", error="e").done()
    session.then("Returned", "StageEntered", "PackIssued")


def test_the_truth_that_arrives_late_withdraws_the_question() -> None:
    session, effect = unmet()
    claim_id = session.effect(effect).claims[0]
    session.report(effect, "done", claim_id=claim_id, result=1)
    withdrawn = like(ev.TicketWithdrawn, ticket_no=2, why="the truth arrived")
    session.then("EffectDone", withdrawn, like(ev.TicketOpened, kind="effect"), "StageEntered")


def test_a_paused_session_asks_all_the_same() -> None:
    session, _ = failed()
    session.pause().done().then("Returned", like(ev.TicketOpened, kind="unmet"))
    session.resolve("approve").then("TicketResolved").stands("paused", issued=None)
    session.resume().then("Resumed", like(ev.PackIssued, cause="human"))


def test_nobody_decided_in_time_and_the_overdue_rule_follows() -> None:
    session, effect = unmet(overdue=Overdue(after_seconds=60.0, to="tell"))
    session.due("ticket-escalate").then(
        "TicketExpired", like(ev.StageEntered, reason="overdue"), "PackIssued"
    )
    assert session.effect(effect).status == "failed"


def permitted() -> tuple[Session, str]:
    """A session whose permitted refund failed, and whose agent returned without it."""
    permit = Permit(tool="refund", queue="security", params={"cents": {"maximum": 5_000}})
    session = Session(one(permits=[permit]), REFUND).submit().claim()
    session.intend("refund", ARGS)
    effect = session.resolve("approve").claim().run("refund", ARGS)
    return session.report(effect, "failed", error="e").done(), effect


def test_what_was_permitted_and_failed_may_be_permitted_once_more() -> None:
    session, effect = permitted()
    assert (ticket(session).kind, ticket(session).queue) == ("unmet", "security")
    session.resolve("approve").claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)
    session, effect = permitted()
    session.refuses(ContractError, session.resolution("edit", {**ARGS, "cents": 6_000}), BOB, match="/cents")
    session.resolve("edit", MEMO).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=MEMO)
