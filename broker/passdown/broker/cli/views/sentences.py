"""One readable line for each event, and the colour of what went wrong."""

from functools import singledispatch

from passdown.broker.cli.words import brief, clean, line, many, size, span, when
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.join_events import JoinHow
from passdown.contracts.plans import FAIL
from passdown.contracts.returns import DoneReturn, EscalateReturn, NeedsInputReturn, RefusedReturn, Return

#: Events that people should not overlook, and those that end a session well.
TROUBLE = frozenset(
    {
        "LeaseLost",
        "EffectFailed",
        "EffectUnknown",
        "ToolDenied",
        "ReturnFenced",
        "ReturnRejected",
        "Escalated",
        "TicketEscalated",
        "TicketExpired",
        "JoinConflict",
        "JoinShort",
        "Ending",
        "Cancelled",
        "Expired",
        "Refused",
        "Failed",
    }
)
GOOD = frozenset({"Completed", "EffectDone", "EffectSettled", "Joined"})
#: Tickets that concern an effect.
_ABOUT_EFFECTS = ("approval", "permission", "effect", "unmet")
#: How a join came to its end, in words.
_HOW: dict[JoinHow, str] = {
    "enough": "enough branches ended",
    "partial": "short of enough",
    "chosen": "a person chose branch",
    "vetoed": "one branch refused",
    "left": "nothing is merged",
}


@singledispatch
def sentence(event: ev.Event) -> str:
    """Return what happened, on one line, without the event's name."""
    return clean(brief(event))


@sentence.register
def _(event: ev.SessionOpened) -> str:
    branch = f", branch {clean(event.parent.branch)} of {event.parent.session_id}" if event.parent else ""
    return f"{event.plan} for the task {line(event.task_name)!r}, key {clean(event.key)}{branch}"


@sentence.register
def _(event: ev.StageEntered) -> str:
    until = f", deadline {when(event.deadline)}" if event.deadline else ""
    who = ", a person's" if event.human else ""
    feedback = f"; sent back: {line(event.feedback)}" if event.feedback else ""
    return f"step {event.step} is stage {event.stage}{who} ({line(event.reason)}){until}{feedback}"


@sentence.register
def _(event: ev.PackIssued) -> str:
    notes = [event.cause, size(event.bytes), f"lease {span(event.lease_ms)}"]
    notes += ["solo"] if event.solo else []
    notes += [f"{event.left_out} left out for size"] if event.left_out else []
    changes = (
        f"; changed since the plan was pinned: {clean('; '.join(event.changes))}" if event.changes else ""
    )
    return f"attempt {event.attempt} of step {event.step} to role {event.role}: {', '.join(notes)}{changes}"


@sentence.register
def _(event: ev.Claimed) -> str:
    agent = " ".join(part for part in (event.agent, event.agent_version, event.model) if part)
    return (
        f"attempt {event.attempt} held by claim {event.claim_id[:8]}{f' of {clean(agent)}' if agent else ''}"
    )


@sentence.register
def _(event: ev.ClaimReleased) -> str:
    return f"claim {event.claim_id[:8]} ended without a failure: {line(event.reason)}"


@sentence.register
def _(event: ev.LeaseLost) -> str:
    return f"the worker of claim {event.claim_id[:8]} was lost; again from {when(event.retry_at)}"


@sentence.register
def _(event: ev.Checkpointed) -> str:
    return f"snapshot of {size(len(encode(event.data)))}"


@sentence.register
def _(event: ev.EffectProposed) -> str:
    return f"{call(event.tool, event.args)} as {short(event.effect_id)}: {line(event.why)}"


@sentence.register
def _(event: ev.EffectIntended) -> str:
    approved = f", approved by ticket {event.approval}" if event.approval else ""
    return f"{call(event.tool, event.args)} as {short(event.effect_id)}{approved}"


@sentence.register
def _(event: ev.EffectDone) -> str:
    return f"{short(event.effect_id)} happened: {brief(event.result)}"


@sentence.register
def _(event: ev.EffectFailed) -> str:
    return f"{short(event.effect_id)} wrote nothing: {line(event.error)}"


@sentence.register
def _(event: ev.EffectUnknown) -> str:
    return f"nobody knows whether {short(event.effect_id)} happened: {line(event.why)}"


@sentence.register
def _(event: ev.EffectSettled) -> str:
    how = "its verify" if event.how == "verify" else "a person"
    if event.status == "done":
        return f"{short(event.effect_id)} did happen, says {how}: {brief(event.result)}"
    again = "; it may be tried again" if event.repeat else ""
    return f"{short(event.effect_id)} did not happen, says {how}{again}"


