"""What people do about a tree: each ticket in every way that it allows, and what is asked."""

from typing import Any

from passdown.broker.core.join import FINAL
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.ticket_events import Resolution
from tests.conformance.trees.work import all_rows
from tests.conformance.trees.world import World, pick

ANN, DAN = "user:ann", "user:dan"


def answer(world: World, state: State) -> None:
    """Answer what a session asks, each question by its name."""
    for one in state.questions:
        if not one.answered:
            world.act(
                state.session_id, cmd.Answer(step=state.step, attempt=one.attempt, id=one.id, value=3), ANN
            )


def resolve(
    world: World, state: State, ticket: Ticket, resolution: Resolution, which: int
) -> PassdownError | None:
    """Decide a ticket; `which` says which branch, or which stage."""
    if resolution in ("done", "not-done") and bool(world.outside[ticket.about]) != (resolution == "done"):
        world.lied.add(ticket.about)
    body = cmd.Resolve(
        ticket_no=ticket.ticket_no,
        version=ticket.version,
        resolution=resolution,
        value=_value(world, state, ticket, resolution, which),
        note="as seen",
    )
    return world.act(state.session_id, body, DAN, which)


def _value(world: World, state: State, ticket: Ticket, resolution: Resolution, which: int) -> Any:
    match resolution:
        case "answer":
            return {
                one.id: 4 for one in state.questions if str(one.attempt) == ticket.about and not one.answered
            }
        case "complete":
            return {"v": 1, "by": "hand"}
        case "redirect":
            return pick(sorted(world.plan.stages), which)
        case "choose":
            return pick(branches(world, ticket, "done") or ["nobody"], which)
        case "send-back":
            if ticket.kind not in ("conflict", "short"):
                return "better, please"
            ended = branches(world, ticket, *FINAL) or ["nobody"]
            return {"branches": [pick(ended, which)], "feedback": "better, please"}
        case _:
            return None


def branches(world: World, ticket: Ticket, *outcomes: str) -> list[str]:
    """Return the branches of the join that a ticket is about which have one of the outcomes."""
    return [row.branch for row in all_rows(world, ticket.about) if row.outcome in outcomes]


def attend(world: World, state: State, round_: int) -> None:
    """Do what a person of good will does about a session that waits for people; from some round on they make an end."""
    if state.paused and state.resume_at is None:
        world.act(state.session_id, cmd.Resume(seen=state.seq), ANN)
    if not any(one.kind == "question" for one in state.tickets):
        answer(world, state)
    for ticket in state.tickets:
        said: list[str] = []
        for resolution in _tries(world, ticket, round_):
            refused = resolve(world, state, ticket, resolution, ticket.ticket_no)
            if refused is None or isinstance(refused, Unavailable):
                break  # whoever hears nothing looks again, and asks again
            said.append(f"{resolution}: {refused}")
        else:
            world.wrong.append(f"rule 8: nobody can resolve {ticket} of {state.session_id}: {said}")


def _tries(world: World, ticket: Ticket, round_: int) -> list[Resolution]:
    if ticket.kind == "effect":
        return ["done" if world.outside[ticket.about] else "not-done"]
    if round_ > LATE_ROUND:
        return ["cancel"]
    match ticket.kind:
        case "question":
            return ["answer"]
        case "conflict" | "short":
            ways: list[list[Resolution]] = [["send-back"], ["choose"], ["merge"], ["complete"]]
            first = pick(ways, ticket.ticket_no + round_)
            return [*(one for one in first if one in ticket.actions), "complete", "cancel"]
        case _:
            ways = [["send-back"], ["complete"]]
            first = pick(ways, ticket.ticket_no)
            return [*(one for one in first if one in ticket.actions), "complete", "cancel"]


#: From this round on people cancel what is still open: a plan may well lead in circles.
LATE_ROUND = 12
