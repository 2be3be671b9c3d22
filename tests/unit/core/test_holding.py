"""Handing a ticket on, putting it off, speaking of it, and alerts about it (DESIGN §9)."""

from collections.abc import Callable
from typing import Any

import pytest

from passdown.broker.core.holding import MOST_COMMENTS, queues_of
from passdown.broker.core.lanes import needs_of
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied
from passdown.contracts.plans import ALERTS, FanOut, Grant, Level, Overdue, People, Permit, Plan, Stage
from tests.unit.core import situations
from tests.unit.core.desk import (
    LEASE,
    alerting,
    at,
    claim,
    claiming,
    lapses,
    reassigning,
    releasing,
    saying,
    snoozing,
    taking_over,
    ticket,
    waking,
    who,
)
from tests.unit.core.plans import stage
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, TICK, Session, like

LEASE_MS = 900_000
PATH = [Level(queue="leads"), Level(queue="boss", after_seconds=3_600.0)]


def asked(**fields: Any) -> Session:
    """A session whose failure ticket waits on the leads."""
    return situations.failure(escalation=PATH, **fields)


# Reassign


def test_a_person_who_is_given_a_ticket_holds_it_from_then_on() -> None:
    session = claim(asked())
    session.do(reassigning(session, to=CLERK, reason="her customer"), BOB)
    until = session.at + LEASE_MS
    session.then(like(ev.TicketReassigned, to=CLERK, claim_id="lease-9", until=until, reason="her customer"))
    holder = ticket(session).holder
    assert holder
    assert (holder.by, holder.claim_id, holder.until, ticket(session).version) == (CLERK, "lease-9", until, 3)
    session.resolve("send-back", "x", CLERK, lease="lease-9").then("TicketResolved", "PackIssued")


def test_h14_what_somebody_was_given_and_does_not_touch_comes_back() -> None:
    session = asked()
    session.do(reassigning(session, to=CLERK), BOB)
    lapses(session).then(like(ev.TicketReleased, holder=CLERK, why="lapsed"))


def test_a_queue_that_is_given_a_ticket_has_it_on_offer() -> None:
    session = claim(asked(people=People(candidates=[BOB], skills=["tax"])))
    session.do(reassigning(session, to_queue="boss"), BOB)
    session.then(like(ev.TicketReassigned, to="", to_queue="boss", claim_id="", until=None))
    one = ticket(session)
    assert (one.queue, one.holder, one.needs.candidates, one.needs.skills) == ("boss", None, [], ["tax"])


def test_what_rests_and_is_handed_on_rests_no_more() -> None:
    session = asked()
    session.do(snoozing(session), BOB)
    session.do(reassigning(session, to_queue="boss"), BOB)
    assert ticket(session).snoozed_until is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "name a person or a queue, one of both"),
        ({"to": CLERK, "to_queue": "boss"}, "name a person or a queue, one of both"),
        ({"to": "group:tax"}, "a group serves a queue"),
        ({"to": "carla"}, "expected a person, such as user:ann, got 'carla'"),
        ({"to": CLERK, "claim_id": ""}, "a person gets the ticket with a claim"),
    ],
)
def test_what_a_ticket_is_not_given_to(fields: dict[str, Any], problem: str) -> None:
    session = asked()
    session.refuses(ContractError, reassigning(session, **fields), BOB, match=problem)


def test_rule_10_a_ticket_goes_to_the_queues_of_its_plan_only() -> None:
    session = asked()
    error = session.refuses(Denied, reassigning(session, to_queue="elsewhere"), BOB)
    assert str(error) == (
        "user:bob may not hand this ticket to queue 'elsewhere': the plan has alerts, boss, leads, operators"
    )


def test_every_queue_that_a_plan_names_is_one_of_its() -> None:
    fan_out = FanOut(branches={"x": "a"}, on_conflict="judges", on_short="a")
    plan = Plan(
        name="p",
        start="a",
        stages={
            "a": stage(
                ask="desk",
                escalation=PATH,
                tools=[Grant(tool="t", approve="approvers"), Grant(tool="u")],
                permits=[Permit(tool="v", queue="security")],
            ),
            "b": Stage(queue="clerks"),
            "c": Stage(fan_out=fan_out),
            "d": Stage(fan_out=FanOut(branches={"x": "a"}, on_conflict="fail", on_short="merge")),
        },
    )
    named = {"desk", "leads", "boss", "approvers", "security", "clerks", "judges"}
    assert queues_of(plan) == {*named, "operators", "alerts"}


