"""Claiming a ticket, and what only its holder may do (DESIGN §9): versions, leases, lapses, take-over."""

from typing import Any

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, ContractError, Denied, NotFound, PassdownError
from passdown.contracts.plans import People
from passdown.contracts.ticket_commands import MOST_LEASE_MS
from tests.unit.core import situations
from tests.unit.core.desk import (
    LEASE,
    at,
    claim,
    claiming,
    extending,
    lapses,
    releasing,
    saying,
    taking_over,
    ticket,
    who,
)
from tests.unit.core.spec import ANN, BOB, CLERK, TICK, Session, like

LEASE_MS = 900_000


def asked(**people: Any) -> Session:
    """A session whose failure ticket waits on the desk."""
    return situations.failure(people=People(**people))


def held(by: str = BOB, **people: Any) -> Session:
    return claim(asked(**people), by)


def refused(session: Session, body: cmd.Body, by: str = BOB) -> str:
    """Return the words of a refusal that changed nothing, without the session's id."""
    with pytest.raises(PassdownError) as raised:
        session.decide(body, by)
    session.refuses(type(raised.value), body, by)
    return str(raised.value).replace(session.id, "S")


# Claim


def test_a_claim_holds_a_ticket_for_the_time_that_the_plan_says() -> None:
    session = held(lease_seconds=60.0)
    session.then(
        like(ev.TicketClaimed, ticket_no=1, claim_id=LEASE, until=session.at + 60_000, taken_from="")
    )
    holder = ticket(session).holder
    assert holder
    assert (holder.by, ticket(session).version) == (BOB, 2)


def test_a_claim_may_ask_for_another_time() -> None:
    claim(asked(), lease_ms=5).then(like(ev.TicketClaimed, until=situations.queued().at + 5))


def test_a_held_ticket_is_held_by_one_who_is_named_to_the_second() -> None:
    """H4: exactly one wins, and whoever comes second is told who did."""
    session = held().tick(60_000)
    error = session.refuses(Conflict, claiming(session, "lease-2"), CLERK)
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (BOB, "its lease runs 840 s more")
    assert str(error).replace(session.id, "S") == (
        "ticket S/1 is held; user:bob was first (its lease runs 840 s more)"
    )
    # Also where the ticket was seen before it was held.
    stale = claiming(session, "lease-2", version=1)
    assert refused(session, stale, CLERK) == str(error).replace(session.id, "S")


def test_a_claim_is_of_the_ticket_as_it_was_seen() -> None:
    session = held()
    session.do(releasing(session), BOB)
    assert refused(session, claiming(session, version=2), CLERK) == (
        "ticket S/1 is at version 3, not 2 (it is not decided, and nobody holds it: look at it again)"
    )


def test_a_claim_sent_again_changes_nothing() -> None:
    session = held()
    session.do(claiming(session, version=1), BOB)
    session.nothing()


def test_the_same_person_elsewhere_holds_it_with_one_lease_only() -> None:
    session = held()
    assert "is held; user:bob was first" in refused(session, claiming(session, "lease-2"))


@pytest.mark.parametrize("number", [0, -1, 2])
def test_a_ticket_that_was_never_opened_is_not_claimed(number: int) -> None:
    body = cmd.ClaimTicket(ticket_no=number, version=1, claim_id="x")
    asked().refuses(NotFound, body, BOB)


def test_a_ticket_that_was_decided_says_by_whom_and_how() -> None:
    session = asked().resolve("send-back", "better", CLERK)
    for body in (
        cmd.ClaimTicket(ticket_no=1, version=1, claim_id="x"),
        cmd.ExtendTicket(ticket_no=1, lease="x", seen_until=0),
        cmd.ReleaseTicket(ticket_no=1, lease="x"),
        cmd.ReleaseTicket(ticket_no=1, lease="x", why="access"),
        cmd.ReassignTicket(ticket_no=1, version=1, to_queue="operators"),
        cmd.SnoozeTicket(ticket_no=1, version=1, for_ms=1),
        cmd.WakeTicket(ticket_no=1, version=1),
        saying(session, number=1),
        session.resolution("cancel", ticket=1),
    ):
        assert refused(session, body) == "ticket S/1 is no longer open; user:carla was first (send-back)"


def test_h08_opening_never_claims_and_reading_is_no_command() -> None:
    assert ticket(asked()).holder is None


# Extend, release


def test_extending_goes_on_from_now() -> None:
    session = held().tick(600_000)
    session.do(extending(session), BOB)
    session.then(like(ev.TicketExtended, ticket_no=1, until=session.at + LEASE_MS))
    holder = ticket(session).holder
    assert holder
    assert (holder.until, ticket(session).version) == (session.at + LEASE_MS, 2)


