"""Why an effect happened or did not: the chain of events behind it, from the log alone."""

from collections.abc import Iterable
from typing import Any

from passdown.broker.cli.views.transitions import Transition, transition
from passdown.broker.joins.tree import Above
from passdown.contracts import events as ev
from passdown.contracts.codec import Wire
from passdown.contracts.errors import ContractError, NotFound

_OF_EFFECT = (
    ev.EffectProposed,
    ev.EffectIntended,
    ev.EffectDone,
    ev.EffectFailed,
    ev.EffectUnknown,
    ev.EffectSettled,
)
_CLAIM_ENDS = (ev.ClaimReleased, ev.LeaseLost, ev.ReturnRejected, ev.Returned)
_OF_STEP = (ev.PackIssued, ev.Claimed, *_CLAIM_ENDS)
_STATUS: dict[type[ev.Event], str] = {
    ev.EffectProposed: "proposed",
    ev.EffectIntended: "intended",
    ev.EffectDone: "done",
    ev.EffectFailed: "failed",
    ev.EffectUnknown: "unknown",
}


class Attempt(Wire, frozen=True, kw_only=True):
    """One attempt of the effect's step, and how it ended (empty: not yet)."""

    attempt: int
    cause: str
    worker: str = ""
    ended: str = ""
    intended: bool = False


class Decision(Wire, frozen=True, kw_only=True):
    """What a person decided about the effect."""

    ticket_no: int
    queue: str
    resolution: str
    by: str
    at: int
    note: str = ""
    value: Any = None


class WhyView(Wire, frozen=True, kw_only=True):
    """An effect's history. ``args`` are those that ran last, or would run; ``proposed_args`` what a person changed.

    ``above`` is the way from the root to its session, where that is a branch.
    """

    effect_id: str
    session_id: str
    task_name: str
    plan: str
    key: str
    submitted_by: str
    stage: str
    step: int
    tool: str
    status: str
    args: Any
    proposed_args: Any
    result: Any
    error: str
    attempts: list[Attempt]
    decisions: list[Decision]
    chain: list[Transition]
    above: list[Above] = []


class _Chain:
    """Walks a log once. What happened in the effect's step is kept back until it is known to lead to the effect."""

    def __init__(self, effect_id: str) -> None:
        self.effect_id = effect_id
        self.opened: ev.SessionOpened | None = None
        self.by = ""
        self.met: ev.StageEntered | None = None
        self.chain: list[ev.Logged] = []
        self.tickets: dict[int, ev.TicketOpened] = {}
        self._entered: ev.StageEntered | None = None
        self._back: list[ev.Logged] = []
        self._open = False

    def add(self, logged: ev.Logged) -> None:
        """Take in the next event."""
        event = logged.event
        if isinstance(event, ev.SessionOpened):
            self.opened, self.by = event, logged.by
            self.chain.append(logged)
        elif isinstance(event, ev.StageEntered):
            self._entered = event
            self._back = [] if self.met else [logged]
        elif self._concerns(event):
            self.met = self.met or self._entered
            self.chain += [*self._back, logged]
            self._back, self._open = [], True
        elif isinstance(event, _OF_STEP) and self.met in (None, self._entered):
            self._of_step(logged)

    def _of_step(self, logged: ev.Logged) -> None:
        """How the claim ended that had to do with the effect belongs to its story; what comes later may not."""
        if self._open and isinstance(logged.event, _CLAIM_ENDS):
            self.chain.append(logged)
            self._open = False
        else:
            self._back.append(logged)

    def _concerns(self, event: ev.Event) -> bool:
        if isinstance(event, _OF_EFFECT):
            return event.effect_id == self.effect_id
        if isinstance(event, ev.TicketOpened):
            if event.about == self.effect_id:
                self.tickets[event.ticket_no] = event
            return event.about == self.effect_id
        return isinstance(event, ev.TicketResolved | ev.TicketWithdrawn) and event.ticket_no in self.tickets