@pytest.mark.parametrize("verb", [reassigning, snoozing])
def test_what_somebody_else_holds_is_not_given_away_nor_put_off(verb: Any) -> None:
    session = claim(asked())
    more = {"to_queue": "boss"} if verb is reassigning else {}
    session.refuses(Conflict, verb(session, **more), CLERK, match="is held; user:bob was first")
    session.refuses(Conflict, verb(session, version=1, **more), CLERK, match="user:bob was first")
    session.tick(LEASE_MS).do(verb(session, **more), CLERK)
    name = "TicketReassigned" if verb is reassigning else "TicketSnoozed"
    session.then(like(ev.TicketReleased, holder=BOB, why="lapsed"), name)
    assert ticket(session).lapses == 1


@pytest.mark.parametrize("verb", [reassigning, snoozing])
def test_a_verb_is_of_the_ticket_as_it_was_seen(verb: Any) -> None:
    session = claim(asked())
    more = {"to_queue": "boss"} if verb is reassigning else {}
    session.refuses(Conflict, verb(session, version=1, **more), BOB, match="is at version 2, not 1")


def test_rule_08_an_approval_is_not_carried_to_where_nobody_looks() -> None:
    session = situations.approval()
    session.known[BOB] = who("*")
    error = session.refuses(Denied, reassigning(session, to_queue="operators"), BOB)
    assert str(error) == (
        "user:bob may not hand this approval to queue operators: the plan says who approves it; an operator may move it"
    )
    session.do(reassigning(session, to_queue="operators"), CLERK)
    session.then("TicketReassigned")


# Four eyes, on every path (H25)

