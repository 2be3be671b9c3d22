"""How long a ticket may wait: levels, the overdue rule, and what is due by when (DESIGN §9)."""

from typing import Any

import pytest

from passdown.broker.core import sla
from passdown.broker.core.decide import dues
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict
from passdown.contracts.plans import ALERTS, FAIL, Calendar, Level, Overdue, People, Plan, Stage
from passdown.contracts.replies import Recorded
from tests.unit.core import joins, situations
from tests.unit.core.desk import at, claim, lapses, reassigning, snoozing, ticket
from tests.unit.core.plans import MAIL, READ, REFUND, stage, two, writing
from tests.unit.core.spec import BOB, TICK, Session, like

HOUR_MS = 3_600_000
PATH = [
    Level(queue="leads"),
    Level(queue="heads", after_seconds=3_600.0),
    Level(queue="boss", after_seconds=7_200.0),
]
TO_TELL = Overdue(after_seconds=10_800.0, to="tell")
TO_FAIL = Overdue(after_seconds=10_800.0, to=FAIL)


def asked(**fields: Any) -> Session:
    """A session whose failure ticket waits, with a path of escalation."""
    return situations.failure(**{"escalation": PATH, **fields})


def kinds(session: Session) -> list[str]:
    return [one.kind for one in dues(session.state)]


# When


def plan(**fields: Any) -> tuple[Plan, Stage]:
    one = stage(**fields)
    night = Calendar(zone="UTC", hours={day: [(540, 1020)] for day in ("mon", "tue", "wed", "thu", "fri")})
    return Plan(name="p", start="a", calendars={"office": night}, stages={"a": one}), one


def test_each_level_counts_from_the_opening_and_the_overdue_rule_is_last() -> None:
    found = plan(escalation=PATH, overdue=TO_TELL)
    steps = [sla.next_step(*found, level, 1_000) for level in range(5)]
    assert [one and (one.to, one.at, one.level) for one in steps] == [
        ("", 1_000 + HOUR_MS, 2),
        ("", 1_000 + HOUR_MS, 2),
        ("", 1_000 + 2 * HOUR_MS, 3),
        ("tell", 1_000 + 3 * HOUR_MS, 4),
        None,
    ]


def test_where_the_plan_says_nothing_nothing_is_due() -> None:
    assert sla.next_step(*plan(), 0, 1_000) is None
    assert sla.next_step(*plan(escalation=PATH), 3, 1_000) is None
    assert sla.due_at(*plan(), 1_000, None) is None


def test_the_overdue_rule_needs_no_path() -> None:
    step = sla.next_step(*plan(overdue=TO_TELL), 0, 1_000)
    assert step == sla.NextStep(1_000 + 3 * HOUR_MS, 1, to="tell")


def test_h19_delays_count_in_working_hours() -> None:
    """Friday 16:30 and an hour of work is Monday 9:30."""
    friday, monday = 1_704_472_200_000, 1_704_706_200_000
    found = plan(escalation=PATH, people=People(calendar="office", due_seconds=3_600.0))
    step = sla.next_step(*found, 0, friday)
    assert step
    assert step.at == monday
    assert sla.due_at(*found, friday, None) == monday


def test_a_ticket_is_due_as_the_plan_says_else_by_what_happens_next() -> None:
    assert sla.due_at(*plan(people=People(due_seconds=60.0)), 0, 5) == 60_000
    assert sla.due_at(*plan(escalation=PATH), 0, None) == HOUR_MS
    assert sla.due_at(*plan(escalation=PATH), 0, 5) == 5
    assert sla.due_at(*plan(), 0, 5) == 5


# Levels


def test_a_ticket_that_nobody_resolves_goes_up_level_by_level() -> None:
    session = asked(people=People(candidates=[BOB], skills=["tax"]))
    opened = session.at
    assert (ticket(session).queue, ticket(session).level, ticket(session).due_at) == (
        "leads",
        0,
        opened + HOUR_MS,
    )
    session.due("ticket-escalate").then(
        like(ev.TicketEscalated, level=2, queue="heads", escalate_at=opened + 2 * HOUR_MS)
    )
    one = ticket(session)
    assert (one.queue, one.needs.candidates, one.needs.skills, one.version) == ("heads", [], ["tax"], 2)
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=3, queue="boss", escalate_at=None))
    assert kinds(session) == []
    session.resolve("send-back", "x").then("TicketResolved", "PackIssued")


