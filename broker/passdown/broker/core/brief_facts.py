"""What a log says about its session, gathered for the brief in one pass over the events."""

from dataclasses import dataclass, field
from typing import Any

from passdown.broker.core.brief_subjects import Finder, Place
from passdown.broker.core.brief_text import name, quoted, quoted_value
from passdown.contracts import events as ev
from passdown.contracts.brief import Quoted, Touch
from passdown.contracts.plans import Plan
from passdown.contracts.returns import DoneReturn, EvidenceItem

#: How an effect stands after an event on it.
_STATUS: dict[type[ev.Event], str] = {
    ev.EffectProposed: "proposed",
    ev.EffectIntended: "intended",
    ev.EffectDone: "done",
    ev.EffectFailed: "failed",
    ev.EffectUnknown: "unknown",
}
EffectEvent = (
    ev.EffectProposed
    | ev.EffectIntended
    | ev.EffectDone
    | ev.EffectFailed
    | ev.EffectUnknown
    | ev.EffectSettled
)


#: Those events of tickets that a brief tells of.
TicketEvent = (
    ev.TicketOpened
    | ev.TicketCommented
    | ev.TicketApproved
    | ev.TicketResolved
    | ev.TicketWithdrawn
    | ev.TicketExpired
)


@dataclass(slots=True)
class Said:
    """Something in the log: which event, when (store milliseconds), and by whom."""

    event: int
    at: int
    by: str


@dataclass(slots=True)
class EffectFacts:
    """An effect as the log tells it; what the state left in the log is here."""

    tool: str
    step: int
    status: str = ""
    args: Any = None
    args_event: int = 0
    proposed: bool = False
    edited: Any = None
    result: Any = None
    result_event: int | None = None
    error: Quoted | None = None
    ended: Said | None = None
    settled: str = ""
    decisions: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class TicketFacts:
    """A ticket as the log tells it."""

    opened: ev.TicketOpened
    event: int
    at: int
    approved: list[str] = field(default_factory=list[str])
    how: str = ""
    note: Quoted | None = None
    comments: list[Quoted] = field(default_factory=list[Quoted])


@dataclass(slots=True)
class StepFacts:
    """A stage entry, and what became of its attempts."""

    event: int
    step: int
    stage: str
    human: bool
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1


@dataclass(slots=True)
class QuestionFacts:
    """A question, and its answer once there is one."""

    asked: Quoted
    answer: Quoted | None = None