@sentence.register
def _(event: ev.ToolCalled) -> str:
    args = f"arguments {event.args_digest[:12]}" if event.args is None else brief(event.args)
    if event.error:
        return f"{clean(event.tool)} {args} raised {line(event.error)}"
    return f"{clean(event.tool)} {args} gave {event.result_digest[:12]}{', kept' if event.kept else ''}"


@sentence.register
def _(event: ev.ToolDenied) -> str:
    return f"{clean(event.tool)}: {line(event.why)}"


@sentence.register
def _(event: ev.Returned) -> str:
    kept = "; kept until its effects are settled" if event.kept else ""
    return f"{returned(event.body)}{kept}"


@sentence.register
def _(event: ev.ReturnFenced) -> str:
    return f"without effect: {line(event.why)}"


@sentence.register
def _(event: ev.ReturnRejected) -> str:
    return f"{event.kind}: {line(event.problem)}; again from {when(event.retry_at)}"


@sentence.register
def _(event: ev.InputRequested) -> str:
    asked = "; ".join(f"{clean(one.id)}: {line(one.text)}" for one in event.questions)
    return f"of {event.ask}: {asked}"


@sentence.register
def _(event: ev.InputProvided) -> str:
    return f"{clean(event.id)} of attempt {event.attempt}: {brief(event.value)}"


@sentence.register
def _(event: ev.Escalated) -> str:
    recommended = f"; recommended: {line(event.recommended)}" if event.recommended else ""
    risks = f"; risks: {clean('; '.join(event.risks))}" if event.risks else ""
    return f"{line(event.reason)}{recommended}{risks}"


@sentence.register
def _(event: ev.TicketOpened) -> str:
    about = f" about {short(event.about)}" if event.kind in _ABOUT_EFFECTS else ""
    people = f", {event.approvals} people must agree" if event.approvals > 1 else ""
    return f"ticket {event.ticket_no} ({event.kind}{about}{people}) in {event.queue}: {line(event.why)}"


@sentence.register
def _(event: ev.TicketClaimed) -> str:
    taken = f", taken over from {clean(event.taken_from)}" if event.taken_from else ""
    return f"ticket {event.ticket_no} held until {when(event.until)}{taken}{_because(event.reason)}"


@sentence.register
def _(event: ev.TicketExtended) -> str:
    return f"ticket {event.ticket_no} held until {when(event.until)}"


@sentence.register
def _(event: ev.TicketReleased) -> str:
    how = {
        "given-back": f"{clean(event.holder)} gave it back",
        "lapsed": f"the claim of {clean(event.holder)} ran out",
        "access": f"{clean(event.holder)} may no longer hold it",
    }
    return f"ticket {event.ticket_no}: {how[event.why]}{_because(event.reason)}"


@sentence.register
def _(event: ev.TicketReassigned) -> str:
    if not event.to:
        return f"ticket {event.ticket_no} to queue {clean(event.to_queue)}{_because(event.reason)}"
    until = f", until {when(event.until)}" if event.until else ""
    return f"ticket {event.ticket_no} to {clean(event.to)}{until}{_because(event.reason)}"


@sentence.register
def _(event: ev.TicketSnoozed) -> str:
    return f"ticket {event.ticket_no} rests until {when(event.until)}{_because(event.reason)}"


@sentence.register
def _(event: ev.TicketWoken) -> str:
    return f"ticket {event.ticket_no} is offered again"


@sentence.register
def _(event: ev.TicketCommented) -> str:
    return f"on ticket {event.ticket_no}: {line(event.text)}"


@sentence.register
def _(event: ev.TicketApproved) -> str:
    args = "" if event.args is None else f" with {brief(event.args)}"
    return f"ticket {event.ticket_no}: one approval of several{args}{_because(event.note)}"


@sentence.register
def _(event: ev.TicketEscalated) -> str:
    return f"ticket {event.ticket_no} to level {event.level}, queue {clean(event.queue)}"


@sentence.register
def _(event: ev.TicketExpired) -> str:
    then = "the session fails" if event.to == FAIL else f"on to {clean(event.to)}"
    return f"nobody resolved ticket {event.ticket_no} in time; {then}"


@sentence.register
def _(event: ev.TicketResolved) -> str:
    value = "" if event.value is None else f" {brief(event.value)}"
    until = f", good until {when(event.valid_until)}" if event.valid_until else ""
    return f"ticket {event.ticket_no}: {event.resolution}{value}{_because(event.note)}{until}"


@sentence.register
def _(event: ev.TicketWithdrawn) -> str:
    held = f", held by {clean(event.holder)}" if event.holder else ""
    return f"ticket {event.ticket_no}{held}: {line(event.why)}"