def test_while_somebody_holds_it_a_ticket_does_not_escalate_and_does_at_once_after_that() -> None:
    session = claim(asked(people=People(lease_seconds=10_000.0)))
    due = session.at + HOUR_MS
    assert kinds(session) == ["ticket-lease"]
    at(session, "ticket-escalate", due).nothing()
    lapses(session).then("TicketReleased")
    assert session.at > due
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=2))


def test_what_rests_escalates_and_rests_no_more() -> None:
    session = asked()
    session.do(snoozing(session, 2 * HOUR_MS), BOB)
    assert kinds(session) == ["ticket-wake", "ticket-escalate"]
    session.due("ticket-escalate").then("TicketEscalated")
    assert ticket(session).snoozed_until is None


def test_a_level_that_passed_meanwhile_comes_once() -> None:
    session = asked()
    first = session.at + HOUR_MS
    session.due("ticket-escalate")
    at(session, "ticket-escalate", first).nothing()


def test_what_was_resolved_does_not_escalate() -> None:
    session = asked()
    due = session.at + HOUR_MS
    session.resolve("send-back", "x").tick(2 * HOUR_MS).claim().fail()
    at(session, "ticket-escalate", due).nothing()


def test_h05_a_ticket_in_the_alerts_still_goes_its_way() -> None:
    session = asked(overdue=TO_TELL)
    session.do(reassigning(session, to_queue=ALERTS), BOB)
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=2, queue="heads"))


def test_two_levels_that_are_due_come_one_after_the_other() -> None:
    session = asked().tick(5 * HOUR_MS)
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=2))
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=3))


# Overdue


def overdue(session: Session) -> Session:
    """Let every level pass, and the overdue rule come up."""
    while any(one.kind == "ticket-escalate" for one in dues(session.state)):
        session.due("ticket-escalate")
        if any(not isinstance(one, ev.TicketEscalated) for one in session.last):
            break
    return session


def test_the_overdue_rule_leads_to_a_stage() -> None:
    session = overdue(asked(overdue=TO_TELL))
    session.then(
        like(ev.TicketExpired, ticket_no=1, to="tell"),
        like(ev.StageEntered, stage="tell", reason="overdue"),
        "PackIssued",
    ).stands("queued", tickets=[])
    error = session.refuses(Conflict, session.resolution("cancel", ticket=1), BOB)
    assert str(error).endswith(f"no longer open; {TICK} was first (expired: nobody resolved it in time)")


def test_the_overdue_rule_fails_the_session() -> None:
    session = overdue(asked(overdue=TO_FAIL))
    session.then("TicketExpired", like(ev.Failed, reason="nobody resolved ticket 1 in time")).stands("failed")
    session.retry().then("PackIssued")


@pytest.mark.parametrize("to", ["tell", FAIL])
def test_a_question_that_nobody_answered_is_forgotten(to: str) -> None:
    rule = Overdue(after_seconds=60.0, to=to)
    session = overdue(situations.question_ticket(overdue=rule))
    names = ["StageEntered", "PackIssued"] if to == "tell" else ["Failed"]
    session.then("TicketExpired", *names)
    assert session.state.questions == []


def test_a_person_s_stage_that_nobody_did_goes_on() -> None:
    second = Stage(queue="desk", overdue=Overdue(after_seconds=60.0, to="work"))
    session = Session(two(second), READ).submit().claim().done()
    overdue(session).then(
        "TicketExpired", like(ev.StageEntered, stage="work", reason="overdue"), "PackIssued"
    )


@pytest.mark.parametrize("to", ["tell", FAIL])
def test_rule_08_what_nobody_approved_is_denied(to: str) -> None:
    session = situations.approval(overdue=Overdue(after_seconds=60.0, to=to))
    effect = session.state.effects[0].effect_id
    overdue(session)
    assert (session.effect(effect).status, session.effect(effect).error) == (
        "denied",
        "nobody approved it in time",
    )
    session.refuses(
        Conflict, session.resolution("approve", ticket=1), BOB, match="nobody resolved it in time"
    )
    if to == FAIL:
        session.retry().claim()
        assert session.intend("refund", situations.ARGS) == Recorded(
            effect_id=effect, status="denied", error="nobody approved it in time"
        )