class Facts:
    """Walks a log once, and keeps what a brief needs of it."""

    def __init__(self, plan: Plan) -> None:
        self.finder = Finder(plan.subjects)
        self.effects: dict[str, EffectFacts] = {}
        self.tickets: dict[int, TicketFacts] = {}
        self.steps: list[StepFacts] = []
        self.decisions: list[tuple[int, str]] = []
        self.questions: dict[tuple[int, int, str], QuestionFacts] = {}
        self.evidence: list[Quoted] = []
        self.returned: tuple[Said, ev.Returned] | None = None
        self.error: Quoted | None = None
        self.checkpoint: int | None = None
        self.read: set[str] = set()
        self.unkept = 0
        self.moved_at = 0

    def add(self, logged: ev.Logged) -> None:
        """Take in the next event."""
        event = logged.event
        match event:
            case ev.SessionOpened():
                self.finder.look(event.inputs, Place(logged.seq, "inputs"))
            case ev.StageEntered():
                self.steps.append(StepFacts(logged.seq, event.step, event.stage, event.human))
                self.checkpoint, self.moved_at = None, logged.at
            case ev.ToolCalled():
                self._called(event, logged.seq)
            case ev.Checkpointed():
                self.checkpoint = logged.seq
            case ev.Returned():
                self._returned(event, logged)
            case ev.InputRequested() | ev.InputProvided():
                self._asked(event, logged)
            case _:
                self._more(event, logged)

    def _more(self, event: ev.Event, logged: ev.Logged) -> None:
        if isinstance(event, EffectEvent):
            self._effect(event, logged)
        elif isinstance(event, TicketEvent):
            self._ticket(event, logged)
        elif isinstance(event, ev.Escalated):
            self.finder.look(event.hand_over, Place(logged.seq, "hand-over"))
        else:
            self._attempt(event, logged)

    def _attempt(self, event: ev.Event, logged: ev.Logged) -> None:
        """Count what became of attempts, and keep the last error."""
        step = self.steps[-1] if self.steps else None
        kind = type(event).__name__
        if step is not None and kind in ("PackIssued", "LeaseLost", "ReturnRejected", "ClaimReleased"):
            step.count(kind)
        match event:
            case ev.LeaseLost():
                self.error = quoted("the broker", "a worker was lost: its lease ran out", logged.seq)
            case ev.ReturnRejected():
                self.error = quoted(
                    f"{name(logged.by)}, whose return was rejected", event.problem, logged.seq
                )
            case ev.ToolDenied():
                # The name of a tool that there is not is an agent's word, too.
                self.error = quoted("the refusal of a call", f"{event.tool}\n{event.why}", logged.seq)
            case ev.Failed():
                self.error = quoted("the end of the session", event.reason, logged.seq)
            case ev.Reopened():
                self.decisions.append((logged.seq, "the session was reopened"))
            case _:
                pass

    def _called(self, event: ev.ToolCalled, seq: int) -> None:
        tool = name(event.tool)
        self.read.add(event.tool)
        self.finder.look(event.args, Place(seq, f"arguments of tool {tool}"))
        if event.error:
            self.error = quoted(f"tool {tool}", event.error, seq)
        if event.kept:
            self.finder.look(event.result, Place(seq, f"tool {tool}"))
        elif event.result_digest or event.args is None:
            self.unkept += 1

    def _returned(self, event: ev.Returned, logged: ev.Logged) -> None:
        self.returned = (Said(logged.seq, logged.at, logged.by), event)
        self.evidence += [evidence_of(one, logged) for one in event.body.evidence]
        if isinstance(event.body, DoneReturn):
            self.finder.look(
                event.body.output, Place(logged.seq, f"output of stage {name(event.body.stage)}")
            )

    def _asked(self, event: ev.InputRequested | ev.InputProvided, logged: ev.Logged) -> None:
        step = self.steps[-1].step if self.steps else 0
        if isinstance(event, ev.InputRequested):
            for one in event.questions:
                asked = quoted(
                    f"a question of the agent of stage {name(self._stage())}", one.text, logged.seq
                )
                self.questions[step, event.attempt, one.id] = QuestionFacts(asked)
            return
        question = self.questions.get((step, event.attempt, event.id))
        if question is not None:
            question.answer = quoted_value(f"the answer of {name(logged.by)}", event.value, logged.seq)
        self.finder.look(event.value, Place(logged.seq, f"answer of {name(logged.by)}"))

    def _stage(self) -> str:
        return self.steps[-1].stage if self.steps else ""

    def _effect(self, event: EffectEvent, logged: ev.Logged) -> None:
        if isinstance(event, ev.EffectProposed | ev.EffectIntended):
            self._intended(event, logged)
            return
        facts = self.effects.get(event.effect_id)
        if facts is None:
            return
        facts.ended = Said(logged.seq, logged.at, logged.by)
        tool = name(facts.tool)
        match event:
            case ev.EffectFailed():
                facts.error = self.error = quoted(f"tool {tool}", event.error, logged.seq)
                self.finder.look(event.error, Place(logged.seq, f"error of tool {tool}", "", written=True))
            case ev.EffectUnknown():
                facts.error = self.error = quoted(
                    f"the broker or its worker on tool {tool}", event.why, logged.seq
                )
            case ev.EffectDone() | ev.EffectSettled():
                self._ended(facts, event, logged.seq)
        facts.status = event.status if isinstance(event, ev.EffectSettled) else _STATUS[type(event)]

    def _ended(self, facts: EffectFacts, event: ev.EffectDone | ev.EffectSettled, seq: int) -> None:
        if isinstance(event, ev.EffectSettled):
            facts.settled = "a person said so" if event.how == "person" else "the tool was asked"
        if isinstance(event, ev.EffectSettled) and event.status != "done":
            facts.result, facts.result_event = None, None
            return
        facts.result, facts.result_event = event.result, seq
        self.finder.look(event.result, Place(seq, f"result of tool {name(facts.tool)}", "", written=True))

    def _intended(self, event: ev.EffectProposed | ev.EffectIntended, logged: ev.Logged) -> None:
        step = self.steps[-1].step if self.steps else 0
        facts = self.effects.setdefault(event.effect_id, EffectFacts(event.tool, step))
        proposed = isinstance(event, ev.EffectProposed)
        facts.status = _STATUS[type(event)]
        facts.ended = Said(logged.seq, logged.at, logged.by)
        if facts.edited is None or proposed:
            facts.args, facts.args_event = event.args, logged.seq
        if proposed:
            facts.proposed, facts.edited = True, None
        touch: Touch = "proposed" if proposed else "write"
        self.finder.look(event.args, Place(logged.seq, f"arguments of tool {name(event.tool)}", touch))

    def _ticket(self, event: TicketEvent, logged: ev.Logged) -> None:
        if isinstance(event, ev.TicketOpened):
            self.tickets[event.ticket_no] = TicketFacts(event, logged.seq, logged.at)
            return
        facts = self.tickets.get(event.ticket_no)
        if facts is None:
            return
        by = name(logged.by)
        match event:
            case ev.TicketCommented():
                facts.comments.append(quoted(f"a comment of {by}", event.text, logged.seq))
            case ev.TicketApproved():
                facts.approved = [by] if event.args is not None else [*facts.approved, by]
                self._decided(facts, f"approved by {by}" if event.args is None else f"edited by {by}", logged)
                self._edited(facts, event.args, logged)
            case ev.TicketResolved():
                self._resolved(facts, event, logged)
            case ev.TicketWithdrawn():
                facts.how = "withdrawn"
                facts.note = quoted("its withdrawal", event.why, logged.seq)
            case ev.TicketExpired():
                facts.how = f"nobody resolved it, so that {name(event.to)} followed"
                self.decisions.append((logged.seq, f"ticket {event.ticket_no} expired"))

    def _resolved(self, facts: TicketFacts, event: ev.TicketResolved, logged: ev.Logged) -> None:
        by = name(logged.by)
        facts.how = f"{event.resolution} by {by}"
        if event.note:
            facts.note = quoted(f"a note of {by}", event.note, logged.seq)
        if event.resolution == "edit":
            self._edited(facts, event.value, logged)
        else:
            self.finder.look(event.value, Place(logged.seq, f"decision of {by}"))
        words = {"approve": "approved", "edit": "edited and approved", "deny": "denied"}
        self._decided(facts, f"{words.get(event.resolution, event.resolution)} by {by}", logged)

    def _edited(self, facts: TicketFacts, args: Any, logged: ev.Logged) -> None:
        effect = self.effects.get(facts.opened.about)
        if args is None or effect is None:
            return
        effect.edited = args
        where = f"arguments that {name(logged.by)} gave to tool {name(effect.tool)}"
        self.finder.look(args, Place(logged.seq, where, "proposed"))

    def _decided(self, facts: TicketFacts, what: str, logged: ev.Logged) -> None:
        number = facts.opened.ticket_no
        self.decisions.append((logged.seq, f"ticket {number} ({facts.opened.kind}): {what}"))
        effect = self.effects.get(facts.opened.about)
        if effect is not None and facts.opened.kind != "effect":
            effect.decisions.append(f"{what} in ticket {number}, event {logged.seq}")
            if what.startswith("denied"):
                effect.status = "denied"


def evidence_of(item: EvidenceItem, logged: ev.Logged) -> Quoted:
    """Return a piece of evidence as its agent gave it: what it claims, and where that can be seen."""
    digest = f"\ndigest: {item.digest}" if item.digest else ""
    text = f"{item.claim}\nsource: {item.source}{digest}"
    return quoted(f"the evidence of {name(logged.by)}", text, logged.seq)