PATHS: dict[str, Callable[[Session], cmd.Body]] = {
    "claim": claiming,
    "take over": lambda s: taking_over(s, "lease-2"),
    "reassign": lambda s: reassigning(s, to_queue="operators"),
    "to themselves": lambda s: reassigning(s, to=CLERK),
    "snooze": snoozing,
    "wake": waking,
    "approve": lambda s: s.resolution("approve"),
    "deny": lambda s: s.resolution("deny"),
    "edit": lambda s: s.resolution("edit", {}),
    "cancel": lambda s: s.resolution("cancel"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("by", [ANN, AGENT])
@pytest.mark.parametrize("known", [None, who("*"), who("approvers")])
@pytest.mark.parametrize("alerted", [False, True])
def test_rule_08_h25_four_eyes_hold_for_everybody_on_every_path(
    path: str, by: str, known: Any, alerted: bool
) -> None:
    session = situations.approval()
    if alerted:
        session.do(alerting(session), TICK)
    if known is not None:
        session.known[by] = known
    why = "whoever initiated or proposed an action does not decide on it"
    session.refuses(Denied, PATHS[path](session), by, match=why)


@pytest.mark.parametrize("to", [ANN, AGENT])
def test_rule_08_h25_nobody_is_given_what_they_may_not_decide(to: str) -> None:
    session = situations.approval()
    error = session.refuses(Denied, reassigning(session, to=to), BOB)
    assert str(error).startswith(f"{to} may not be given ticket {session.id}/1: whoever initiated")
    session.do(reassigning(session, to_queue="alerts"), BOB)
    session.refuses(Denied, reassigning(session, to=to), BOB)


# Snooze


def test_what_rests_is_held_by_nobody_and_wakes_by_itself() -> None:
    session = claim(asked())
    session.do(snoozing(session, 60_000, reason="tomorrow"), BOB)
    session.then(like(ev.TicketSnoozed, until=session.at + 60_000, reason="tomorrow"))
    assert (ticket(session).holder, ticket(session).version) == (None, 3)
    session.due("ticket-wake").then(like(ev.TicketWoken, ticket_no=1))
    assert (ticket(session).snoozed_until, ticket(session).version) == (None, 4)
    session.do(waking(session), BOB)
    session.nothing()


def test_whoever_may_take_it_wakes_it_and_claims_it() -> None:
    session = asked()
    session.do(snoozing(session), BOB)
    session.do(waking(session), CLERK)
    session.then("TicketWoken")
    session.do(snoozing(session), BOB)
    claim(session, CLERK)
    assert ticket(session).snoozed_until is None
    session.do(releasing(session), CLERK)
    at(session, "ticket-wake", session.at + 60_000).nothing()


def test_what_was_put_off_anew_wakes_later() -> None:
    session = asked()
    first = session.at + 60_000
    session.do(snoozing(session), BOB)
    session.tick(1).do(snoozing(session, 120_000), BOB)
    at(session, "ticket-wake", first).nothing()
    session.due("ticket-wake").then("TicketWoken")


def test_rule_10_whoever_may_not_take_it_neither_wakes_nor_puts_it_off() -> None:
    session = asked()
    session.known[BOB] = who("desk")
    for body in (snoozing(session), waking(session), reassigning(session, to_queue="boss")):
        session.refuses(Denied, body, BOB, match="queue leads is served by the group of its name")


# Comments


def test_a_comment_changes_nothing_but_their_number() -> None:
    session = claim(asked())
    session.do(saying(session, "  look\x1b here  "), CLERK)
    session.then(like(ev.TicketCommented, ticket_no=1))
    assert (ticket(session).comments, ticket(session).version) == (1, 2)
    session.resolve("send-back", "x", lease=LEASE, version=2)


def test_a_comment_says_something() -> None:
    session = asked()
    session.refuses(ContractError, saying(session, " \n"), BOB, match="it says nothing")


def test_rule_12_comments_on_a_ticket_are_bounded() -> None:
    session = asked()
    for _ in range(MOST_COMMENTS):
        session.record(ev.TicketCommented(ticket_no=1, text="hm"), BOB)
    session.refuses(BudgetExceeded, saying(session), BOB, match="comments on this ticket")


# Alerts


def test_h05_what_nobody_known_may_take_goes_to_the_alerts() -> None:
    session = asked(people=People(candidates=["user:gone"], skills=["x"]))
    session.do(alerting(session), TICK)
    session.then(like(ev.TicketReassigned, to="", to_queue=ALERTS, reason="nobody has the skill"))
    one = ticket(session)
    assert (one.queue, needs_of(one).candidates, needs_of(one).skills) == (ALERTS, [], [])
    session.do(alerting(session), TICK)
    session.nothing()


def test_an_alert_is_without_effect_where_somebody_took_it_meanwhile() -> None:
    session = claim(asked())
    for body in (alerting(session), alerting(session, version=1)):
        session.do(body, TICK)
        session.nothing()
    session.do(cmd.AlertTicket(ticket_no=9, version=1, why="w"), TICK)
    session.nothing()


def test_rule_10_people_raise_no_alerts() -> None:
    session = asked()
    session.known[BOB] = who("*")
    session.refuses(Denied, alerting(session), BOB, match="the broker does that")


# A ticket that is taken away


def test_whoever_held_what_is_withdrawn_is_named() -> None:
    claim(asked()).cancel().then(like(ev.TicketWithdrawn, holder=BOB), "Cancelled")
    claim(asked()).retry().then(like(ev.TicketWithdrawn, holder=BOB), "PackIssued")
    session = claim(situations.effect_ticket())
    effect = session.state.effects[0]
    session.report(effect.effect_id, claim_id=effect.claims[0])
    session.then("EffectDone", like(ev.TicketWithdrawn, holder=BOB), "PackIssued")
    asked().cancel().then(like(ev.TicketWithdrawn, holder=""), "Cancelled")


@pytest.mark.parametrize("situation", [situations.ending_ticket, situations.disputed, situations.done])
def test_what_a_session_leaves_behind_is_held_and_put_off_like_any_other(situation: Any) -> None:
    """Whether a write happened is asked also of a session that is over (rule 3)."""
    session = situation()
    if session.state.over:
        session.report(session.state.effects[0].effect_id, "failed")
    claim(session).then("TicketClaimed")
    lapses(session).then("TicketReleased")
    session.do(snoozing(session), BOB)
    session.due("ticket-wake").then("TicketWoken")
    session.do(saying(session), BOB)
    claim(session, CLERK, "lease-2").resolve("done", by=CLERK, lease="lease-2")
    assert session.state.tickets == []


def test_a_ticket_that_was_handed_on_escalates_all_the_same() -> None:
    session = asked(overdue=Overdue(after_seconds=7_200.0, to="tell"))
    session.do(reassigning(session, to_queue="operators"), BOB)
    session.due("ticket-escalate").then(like(ev.TicketEscalated, level=2, queue="boss"))
