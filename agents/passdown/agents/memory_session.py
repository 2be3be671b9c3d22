"""The state of one handoff in `MemoryGateway`: a session of one step, with its ledger. For tests."""

from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec.structs import replace

from passdown.contracts import ids
from passdown.contracts.commands import ToolNote
from passdown.contracts.gateway import AgentInfo, BranchResult
from passdown.contracts.pack import (
    Cause,
    EffectStatus,
    Feedback,
    Pack,
    PackAnswer,
    PackEffect,
    PackRead,
    PackSnapshot,
    PackTool,
    seal,
)
from passdown.contracts.plans import OPERATORS
from passdown.contracts.returns import Question, Return
from passdown.contracts.tools import ToolSpec

SessionStatus = Literal["queued", "running", "waiting", "done", "refused", "escalated", "failed", "cancelled"]


@dataclass
class Effect:
    """One entry of the ledger."""

    effect_id: str
    tool: str
    args: dict[str, Any]
    identity: str
    n: int
    status: EffectStatus
    result: Any = None
    error: str = ""
    #: Claims that recorded an intent; only they may report.
    claims: list[str] = field(default_factory=list[str])
    #: The digest of the action that a person approved, and the arguments as that person changed them.
    approved: str = ""
    edited: dict[str, Any] | None = None
    #: Whether a person or `verify` allowed one repeat after not-done.
    repeat: bool = False
    touched: int = 0


@dataclass
class Ticket:
    """What a person is asked: about an effect (``about`` is its effectId), a question, or what went wrong."""

    number: int
    kind: Literal["approval", "effect", "question", "escalation", "failure"]
    why: str
    about: str = ""
    queue: str = OPERATORS
    open: bool = True


