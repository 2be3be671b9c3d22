"""The end of a history: all faults heal, and honest workers, ticks and people bring every session to its end."""

from typing import Any

from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import PassdownError
from passdown.contracts.plans import Stage
from passdown.contracts.ticket_events import Resolution
from tests.conformance.histories.jobs import HONEST
from tests.conformance.histories.markers import marked
from tests.conformance.histories.plans import NEWS
from tests.conformance.histories.watch import Followed
from tests.conformance.histories.world import TICKS, World

#: How long the healed world may take (rounds), and how much time goes by after each (milliseconds).
ROUNDS = 60
WAITS = (0, 1_000, 5_000, 30_000, 61_000)
_CLERK = "user:cara"
_OTHER = "user:dan"


def heal(world: World, *, wake: bool) -> None:
    """End all faults; processes that froze wake up and go on where they were, or never do."""
    world.faults.pending.clear()
    for job in world.frozen if wake else []:
        while not job.over:
            job.go_on()
    world.frozen.clear()
    world.register(NEWS["late tool"]())
    world.check()


def finish(world: World) -> None:
    """Let honest workers, ticks and people go on until every session has ended; assert that each does."""
    for round_ in range(ROUNDS):
        answer_rings(world)
        for state in world.states():
            attend(world, state)
        for number in range(TICKS):
            world.tick(number)
        world.check()
        if all(state.over and not state.tickets for state in world.states()) and not world.bells.pending:
            break
        world.clock.elapse(WAITS[min(round_, len(WAITS) - 1)])
    waiting = [
        f"{one.session_id} {one.shown_status} in {one.stage}: {one}" for one in world.states() if not one.over
    ]
    assert not waiting, f"rule 1: after {ROUNDS} rounds without a fault there wait {waiting}"
    for followed in world.followed():
        rule_3_the_ledger_is_the_truth(world, followed)
        rule_2_the_outcome_is_what_the_ledger_shows(followed)
    world.watch.refold()


def answer_rings(world: World) -> None:
    """Nothing but a ring starts a drain."""
    while True:
        busy = next((one for one in world.workers if not one.idle), None)
        if busy is not None:
            busy.go_on(HONEST)
        elif world.bells.pending:
            world.workers[0].rung(world.bells.pending.pop(0))
        else:
            return


def attend(world: World, state: State) -> None:
    """Do what a person would do about a session that waits for people."""
    session_id = state.session_id
    if state.paused and state.resume_at is None:
        world.act(session_id, cmd.Resume(seen=state.seq), _CLERK)
    for question in state.questions:
        if not question.answered and not any(one.kind == "question" for one in state.tickets):
            world.act(
                session_id,
                cmd.Answer(step=state.step, attempt=question.attempt, id=question.id, value=3),
                _CLERK,
            )
    for ticket in state.tickets:
        decide(world, state, ticket)


def decide(world: World, state: State, ticket: Ticket) -> None:
    """Resolve a ticket as its kind asks for; one that cannot be resolved so is a fault."""
    followed = world.watch.sessions[state.session_id]
    by = _OTHER if state.by == _CLERK else _CLERK
    held = held_by(world, state, ticket, by)
    if held is None:
        return
    ticket = held
    tries = _tries(world, followed, state, ticket)
    said: list[str] = []
    for resolution, value in tries:
        body = cmd.Resolve(
            ticket_no=ticket.ticket_no,
            version=ticket.version,
            lease=ticket.holder.claim_id if ticket.holder else "",
            resolution=resolution,
            value=value,
            note="seen",
        )
        outcome = world.act(state.session_id, body, by)
        if not isinstance(outcome, PassdownError):
            return
        said.append(f"{resolution}: {outcome}")
    now = world.watch.catch_up(state.session_id)
    if now and now.state.ticket(ticket.ticket_no):
        raise AssertionError(f"rule 8: nobody can resolve ticket {ticket}: {said}")