@sentence.register
def _(event: ev.Paused) -> str:
    until = f"until {when(event.until)}" if event.until else "until it is resumed"
    return f"{until}{f': {line(event.reason)}' if event.reason else ''}"


@sentence.register
def _(_event: ev.Resumed) -> str:
    return "the session goes on"


@sentence.register
def _(event: ev.Ending) -> str:
    why = f": {line(event.reason)}" if event.reason else ""
    return f"will be {event.status} once its effects are settled and its branches have ended{why}"


@sentence.register(ev.Cancelled)
@sentence.register(ev.Expired)
@sentence.register(ev.Failed)
def _(event: ev.Cancelled | ev.Expired | ev.Failed) -> str:
    return line(event.reason)


@sentence.register
def _(_event: ev.Completed) -> str:
    return "the plan ran to its end"


@sentence.register
def _(event: ev.Refused) -> str:
    return f"{line(event.reason)}{f' (policy {line(event.policy)})' if event.policy else ''}"


@sentence.register
def _(event: ev.FannedOut) -> str:
    until = f", to be joined by {when(event.deadline)}" if event.deadline else ""
    return f"{many(event.branches, 'branch')} of join {join(event.join_id)}{until}"


@sentence.register
def _(event: ev.BranchesOpened) -> str:
    rest = f", now those up to {event.opening}" if event.opening > event.opened else ""
    return f"{many(event.opened, 'branch')} of join {join(event.join_id)} by now{rest}"


@sentence.register
def _(event: ev.JoinConflict) -> str:
    return f"{many(event.counted, 'branch')} of join {join(event.join_id)} count: {line(event.why)}"


@sentence.register
def _(event: ev.JoinShort) -> str:
    return f"join {join(event.join_id)}: {line(event.why)}"


@sentence.register
def _(event: ev.Joined) -> str:
    if event.how == "left" and not event.to:  # a person went on without it, and `why` says how
        return f"join {join(event.join_id)} is closed, {line(event.why)}{joined_of(event)}"
    why = f": {line(event.why)}" if event.why else ""
    to = f"; on to {event.to}" if event.to else ""
    return f"join {join(event.join_id)} is closed, {_HOW[event.how]}{joined_of(event)}{why}{to}"


@sentence.register
def _(event: ev.BranchesTold) -> str:
    if event.what == "rework":
        return f"chosen branches of join {join(event.join_id)} go on with a person's feedback"
    return f"the first {many(event.upto, 'branch')} of join {join(event.join_id)} were called off"


@sentence.register
def _(event: ev.JoinDrained) -> str:
    done = len(event.effects) + event.more
    effects = f"; {many(done, 'effect')} done by branches that do not count" if done else ""
    return f"all branches of join {join(event.join_id)} have ended: {outcomes(event.outcomes)}{effects}"


@sentence.register
def _(event: ev.Reopened) -> str:
    until = f", deadline {when(event.deadline)}" if event.deadline else ""
    return f"sent back: {line(event.feedback)}{until}"


def _because(text: str) -> str:
    return f": {line(text)}" if text else ""


def joined_of(event: ev.Joined) -> str:
    """Return what of a join is merged: the branch that was chosen, or how many count."""
    if event.how == "chosen":
        return f" {clean(event.branch)}"
    counted = f"{many(event.counted, 'branch')} counted"
    return f" ({counted}; {outcomes(event.outcomes)})"


def outcomes(counts: dict[str, int]) -> str:
    """Return how branches ended: ``2 done, 1 refused``."""
    return ", ".join(f"{count} {clean(name)}" for name, count in sorted(counts.items()) if count) or "none"


def join(join_id: str) -> str:
    """Return enough of a join's id to tell it from others of its session: ``j-2``."""
    return clean(join_id.partition(".")[2] or join_id)


def returned(body: Return) -> str:
    """Return what a return says, in short."""
    match body:
        case DoneReturn():
            return f"done: {brief(body.output)}"
        case NeedsInputReturn():
            return f"needs-input: {many(len(body.questions), 'question')}"
        case RefusedReturn():
            return f"refused: {line(body.reason)}"
        case EscalateReturn():
            return f"escalate: {line(body.reason)}"


def call(tool: str, args: object) -> str:
    """Return a call as its tool and arguments."""
    return f"{clean(tool)} {brief(args)}"


def short(effect_id: str) -> str:
    """Return enough of an effectId to tell it from others of its session: ``e-1a2b3c4d5e6f``."""
    return clean(effect_id.partition(".")[2][:14] or effect_id[:40])