@dataclass
class Session:
    """A session of one step: the pack of its current attempt, and what is known by now."""

    pack: Pack
    specs: dict[str, ToolSpec]
    max_attempts: int = 3
    rerun: bool = False
    status: SessionStatus = "queued"
    claim_id: str = ""
    agent: AgentInfo | None = None
    reserved: bool = False
    solo: bool = False
    ready_at: float = 0.0
    handed_back: str = ""
    failures: int = 0
    lost: bool = False
    cancelled: bool = False
    snapshot: PackSnapshot | None = None
    ledger: dict[str, Effect] = field(default_factory=dict[str, Effect])
    notes: list[ToolNote] = field(default_factory=list[ToolNote])
    checkpoints: list[Any] = field(default_factory=list[Any])
    feedback: list[Feedback] = field(default_factory=list[Feedback])
    answers: list[PackAnswer] = field(default_factory=list[PackAnswer])
    questions: list[Question] = field(default_factory=list[Question])
    tickets: list[Ticket] = field(default_factory=list[Ticket])
    #: What it merges, in the order of their places.
    branches: list[BranchResult] = field(default_factory=list[BranchResult])
    #: A return that waits until unknown effects are settled, and the one that ended the step.
    kept: Return | None = None
    given: Return | None = None
    #: Returns and failures that came with a fence that was not the current one.
    fenced: int = 0
    causes: list[Cause] = field(default_factory=list[Cause])
    #: The tool of each intent that was let run, in order.
    writes: list[str] = field(default_factory=list[str])
    _clock: int = 0

    @property
    def name(self) -> str:
        """The session's id."""
        return self.pack.session_id

    def tick(self) -> int:
        """Return a number that rises."""
        self._clock += 1
        return self._clock

    def tool(self, name: str) -> PackTool | None:
        """Return the grant of a tool."""
        return next((one for one in self.pack.tools if one.name == name), None)

    def with_status(self, *statuses: EffectStatus) -> list[Effect]:
        """Return the effects in one of these states, in order of their first intent."""
        return [one for one in self.ledger.values() if one.status in statuses]

    def issue(self, cause: Cause) -> None:
        """Put the next attempt on the queue."""
        self.causes.append(cause)
        snapshot = None if self.rerun and cause in ("retry", "rework") else self.snapshot
        self.pack, _ = seal(
            replace(
                self.pack,
                attempt=self.pack.attempt + 1,
                cause=cause,
                snapshot=snapshot,
                effects=[
                    _shown(one, self.pack.step) for one in self.ledger.values() if one.status != "proposed"
                ],
                reads=[_reread(one) for one in self.notes if not one.denied],
                answers=list(self.answers),
                feedback=list(self.feedback),
            )
        )
        self.status, self.claim_id, self.reserved = "queued", "", False

    def end_claim(self, why: str) -> None:
        """End the claim: what is intended is unknown from here on."""
        for one in self.with_status("intended"):
            one.status, one.error = "unknown", why
        self.claim_id, self.agent = "", None

    def ask(
        self,
        kind: Literal["approval", "effect", "question", "escalation", "failure"],
        why: str,
        about: str = "",
    ) -> Ticket:
        """Open a ticket, and wait for a person."""
        ticket = Ticket(len(self.tickets) + 1, kind, why, about)
        self.tickets.append(ticket)
        self.status = "waiting"
        return ticket

    def open_tickets(self) -> list[Ticket]:
        """Return the tickets that nobody decided yet."""
        return [one for one in self.tickets if one.open]

    def go_on(self, cause: Cause = "retry") -> None:
        """Issue what follows once no claim runs: settle, a person, or the next attempt (DESIGN §6)."""
        asked = {one.kind for one in self.open_tickets()}
        if "effect" in asked:
            self.status = "waiting"
        elif self.with_status("unknown"):
            self.issue("settle")
        elif asked & {"approval", "question"}:
            self.status = "waiting"
        elif self.kept is not None:
            self.given, self.kept = self.kept, None
            self._follow()
        elif self.cancelled:
            self.status = "cancelled"
        elif self.failures >= self.max_attempts:
            self.ask("failure", f"{self.failures} attempts did not count")
            self.status = "failed"
        else:
            self.issue(cause)

    def failed(self, kind: str, problem: str) -> None:
        """Count an attempt that did not count."""
        self.end_claim("its claim ended without a return that counts")
        self.failures += 1
        self.feedback.append(Feedback(attempt=self.pack.attempt, kind=kind, text=problem))
        self.go_on()

    def accept(self, given: Return) -> None:
        """Follow a return, or keep it while an effect is unknown."""
        self.end_claim("its claim returned while it was under way")
        self.kept = given
        self.go_on()

    def _follow(self) -> None:
        match self.given.__class__.__name__:
            case "DoneReturn":
                self.status = "done"
            case "RefusedReturn":
                self.status = "refused"
            case "EscalateReturn":
                self.ask("escalation", getattr(self.given, "reason", ""))
                self.status = "escalated"
            case _:
                self.questions = list(getattr(self.given, "questions", []))
                self.ask("question", "; ".join(one.text for one in self.questions))


def new_effect(
    session: Session, effect_id: str, tool: str, args: dict[str, Any], identity: str, n: int
) -> Effect:
    """Return a new entry of the ledger, without status yet."""
    made = Effect(effect_id, tool, args, identity, n, "proposed")
    session.ledger[effect_id] = made
    return made


def identity_of(tool: PackTool, args: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments that make a call the same effect as another one."""
    return {name: args.get(name) for name in tool.identity} if tool.identity else args


def identity_key(tool: str, identity: dict[str, Any]) -> tuple[str, str]:
    """Return the digest of an identity, and the key under which its calls are counted."""
    short = ids.identity_digest(identity)
    return short, f"{tool}:{short}"


def _reread(note: ToolNote) -> PackRead:
    return PackRead(
        tool=note.tool, args=note.args, result=note.result, age_seconds=0.0, read_again=not note.kept
    )


def _shown(effect: Effect, step: int) -> PackEffect:
    return PackEffect(
        effect_id=effect.effect_id,
        step=step,
        tool=effect.tool,
        status=effect.status,
        args=effect.edited or effect.args,
        result=effect.result,
        error=effect.error,
    )