def held_by(world: World, state: State, ticket: Ticket, by: str) -> Ticket | None:
    """Take a ticket over where somebody else holds it; returns it as it is then, None where it is over by now."""
    if ticket.holder is None or ticket.holder.by == by:
        return ticket
    body = cmd.ClaimTicket(
        ticket_no=ticket.ticket_no,
        version=ticket.version,
        claim_id=world.claim_id(),
        take_over=True,
        reason="their shift is over",
    )
    outcome = world.act(state.session_id, body, by)
    now = world.watch.catch_up(state.session_id)
    found = now.state.ticket(ticket.ticket_no) if now else None
    if isinstance(outcome, PassdownError):
        assert found is None, f"rule 8: nobody can take over {ticket}: {outcome}"
        return None
    assert found, "rule 8: a ticket was taken over, and is gone"
    return found


def _tries(world: World, followed: Followed, state: State, ticket: Ticket) -> list[tuple[Resolution, Any]]:
    match ticket.kind:
        case "effect":
            done = world.outside.applied(ticket.about) > 0
            if done:
                return [("done", world.outside.result(ticket.about))]
            return [("not-done", None)]
        case "approval" | "permission":
            return [("approve", None)]
        case "unmet":
            return [("approve", None)] if ticket.ticket_no % 2 else [("deny", None)]
        case "question":
            asked = {
                one.id: 3 for one in state.questions if str(one.attempt) == ticket.about and not one.answered
            }
            return [("answer", asked)]
        case "stage":
            return [("complete", output(state, followed.stage))]
        case "failure" | "escalation" | "budget":
            if ticket.ticket_no % 2:
                return [("complete", output(state, followed.stage)), ("cancel", None)]
            return [("send-back", "once more, please"), ("cancel", None)]
        case "conflict" | "short":
            raise AssertionError("no plan of this world fans out, and a ticket is about a join")


def output(state: State, stage: Stage) -> dict[str, Any]:
    """Return an output that fits every stage of the world."""
    decision = next(iter(reversed(stage.next.cases)), "approve")
    return {
        "text": marked(state.key, "by hand"),
        "decision": "deny" if "deny" in stage.next.cases else decision,
    }


def rule_3_the_ledger_is_the_truth(world: World, followed: Followed) -> None:
    """What the ledger says of an effect is what happened outside, but where a person said otherwise."""
    for effect in followed.state.effects:
        assert effect.status not in ("intended", "unknown"), f"rule 3: {effect} was never settled"
        key = effect.effect_id
        if key in world.outside.lied:
            continue
        applied = world.outside.applied(key)
        if effect.status == "done":
            assert applied, f"rule 3: {effect.tool} is held for done, and never happened"
            continue
        # A frozen process may write after it was settled that nothing was written; only that may be unknown here.
        early = [
            one for one in world.outside.arrivals.get(key, []) if one.version < settled_at(followed, key)
        ]
        assert not early, f"rule 3: {effect.tool} is held for {effect.status}, and it had happened by then"


def settled_at(followed: Followed, effect_id: str) -> int:
    """Return the number of the event that last said how an effect ended (0: none)."""
    ends = (ev.EffectDone, ev.EffectFailed, ev.EffectSettled)
    found = [
        one.logged.seq
        for one in followed.steps
        if isinstance(one.event, ends) and one.event.effect_id == effect_id
    ]
    return found[-1] if found else 0


def rule_2_the_outcome_is_what_the_ledger_shows(followed: Followed) -> None:
    """A step that ended as done had every effect done that its return names."""
    for number, step in enumerate(followed.steps):
        if not isinstance(step.event, ev.StageEntered | ev.Completed) or step.before is None:
            continue
        kept = step.before.kept
        named: list[str] = getattr(kept, "output", {}).get("done", []) if kept else []
        for effect_id in named:
            effect = step.before.effect(effect_id)
            done = effect is not None and effect.status == "done"
            assert done, f"rule 3: event {number + 1} ends a step on {effect_id}, which is not done"
