"""What people, and those who have no business here, do; each deed with what must come of it."""

from typing import Any, Literal

from passdown.broker.core.parts import Asked, Ticket
from passdown.broker.core.state import State
from passdown.broker.tick import TICK
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.replies import Accepted
from passdown.contracts.returns import Fence
from passdown.contracts.ticket_events import Resolution
from tests.conformance.histories.ends import output
from tests.conformance.histories.event_rules import FENCED_CAP
from tests.conformance.histories.jobs import BULK
from tests.conformance.histories.markers import marked
from tests.conformance.histories.watch import Followed
from tests.conformance.histories.world import World, pick

Verb = Literal["pause", "resume", "cancel", "retry"]


def after(world: World, session_id: str) -> State:
    """Return a session as it is now."""
    now = world.watch.catch_up(session_id)
    assert now is not None
    return now.state


def answer(world: World, which: int, question: int, by: str, value: Any) -> None:
    """Answer a question, open or not; ``bulk`` stands for a text that stretches the budgets."""
    state = pick([one for one in world.states() if one.questions], which)
    unanswered = [one for one in state.questions if not one.answered]
    _answer(world, state, pick(unanswered or state.questions, question), by, value)


def answer_all(world: World, by: str) -> None:
    """Answer whatever is asked."""
    world.watch.catch_up_all()
    for state in world.states():
        for asked in state.questions:
            if not asked.answered:
                _answer(world, state, asked, by, 1)


def _answer(world: World, state: State, asked: Asked, by: str, value: Any) -> None:
    given = marked(state.key, 2 * BULK) if value == "bulk" else value
    body = cmd.Answer(step=state.step, attempt=asked.attempt, id=asked.id, value=given)
    outcome = world.act(state.session_id, body, by)
    if isinstance(outcome, PassdownError):
        return
    still = [
        one
        for one in after(world, state.session_id).questions
        if (one.attempt, one.id) == (asked.attempt, asked.id)
    ]
    assert all(one.answered for one in still), "rule 1: an answer was accepted, and is not there"


def resolve(world: World, which: int, ticket: int, by: str, *, honest: bool, choice: int) -> None:
    """Decide a ticket in one of the ways that it allows, or one that is closed."""
    state = pick([one for one in world.states() if one.tickets_opened], which)
    if not state.tickets:
        body = cmd.Resolve(
            ticket_no=1 + ticket % state.tickets_opened, resolution="send-back", note="too late"
        )
        outcome = world.act(state.session_id, body, by)
        assert isinstance(outcome, PassdownError), "rule 8: a closed ticket was resolved"
        return
    chosen = pick(state.tickets, ticket)
    body = decision(world, state, chosen, choice=choice, honest=honest)
    outcome = world.act(state.session_id, body, by)
    if not isinstance(outcome, PassdownError):
        open_still = after(world, state.session_id).ticket(chosen.ticket_no)
        assert open_still is None, "rule 8: a ticket was resolved, and stays open"


def decision(
    world: World, state: State, ticket: Ticket, *, choice: int = 0, honest: bool = True, lease: str = ""
) -> cmd.Resolve:
    """Return a decision on a ticket as it is now."""
    resolution = pick(ticket.actions, choice)
    done = world.outside.applied(ticket.about) > 0
    if resolution in ("done", "not-done") and done != (resolution == "done"):
        world.outside.lied.add(ticket.about)
    return cmd.Resolve(
        ticket_no=ticket.ticket_no,
        version=ticket.version,
        lease=lease,
        resolution=resolution,
        value=_value(world, state, ticket.about, resolution, honest=honest),
        note="as seen",
    )


def _value(world: World, state: State, about: str, resolution: Resolution, *, honest: bool) -> Any:
    match resolution:
        case "answer":
            asked = [one.id for one in state.questions if not one.answered]
            return dict.fromkeys(asked, 4) if honest else {"q1": "no number"}
        case "edit":
            effect = state.effect(about)
            args = dict(effect.args or {}) if effect else {}
            return {**args, "cents": 30 if honest else 99_999} if "cents" in args else args
        case "complete":
            return output(state, world.watch.sessions[state.session_id].stage) if honest else {"text": 1}
        case "redirect":
            stages = sorted(world.watch.plans[state.plan.digest].stages)
            return pick(stages, state.seq) if honest else "nowhere"
        case "send-back":
            return marked(state.key, BULK if state.seq % 4 == 0 else "better, please") if honest else None
        case "done":
            return {"ref": "by hand"}
        case "approve" | "deny" | "cancel" | "not-done":
            return None
        case "choose" | "merge":
            raise AssertionError(f"no plan of this world fans out, and a ticket allows {resolution}")