@pytest.mark.parametrize("kind", ["conflict", "short"])
@pytest.mark.parametrize("to", ["tell", FAIL])
def test_a_join_about_which_nobody_decided_is_left(kind: str, to: str) -> None:
    session = joins.asked(kind, overdue=Overdue(after_seconds=60.0, to=to))
    overdue(session)
    names = [type(one).__name__ for one in session.last]
    if to == "tell":
        assert names == ["TicketExpired", "Joined", "StageEntered", "PackIssued"]
        session.then("TicketExpired", like(ev.Joined, how="left"), "StageEntered", "PackIssued")
    else:
        assert names[0] == "TicketExpired"
        assert names[-1] in ("Failed", "Ending")


def test_rule_03_whether_a_write_happened_is_no_matter_of_time() -> None:
    session = situations.effect_ticket(escalation=PATH, overdue=TO_TELL)
    overdue(session).then(like(ev.TicketEscalated, level=4, queue=ALERTS, escalate_at=None))
    session.stands("waiting-human", step=1)
    assert (ticket(session).kind, kinds(session)) == ("effect", [])
    session.resolve("done").then("TicketResolved", "EffectSettled", "PackIssued")


def test_rule_03_it_escalates_also_where_the_session_is_over() -> None:
    session = situations.done()
    session.plan = writing(escalation=PATH, overdue=TO_FAIL)
    session.report(session.state.effects[0].effect_id, "failed").stands("done")
    session.due("ticket-escalate").then("TicketEscalated")
    overdue(session).then(like(ev.TicketEscalated, queue=ALERTS)).stands("done")


def both(to: str) -> Session:
    """A session whose refund waits for its approval while nobody knows whether its mail went out."""
    session = (
        Session(writing("approvers", overdue=Overdue(after_seconds=60.0, to=to)), REFUND, MAIL)
        .submit()
        .claim()
    )
    session.run("mail", {"to": "a"})
    session.intend("refund", situations.ARGS)
    return session


@pytest.mark.parametrize("claimed", [False, True])
def test_rule_03_the_overdue_rule_waits_until_what_is_unknown_is_settled(claimed: bool) -> None:
    session = both("tell")
    if claimed:
        session.claim()
    session.due("ticket-escalate").then("TicketExpired").stands("running" if claimed else "queued", step=1)
    if not claimed:
        session.claim()
    session.settle(e1="found").then(
        "EffectSettled", "ClaimReleased", like(ev.StageEntered, stage="tell", reason="overdue"), "PackIssued"
    )


def test_rule_03_the_overdue_rule_waits_for_a_person_who_says_what_happened() -> None:
    session = both("tell").due("ticket-escalate").claim().settle(e1="unsure").stands("waiting-human", step=1)
    session.resolve("done").then("TicketResolved", "EffectSettled", "StageEntered", "PackIssued")


def test_rule_03_a_session_that_is_to_fail_ends_once_all_is_settled() -> None:
    session = both(FAIL).due("ticket-escalate").then("TicketExpired", like(ev.Ending, status="failed"))
    session.claim().settle(e1="found").stands("failed")


def test_a_paused_session_goes_where_its_overdue_ticket_leads_and_issues_nothing() -> None:
    session = asked(escalation=[], overdue=TO_TELL).pause()
    overdue(session).then("TicketExpired", "StageEntered").stands("paused", issued=None)
    session.resume().then("Resumed", "PackIssued")


def test_the_overdue_rule_is_bound_like_every_move_and_ends_there() -> None:
    """A ticket about the bound would be overdue in its turn, and the next one, for ever."""
    rule = Overdue(after_seconds=60.0, to="work")
    session = Session(writing(max_attempts=1, overdue=rule, max_entries=2), REFUND, MAIL)
    session.submit({"order": "1"}).claim().fail()
    overdue(session).then("TicketExpired", like(ev.StageEntered, stage="work"), "PackIssued")
    session.claim().fail()
    why = "nobody decided in time, and the move to work would go beyond the bound of 2 entries"
    overdue(session).then("TicketExpired", like(ev.Failed, reason=why))


def test_a_ticket_that_is_held_does_not_expire() -> None:
    session = claim(asked(escalation=[], overdue=Overdue(after_seconds=60.0, to="tell")))
    at(session, "ticket-escalate", session.at + 60_000).nothing()
    lapses(session)
    overdue(session).then("TicketExpired", "StageEntered", "PackIssued")
