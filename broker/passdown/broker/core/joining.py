"""How events change the joins of a session; a part of `evolve`."""

from msgspec.structs import replace

from passdown.broker.core.join import FINAL
from passdown.broker.core.parts import Join, Owed, SentBack
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import convert
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import FAIL

JoinEvent = (
    ev.FannedOut
    | ev.BranchesOpened
    | ev.JoinConflict
    | ev.JoinShort
    | ev.Joined
    | ev.BranchesTold
    | ev.JoinDrained
)


def fold_join(state: State, event: JoinEvent, logged: ev.Logged) -> State:
    """Return the state after an event of one of its joins."""
    if isinstance(event, ev.FannedOut):
        return _fanned_out(state, event, logged)
    join = state.join(event.join_id)
    if join is None:
        raise ContractError("log", f"join {event.join_id} is none of this session, or is over")
    changed = _joined(state, join, event) if isinstance(event, ev.Joined) else state
    changed = replace(changed, below=state.below + _did(event))
    return with_join(changed, replace(_changed(join, event), at=logged.at))


def _fanned_out(state: State, event: ev.FannedOut, logged: ev.Logged) -> State:
    join = Join(
        join_id=event.join_id,
        step=state.step,
        stage=state.stage,
        branches=event.branches,
        items=event.digest,
        opening=event.opening,
        deadline=event.deadline,
        at=logged.at,
    )
    return replace(state, joins=[*state.joins, join], owed=None)


def with_join(state: State, join: Join) -> State:
    """Return the state with one of its joins changed, and without those of earlier steps that are over."""
    joins = [join if one.join_id == join.join_id else one for one in state.joins]
    return replace(state, joins=[one for one in joins if not one.drained or one.step == state.step])


def _changed(join: Join, event: JoinEvent) -> Join:
    match event:
        case ev.FannedOut():
            raise ContractError("log", f"join {event.join_id} fans out twice")
        case ev.BranchesOpened():
            return replace(join, opened=event.opened, opening=event.opening)
        case ev.JoinConflict():
            return replace(join, asked="conflict")
        case ev.JoinShort():
            return replace(join, asked="short")
        case ev.Joined():
            return _closed(join, event)
        case ev.BranchesTold():
            if event.what == "rework":
                return replace(join, sent_back=None, asked="", deadline=event.deadline)
            return replace(join, told=event.upto)
        case ev.JoinDrained():
            return replace(join, drained=True, told=None)


def _did(event: JoinEvent) -> int:
    """Return how many writes outside the branches of a join did, where they all have ended."""
    match event:
        case ev.Joined():
            return event.effects if event.drained else 0
        case ev.JoinDrained():
            return len(event.effects) + event.more + event.counted
        case _:
            return 0


def _closed(join: Join, event: ev.Joined) -> Join:
    if join.closed:
        raise ContractError("log", f"join {event.join_id} is joined twice")
    left = join.opening - sum(event.outcomes.get(name, 0) for name in FINAL)
    return replace(
        join,
        closed=True,
        how=event.how,
        counted=event.counted,
        upto=event.upto,
        digest=event.digest,
        outcomes=event.outcomes,
        branch=event.branch,
        why=event.why,
        to=event.to,
        told=0 if left else None,
        drained=event.drained,
    )


def _joined(state: State, join: Join, event: ev.Joined) -> State:
    """A merge is owed; or the stage that the plan names for it is given what became of the join."""
    if event.how in ("enough", "partial", "chosen"):
        return replace(state, owed=Owed(cause="first", at=state.at))
    if event.to in ("", FAIL):
        return state
    found = {"joinId": join.join_id, "why": event.why, "outcomes": event.outcomes, "disagree": event.fields}
    return replace(state, completed={join.stage: found})


def left_by_ending(state: State) -> State:
    """Return the state of a session that is called off: its branches are, too, once those sent back to are known."""
    join = state.joining
    if join is None or join.closed:
        return state
    return with_join(state, replace(join, closed=True, how="left", told=0, at=state.at))


def left_to_person(state: State) -> State:
    """Return the state in which a person says how it goes on, and no longer the plan, after a join that merges nothing."""
    join = state.joining
    if join is None or not join.closed or join.merges:
        return state
    return with_join(state, replace(join, how="left", to=""))


def sent_back(state: State, event: ev.TicketResolved, about: str, by: str) -> State:
    """Fold what a person sends back to branches of the join that the ticket is about."""
    join = state.join(about)
    if join is None:
        raise ContractError("log", f"ticket {event.ticket_no} sends back to no join")
    told = convert({"ticketNo": event.ticket_no, "by": by, **event.value}, SentBack, what="log")
    return with_join(state, replace(join, sent_back=told))


def reopened(state: State, event: ev.Reopened, logged: ev.Logged) -> State:
    """Fold that a branch which had ended goes on; its feedback is folded by whoever calls."""
    return replace(
        state,
        status="queued",
        outcome=None,
        deadline=event.deadline,
        owed=Owed(cause="rework", at=logged.at),
        failures=0,
        settles_lost=0,
    )
