"""Where several people must agree on one exact action (DESIGN §6, §9)."""

from typing import Any

from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, Denied
from passdown.contracts.plans import FAIL, Grant, Overdue
from passdown.contracts.replies import Run, Suspended
from passdown.contracts.tools import action_digest
from tests.unit.core.desk import LEASE, claim, claiming, reassigning, snoozing, ticket
from tests.unit.core.plans import ARGS, REFUND, one
from tests.unit.core.spec import ANN, BOB, CLERK, Session, like

DAN = "user:dan"
MEMO = {**ARGS, "memo": "sorry"}


def proposed(approvals: int = 2, **fields: Any) -> tuple[Session, str]:
    """A session whose refund waits for so many people."""
    grant = Grant(tool="refund", approve="approvers", approvals=approvals, approval_seconds=60.0)
    session = Session(one(tools=[grant], **fields), REFUND).submit().claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    return session, reply.effect_id


def test_the_last_yes_lets_it_run_and_each_is_of_another_person() -> None:
    session, effect = proposed(3)
    action = action_digest(effect, "refund", ARGS)
    session.resolve("approve", by=BOB, note="ok").then(
        like(ev.TicketApproved, action=action, note="ok", args=None)
    )
    session.stands("waiting-human", issued=None)
    session.resolve("approve", by=CLERK).then(like(ev.TicketApproved, action=action))
    assert (ticket(session).approved_by, ticket(session).version) == ([BOB, CLERK], 3)
    session.resolve("approve", by=DAN).then(
        like(ev.TicketResolved, resolution="approve", action=action, valid_until=session.at + 60_000),
        like(ev.PackIssued, cause="human"),
    )
    approval = session.effect(effect).approval
    assert (approval.by, approval.also) == (DAN, [BOB, CLERK])
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_rule_08_nobody_counts_twice_on_any_path() -> None:
    session, _ = proposed()
    session.resolve("approve", by=BOB)
    why = "whoever approved an action once does not approve it again"
    for body in (
        claiming(session),
        session.resolution("approve"),
        session.resolution("edit", MEMO),
        session.resolution("deny"),
        reassigning(session, to_queue="operators"),
        snoozing(session),
    ):
        session.refuses(Denied, body, BOB, match=why)
    session.refuses(Denied, reassigning(session, to=BOB), CLERK, match=why)


def test_who_approved_what_they_held_gives_it_back_with_that() -> None:
    session, _ = proposed()
    claim(session).resolve("approve", lease=LEASE).then("TicketApproved")
    assert ticket(session).holder is None
    claim(session, CLERK, "lease-2").resolve("approve", by=CLERK, lease="lease-2")
    session.then("TicketResolved", "PackIssued")


def test_what_rested_is_on_offer_again_once_somebody_approved() -> None:
    session, _ = proposed()
    session.do(snoozing(session), BOB)
    session.resolve("approve", by=CLERK)
    assert ticket(session).snoozed_until is None


def test_h04_two_who_approve_at_once_do_so_one_after_the_other() -> None:
    session, _ = proposed()
    both = session.resolution("approve")
    session.do(both, BOB)
    session.refuses(Conflict, both, CLERK, match="is at version 2, not 1")


def test_rule_08_h28_an_edit_is_another_action_and_voids_what_was_said_before() -> None:
    session, effect = proposed()
    edited = action_digest(effect, "refund", MEMO)
    session.resolve("approve", by=BOB)
    session.resolve("edit", MEMO, by=CLERK).then(like(ev.TicketApproved, action=edited, args=MEMO))
    assert (ticket(session).approved_by, ticket(session).action) == ([CLERK], edited)
    session.resolve("approve", by=BOB).then(
        like(ev.TicketResolved, resolution="edit", value=MEMO, action=edited), "PackIssued"
    )
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=MEMO)


def test_rule_08_an_edit_of_an_edit_voids_that_one_too() -> None:
    session, effect = proposed()
    session.resolve("edit", MEMO, by=BOB).resolve("edit", ARGS, by=CLERK).then("TicketApproved")
    assert ticket(session).approved_by == [CLERK]
    session.resolve("approve", by=BOB).claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_one_no_ends_it() -> None:
    session, effect = proposed()
    session.resolve("approve", by=BOB).resolve("deny", by=CLERK, note="too much")
    session.then(like(ev.TicketResolved, resolution="deny"), "PackIssued")
    assert session.effect(effect).status == "denied"


def test_a_second_yes_that_comes_too_late_is_told_so() -> None:
    session, effect = proposed(overdue=Overdue(after_seconds=60.0, to=FAIL))
    session.resolve("approve", by=BOB)
    seen = session.resolution("approve")
    session.due("ticket-escalate").then("TicketExpired", "Failed")
    session.refuses(Conflict, seen, CLERK, match="nobody resolved it in time")
    assert session.effect(effect).status == "denied"


def test_a_second_yes_after_the_call_was_called_off_is_told_so() -> None:
    session, _ = proposed()
    session.resolve("approve", by=BOB)
    seen = session.resolution("approve")
    session.cancel().refuses(Conflict, seen, CLERK, match="no longer open; user:ann was first")


def test_the_time_of_an_approval_counts_from_the_last_yes() -> None:
    session, _ = proposed()
    session.resolve("approve", by=BOB).tick(120_000).resolve("approve", by=CLERK).tick(60_000).claim()
    assert isinstance(session.intend("refund", ARGS), Run)


def test_rule_08_h25_whoever_initiated_it_is_neither_the_first_nor_the_second() -> None:
    session, _ = proposed()
    session.refuses(Denied, session.resolution("approve"), ANN)
    session.resolve("approve", by=BOB).refuses(Denied, session.resolution("approve"), ANN)


def test_the_newest_plan_may_ask_for_more_people_and_not_for_fewer() -> None:
    for pinned, newest, wanted in ((1, 2, 2), (2, 1, 2)):
        session = Session(
            one(tools=[Grant(tool="refund", approve="approvers", approvals=pinned)]),
            REFUND,
            newest=one(tools=[Grant(tool="refund", approve="approvers", approvals=newest)]),
        )
        session.submit().claim().intend("refund", ARGS)
        assert ticket(session).approvals == wanted