def test_a_lease_that_would_hardly_run_longer_is_left_as_it_is() -> None:
    """A browser that extends each minute writes an event each quarter of the lease."""
    session = held().tick(LEASE_MS // 4 - 1)
    session.do(extending(session), BOB)
    session.nothing().tick(1)
    session.do(extending(session), BOB)
    session.then("TicketExtended")


@pytest.mark.parametrize("body", [extending, releasing])
def test_h01_only_the_holder_s_lease_is_good(body: Any) -> None:
    """Who else has read it, in the log, can do nothing with it."""
    session = held()
    for by, lease in ((CLERK, LEASE), (BOB, "lease-2"), (BOB, "")):
        assert refused(session, body(session, lease), by).startswith("ticket S/1 is held; user:bob was first")
    session.do(releasing(session), BOB)
    assert refused(session, body(session)) == "you no longer hold ticket S/1 (claim it again)"


def test_releasing_puts_a_ticket_back() -> None:
    session = held()
    session.do(releasing(session, reason="off\nshift"), BOB)
    session.then(like(ev.TicketReleased, holder=BOB, why="given-back", reason="off\nshift"))
    assert (ticket(session).holder, ticket(session).lapses, ticket(session).version) == (None, 0, 3)


def test_only_the_broker_says_that_a_claim_lapsed() -> None:
    session = held()
    assert "only the broker says that a claim lapsed" in refused(session, releasing(session, why="lapsed"))


def test_h16_whose_grant_was_withdrawn_holds_nothing_any_more() -> None:
    session = held()
    session.do(releasing(session, why="access", reason="left"), TICK)
    session.then(like(ev.TicketReleased, holder=BOB, why="access", reason="left"))
    session.do(releasing(session, why="access"), TICK)
    session.nothing()
    claim(session, CLERK, "lease-2").do(releasing(session, why="access"), TICK)
    session.nothing()


def test_rule_10_nobody_who_is_restricted_ends_the_claim_of_another() -> None:
    session = held()
    session.known[CLERK] = who("*")
    assert refused(session, releasing(session, why="access"), CLERK) == (
        "user:carla may not end the claim of somebody else: take the ticket over instead"
    )


# Lapse


def test_h14_what_nobody_goes_on_with_is_back_in_its_queue_and_counted() -> None:
    session = held()
    lapses(session).then(like(ev.TicketReleased, holder=BOB, why="lapsed"))
    assert (ticket(session).holder, ticket(session).lapses) == (None, 1)


def test_a_claim_that_was_extended_meanwhile_does_not_lapse() -> None:
    session = held()
    first = session.at + LEASE_MS
    session.tick(600_000).do(extending(session), BOB)
    at(session, "ticket-lease", first).nothing()


def test_a_claim_that_ran_out_is_good_until_somebody_says_otherwise() -> None:
    session = held().tick(10 * LEASE_MS)
    session.do(extending(session), BOB)
    session.then("TicketExtended").tick(10 * LEASE_MS)
    session.resolve("send-back", "x", BOB, lease=LEASE).then("TicketResolved", "PackIssued")


def test_another_s_claim_says_first_that_the_one_before_ran_out() -> None:
    session = held().tick(LEASE_MS - 1)
    assert "its lease runs 0 s more" in refused(session, claiming(session, "lease-2"), CLERK)
    claim(session.tick(1), CLERK, "lease-2").then(
        like(ev.TicketReleased, holder=BOB, why="lapsed"), like(ev.TicketClaimed, taken_from="")
    )
    assert (ticket(session).lapses, ticket(session).version) == (1, 4)
    assert "is held; user:carla was first" in refused(session, extending(session))


def test_a_clock_that_steps_back_does_not_bring_a_lapse_back() -> None:
    session = lapses(held())
    session.at -= LEASE_MS
    claim(session, CLERK, "lease-2").then("TicketClaimed")


# Take-over


def test_a_take_over_needs_a_reason_and_names_whom_it_was_taken_from() -> None:
    session = held()
    for reason in ("", "  \n"):
        body = taking_over(session, "lease-2", reason)
        session.refuses(ContractError, body, CLERK, match="say why: whoever holds it is told")
    session.do(taking_over(session, "lease-2"), CLERK)
    session.then(like(ev.TicketClaimed, taken_from=BOB, reason="she is ill"))
    assert "is held; user:carla was first" in refused(session, extending(session))
    assert ticket(session).lapses == 0


def test_a_take_over_of_what_nobody_holds_is_a_claim() -> None:
    session = asked()
    session.do(taking_over(session, "lease-2", ""), CLERK)
    session.then(like(ev.TicketClaimed, taken_from=""))


def test_a_take_over_is_of_what_was_seen() -> None:
    session = held()
    session.do(taking_over(session, "lease-2"), CLERK)
    stale = claiming(session, "lease-3", version=2, take_over=True, reason="r")
    session.refuses(Conflict, stale, ANN, match="user:carla was first")


# Who may


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (who("desk"), ""),
        (who("*"), ""),
        (who("leads"), "queue desk is served by the group of its name"),
    ],
)
def test_rule_10_whoever_serves_the_queue_claims(known: Any, why: str) -> None:
    session = situations.question_ticket()
    session.known[BOB] = known
    if why:
        assert refused(session, claiming(session)) == f"user:bob may not claim ticket S/1: {why}"
    else:
        claim(session).then("TicketClaimed")