def effect_ids(log: Iterable[ev.Logged]) -> list[str]:
    """Return the effects that a log knows, in order."""
    found = (
        one.event.effect_id for one in log if isinstance(one.event, ev.EffectProposed | ev.EffectIntended)
    )
    return list(dict.fromkeys(found))


def find_effect(log: list[ev.Logged], name: str) -> str:
    """Return the effectId that begins with `name`; raises NotFound, or ContractError where several do."""
    known = effect_ids(log)
    found = [one for one in known if one == name] or [one for one in known if one.startswith(name)]
    if not found:
        raise NotFound("effect", name, f"the session has {', '.join(known) or 'none'}")
    if len(found) > 1:
        raise ContractError(
            "effect", f"{name!r} is the beginning of {len(found)} effects: {', '.join(found)}"
        )
    return found[0]


def why_view(log: list[ev.Logged], effect_id: str) -> WhyView:
    """Return what lies behind an effect of a log; raises NotFound."""
    walk = _Chain(effect_id)
    for logged in log:
        walk.add(logged)
    opened, met = walk.opened, walk.met
    if opened is None or met is None:
        raise NotFound("effect", effect_id)
    facts = _facts(walk)
    return WhyView(
        effect_id=effect_id,
        session_id=opened.session_id,
        task_name=opened.task_name,
        plan=str(opened.plan),
        key=opened.key,
        submitted_by=walk.by,
        stage=met.stage,
        step=met.step,
        attempts=_attempts(walk),
        decisions=_decisions(walk),
        chain=[transition(one) for one in walk.chain],
        **facts,
    )


def _facts(walk: _Chain) -> dict[str, Any]:
    """Return tool, status, arguments and outcome, as the events one after the other leave them."""
    facts: dict[str, Any] = {
        "tool": "",
        "status": "",
        "args": None,
        "proposed_args": None,
        "result": None,
        "error": "",
    }
    for logged in walk.chain:
        event = logged.event
        facts["status"] = _STATUS.get(type(event), facts["status"])
        facts |= _changed(event, facts["args"])
    return facts


def _changed(event: ev.Event, args: Any) -> dict[str, Any]:
    match event:
        case ev.EffectProposed():
            return {"tool": event.tool, "args": event.args, "proposed_args": None}
        case ev.EffectIntended():
            return {"tool": event.tool, "args": event.args, "error": ""}
        case ev.EffectDone():
            return {"result": event.result, "error": ""}
        case ev.EffectFailed():
            return {"error": event.error}
        case ev.EffectUnknown():
            return {"error": event.why}
        case ev.EffectSettled():
            return {"status": event.status, "result": event.result, "error": ""}
        case ev.TicketResolved(resolution="deny"):
            return {"status": "denied", "error": event.note}
        case ev.TicketResolved(resolution="edit"):
            return {"proposed_args": args, "args": event.value}
        case _:
            return {}


def _attempts(walk: _Chain) -> list[Attempt]:
    found: list[dict[str, Any]] = []
    for logged in walk.chain:
        event = logged.event
        if isinstance(event, ev.PackIssued):
            found.append({"attempt": event.attempt, "cause": event.cause})
        elif not found:
            continue
        elif isinstance(event, ev.Claimed):
            found[-1]["worker"] = logged.by
        elif isinstance(event, ev.EffectIntended):
            found[-1]["intended"] = True
        elif isinstance(event, _CLAIM_ENDS):
            found[-1]["ended"] = type(event).__name__
        elif isinstance(event, ev.EffectProposed):
            found[-1]["ended"] = "EffectProposed"
    return [Attempt(**one) for one in found]


def _decisions(walk: _Chain) -> list[Decision]:
    return [
        Decision(
            ticket_no=one.event.ticket_no,
            queue=walk.tickets[one.event.ticket_no].queue,
            resolution=one.event.resolution,
            by=one.by,
            at=one.at,
            note=one.event.note,
            value=one.event.value,
        )
        for one in walk.chain
        if isinstance(one.event, ev.TicketResolved)
    ]