def operate(world: World, which: int, verb: Verb, by: str, *, for_ms: int | None, stale: int) -> None:
    """Use an operator's verb; what was accepted on the state as it is has come about."""
    state = pick(world.states(), which)
    seen = state.seq - stale
    bodies: dict[Verb, cmd.Body] = {
        "pause": cmd.Pause(seen=seen, for_ms=for_ms),
        "resume": cmd.Resume(seen=seen),
        "cancel": cmd.Cancel(seen=seen, reason="no longer wanted"),
        "retry": cmd.Retry(seen=seen),
    }
    outcome = world.act(state.session_id, bodies[verb], by)
    if isinstance(outcome, PassdownError) or stale:
        return
    now = after(world, state.session_id)
    come_about = {
        "pause": now.paused,
        "resume": not now.paused,
        "cancel": now.over or now.ending,
        "retry": now.issued or now.tickets,
    }
    assert come_about[verb], f"rule 1: {verb} was accepted, and did not come about"


def forge(world: World, which: int, what: str, old: int) -> None:
    """Act under a fence that is over, or was never given: refused, and without effect (rule 2)."""
    followed = pick([one for one in world.followed() if one.state.claim] or world.followed(), which)
    state = followed.state
    fence = Fence(
        step=max(1, state.step), attempt=max(1, state.attempt), claim_id=pick(_dead_claims(followed), old)
    )
    if what == "flood" and old == 0:  # a hundred commits: seldom
        for number in range(FENCED_CAP + 1):
            world.act(state.session_id, cmd.Give(fence=fence, body=f"flood {number}"), "agent:mallory")
    outcome = world.act(state.session_id, _forged(what, fence, state), "agent:mallory")
    assert isinstance(outcome, PassdownError), f"rule 2: a forged {what} was accepted"
    now = after(world, state.session_id)
    assert now.fenced <= FENCED_CAP, "rule 2: more fenced returns are recorded than the cap"
    for step in followed.steps[state.seq :]:
        assert isinstance(step.event, ev.ReturnFenced), f"rule 2: a forged {what} left {step.event}"


def late_due(world: World, which: int, old: int) -> None:
    """Let a tick act late on an entry that the session no longer waits for."""
    past = [(state, due) for state in world.states() for due in sorted(world.past_dues(state))]
    if not past:
        return
    state, (kind, subject, at) = pick(past, which + 8 * old)
    outcome = world.act(state.session_id, cmd.Due(kind=kind, subject=subject, due_at=at), TICK)
    assert isinstance(outcome, Accepted | Unavailable), f"rule 1: {kind} came late, and {outcome}"
    assert after(world, state.session_id).seq == state.seq, f"rule 1: {kind} fired, and nobody waited for it"


def _dead_claims(followed: Followed) -> list[str]:
    held = followed.state.claim.claim_id if followed.state.claim else ""
    past = [one.event.claim_id for one in followed.steps if isinstance(one.event, ev.Claimed)]
    return [*(claim for claim in past if claim != held), "forged-claim"]


def _forged(what: str, fence: Fence, state: State) -> cmd.Body:
    match what:
        case "fail":
            return cmd.Fail(fence=fence, problem="forged")
        case "checkpoint":
            return cmd.Checkpoint(fence=fence, number=99, data={"forged": True})
        case "intend":
            return cmd.Intend(fence=fence, effect_id=f"{state.session_id}.e-0", tool="pay.send", args={})
        case "release":
            return cmd.Release(fence=fence, reason="forged")
        case "settle":
            return cmd.Settle(fence=fence, verdicts=[cmd.Verdict(effect_id="none", found="absent")])
        case "claim":
            forged = Fence(step=fence.step, attempt=fence.attempt, claim_id="forged-claim")
            return cmd.Claim(fence=forged, pack_digest="0" * 64)
        case "report":
            known = state.effects[-1].effect_id if state.effects else "none"
            return cmd.Report(effect_id=known, claim_id="forged-claim", phase="done")
        case _:
            return cmd.Give(fence=fence, body="{}")