def test_rule_10_people_who_are_named_and_skills_that_are_asked_for() -> None:
    session = asked(candidates=["group:tax"], skills=["{inputs.order}", "tax"])
    assert ticket(session).needs.skills == ["4711", "tax"]
    session.known = {BOB: who("*", skills=("tax",)), CLERK: who("tax", skills=("tax",))}
    assert refused(session, claiming(session)) == "user:bob may not claim ticket S/1: it is for group:tax"
    assert refused(session, claiming(session), CLERK).endswith("it needs the skill 4711")
    session.known[CLERK] = who("tax", skills=("tax", "4711"))
    claim(session, CLERK).then("TicketClaimed")


def test_rule_12_a_skill_out_of_a_session_s_data_is_bounded() -> None:
    session = situations.queued(people=People(skills=["{inputs.order}"]), max_attempts=1)
    session = Session(session.plan, *(one for _, one in session.registered.values()))
    session.submit({"order": "x" * 5_000}).claim().fail()
    assert len(ticket(session).needs.skills[0]) <= 102


# Decide


def test_h01_whoever_decides_what_they_hold_shows_its_lease() -> None:
    session = held()
    stale = session.resolution("cancel", lease="lease-0")
    assert "is held; user:bob was first" in refused(session, stale)
    assert "is held; user:bob was first" in refused(session, session.resolution("cancel"))
    assert "is held; user:bob was first" in refused(session, session.resolution("cancel", lease=LEASE), CLERK)
    session.resolve("send-back", "x", lease=LEASE).then("TicketResolved", "PackIssued")


def test_h01_whose_lease_was_taken_decides_nothing_any_more() -> None:
    session = lapses(held())
    assert refused(session, session.resolution("cancel", lease=LEASE)) == (
        "you no longer hold ticket S/1 (claim it again)"
    )
    claim(session.tick(1), CLERK, "lease-2").tick(LEASE_MS)
    said = refused(session, session.resolution("cancel", lease=LEASE))
    assert said.startswith("you no longer hold ticket S/1; user:carla was first (claim it again")


def test_what_nobody_holds_is_decided_at_once_also_where_a_claim_ran_out() -> None:
    asked().resolve("send-back", "x").then("TicketResolved", "PackIssued")
    held().tick(LEASE_MS).resolve("send-back", "x", CLERK).then(
        like(ev.TicketReleased, why="lapsed"), "TicketResolved", "PackIssued"
    )


def test_h01_who_held_it_elsewhere_and_let_it_run_out_claims_it_anew_or_shows_the_lease() -> None:
    session = held().tick(LEASE_MS)
    said = refused(session, session.resolution("send-back", "x"))
    assert said == "ticket S/1 is held; user:bob was first (its lease runs 0 s more)"
    claim(session, BOB, "lease-2").then(like(ev.TicketReleased, why="lapsed"), "TicketClaimed")


def test_h04_a_decision_is_of_the_version_that_was_seen() -> None:
    session = held()
    body = session.resolution("cancel", lease=LEASE, version=1)
    assert refused(session, body) == (
        "ticket S/1 is at version 2, not 1 (it is not decided, and user:bob holds it: look at it again)"
    )


def test_rule_10_deciding_needs_what_claiming_does() -> None:
    session = situations.question_ticket()
    session.known[BOB] = who("leads")
    said = refused(session, session.resolution("answer", {}))
    assert said == "user:bob may not answer ticket S/1: queue desk is served by the group of its name"


# Answers to questions that a queue was asked


def answering(session: Session) -> cmd.Answer:
    return cmd.Answer(step=1, attempt=1, id="why", value=1)


def test_rule_10_a_question_of_a_queue_is_answered_by_those_who_may_take_it() -> None:
    session = situations.question_ticket(people=People(exclude_initiator=True))
    session.refuses(Denied, answering(session), ANN, match="may not answer ticket")
    session.known[BOB] = who("leads")
    session.refuses(Denied, answering(session), BOB, match="served by the group of its name")
    session.answer("why", 1, CLERK).then("InputProvided")


def test_a_question_that_somebody_holds_is_theirs_to_answer() -> None:
    session = claim(situations.question_ticket())
    session.refuses(Conflict, answering(session), CLERK, match="is held; user:bob was first")
    session.answer("why", 1, BOB).then("InputProvided").tick(LEASE_MS)
    session.answer("when", 1, CLERK).then(
        "TicketReleased", "InputProvided", like(ev.TicketResolved, resolution="answer"), "PackIssued"
    )


def test_a_question_of_the_producer_is_no_ticket() -> None:
    session = situations.waiting_input()
    session.known[BOB] = who()
    session.answer("why", 1, BOB).then("InputProvided")


def test_the_longest_lease_is_a_day() -> None:
    assert MOST_LEASE_MS == 24 * 3_600_000
