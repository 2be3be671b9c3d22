"""Given events, when a command, then events: a specification of the pure core.

`Session` is one session under test. Each command goes through `decide`, and after each the log's hash
chain, the fold of the whole log against the state (rule 6) and the invariants are checked, so that every
test of the core checks them on its way. No I/O, no mock, no clock: `tick` moves the time.
"""

from typing import Any, Literal, Self

import pytest

from passdown.broker.core.decide import decide, dues
from passdown.broker.core.evolve import evolve, fold
from passdown.broker.core.given import Command, Decision, Given, Who
from passdown.broker.core.join import Facts
from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts import ids
from passdown.contracts.codec import decode, decode_any, digest, encode
from passdown.contracts.errors import PassdownError
from passdown.contracts.pack import Pack, read_pack
from passdown.contracts.plans import Plan, plan_ref
from passdown.contracts.replies import Recorded, Refusal, Reply, Run, Suspended, raise_refusal
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Question,
    RefusedReturn,
)
from passdown.contracts.ticket_events import Resolution
from passdown.contracts.tools import ToolSpec, identity_of, tool_digest
from tests.unit.core import invariants

START = 1_700_000_000_000
ANN, BOB, CLERK, AGENT, TICK = "user:ann", "user:bob", "user:carla", "agent:worker", "service:tick"

Phase = Literal["done", "failed", "unknown"]


class Like:
    """Stands for any event of a kind with these fields."""

    def __init__(self, kind: type[ev.Event], /, **fields: Any) -> None:
        self.kind = kind
        self.fields = fields

    def matches(self, event: ev.Event) -> bool:
        return isinstance(event, self.kind) and all(getattr(event, k) == v for k, v in self.fields.items())

    def __repr__(self) -> str:
        return f"{self.kind.__name__}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"


like = Like
Expected = Like | str


class Session:
    """A session of `plan`, with `tools` registered."""

    def __init__(self, plan: Plan, *tools: ToolSpec, key: str = "k", newest: Plan | None = None) -> None:
        self.plan = plan
        self.newest = newest
        self.registered = {spec.name: (tool_digest(spec), spec) for spec in tools}
        self.known_specs = {tool_digest(spec): spec for spec in tools}
        self.id = ids.session_id(key)
        self.key = key
        self.events_to = ""
        self.at = START
        self.log: list[bytes] = []
        self.packs: dict[str, Pack] = {}
        self.last: list[ev.Event] = []
        self.decision: Decision | None = None
        self.fence = Fence(step=1, attempt=1, claim_id="c" * 8)
        #: What is known of principals; of whom nothing is known here is unrestricted.
        self.known: dict[str, Who] = {}
        self._state: State | None = None
        self._folded: State | None = None
        self._claims = 0

    # Given

    @property
    def state(self) -> State:
        assert self._state is not None
        return self._state

    @property
    def events(self) -> list[ev.Event]:
        return [logged.event for logged in self.logged]

    @property
    def logged(self) -> list[ev.Logged]:
        return [decode(raw, ev.Logged) for raw in self.log]

    def register(self, spec: ToolSpec) -> None:
        self.registered[spec.name] = (tool_digest(spec), spec)
        self.known_specs[tool_digest(spec)] = spec

    def record(self, event: ev.Event, by: str = TICK) -> Self:
        """Put an event into the log that no command of these tests led to."""
        state = self.state
        entry = ev.Logged(seq=state.seq + 1, at=self.at, by=by, prev=state.head, event=event)
        raw = encode(entry)
        self._fold(raw)
        self._state = self._folded
        self.log.append(raw)
        return self

    def given(self) -> Given:
        """Return what the controller would hand in."""
        state = self._state
        wanted = set(state.issued.tools.values()) if state and state.issued else set[str]()
        if state:
            asked = {one.about for one in state.tickets if one.kind == "unmet"}
            wanted |= {
                one.tool_digest
                for one in state.effects
                if one.status in ("proposed", "intended", "unknown") or one.effect_id in asked
            }
        return Given(
            self.plan, self.newest, dict(self.registered), {one: self.known_specs[one] for one in wanted}
        )

    def tick(self, ms: int) -> Self:
        self.at += ms
        return self

    # When

    def decide(self, body: cmd.Body, by: str = AGENT) -> Decision:
        """Return what a command leads to, without doing it."""
        facts, who = self.facts(body), self.known.get(by)
        command = Command(self.id, body, self.at, by, self.given(), self.events_to, facts, who)
        return decide(self._state, command)

    def facts(self, body: cmd.Body) -> Facts | None:
        """Return what the controller would read of a join for a command."""
        return None

    def do(self, body: cmd.Body, by: str = AGENT) -> Reply:
        """Carry out a command, check all that must hold after any, and return the reply; raises its refusal."""
        before = self._state
        decision = self.decide(body, by)
        again = self.decide(body, by)
        assert (decision.events, decision.pack) == (again.events, again.pack), "decide is not a function"
        assert (decision.waking, decision.mark) == (again.waking, again.mark), "decide is not a function"
        self.last = [self._fold(raw) for raw in decision.events]
        self._state = decision.state
        self.decision = decision
        self.log += decision.events
        invariants.rule_06_the_log_proves_the_state(decision.state, self._folded, self.log)
        invariants.check(before, decision.state, self.last)
        if decision.pack is not None:
            pack = read_pack(decision.pack)
            self.packs[pack.digest] = pack
        raise_refusal(decision.reply)
        return decision.reply

    def _fold(self, raw: bytes) -> ev.Event:
        logged: ev.Logged = decode_any(raw, ev.Logged)
        assert encode(logged) == raw, "rule 6: a logged event is not canonical"
        # From bytes to bytes, so that nothing of the deciding process is left in what is folded.
        known = None if self._folded is None else decode(encode(self._folded), State)
        self._folded = evolve(known, logged, digest(raw))
        return logged.event

    def refold(self) -> State | None:
        return fold(decode_any(raw, ev.Logged) for raw in self.log)

    def refuses(
        self, kind: type[PassdownError], body: cmd.Body, by: str = AGENT, match: str = ""
    ) -> PassdownError:
        """Check that a command raises an error and changes nothing (rule 11)."""
        before = encode(self._state)
        with pytest.raises(PassdownError) as raised:
            self.decide(body, by)
        assert type(raised.value) is kind, f"expected {kind.__name__}, got {raised.value!r}"
        assert match in str(raised.value), f"expected {match!r} in {raised.value}"
        assert encode(self._state) == before
        return raised.value

    def refused_and_recorded(
        self, kind: type[PassdownError], body: cmd.Body, by: str = AGENT
    ) -> PassdownError:
        """Check that a command is recorded and answered with an error."""
        with pytest.raises(PassdownError) as raised:
            self.do(body, by)
        assert type(raised.value) is kind, f"expected {kind.__name__}, got {raised.value!r}"
        return raised.value

    # Then

    def then(self, *expected: Expected) -> Self:
        """Check the events of the last command."""
        names = [type(event).__name__ for event in self.last]
        assert len(names) == len(expected), f"expected {expected}, got {names}"
        for event, want in zip(self.last, expected, strict=True):
            fits = type(event).__name__ == want if isinstance(want, str) else want.matches(event)
            assert fits, f"expected {want}, got {event}"
        return self

    def nothing(self) -> Self:
        assert self.last == [], self.last
        return self

    def stands(self, status: str, **fields: Any) -> Self:
        """Check the status that users see, and fields of the state."""
        assert self.state.shown_status == status, f"expected {status}, got {self.state.shown_status}"
        for name, value in fields.items():
            assert getattr(self.state, name) == value, f"{name}: {getattr(self.state, name)!r}"
        return self

    @property
    def pack(self) -> Pack:
        """The pack that is issued now."""
        assert self.state.issued
        return self.packs[self.state.issued.digest]

    # A producer and its operator

    def submit(self, inputs: dict[str, Any] | None = None, **more: Any) -> Self:
        self.do(cmd.Submit(key=self.key, plan=plan_ref(self.plan), inputs=inputs or {}, **more), ANN)
        return self

    def cancel(self, reason: str = "") -> Self:
        self.do(cmd.Cancel(seen=self.state.seq, reason=reason), ANN)
        return self

    def pause(self, for_ms: int | None = None) -> Self:
        self.do(cmd.Pause(seen=self.state.seq, for_ms=for_ms), ANN)
        return self

    def resume(self) -> Self:
        self.do(cmd.Resume(seen=self.state.seq), ANN)
        return self

    def retry(self) -> Self:
        self.do(cmd.Retry(seen=self.state.seq), ANN)
        return self

    def answer(self, name: str, value: Any, by: str = ANN, *, attempt: int | None = None) -> Self:
        attempt = (
            next(q.attempt for q in reversed(self.state.questions) if q.id == name)
            if attempt is None
            else attempt
        )
        self.do(cmd.Answer(step=self.state.step, attempt=attempt, id=name, value=value), by)
        return self

    # The tick

    def due(self, kind: cmd.DueKind) -> Self:
        """Let a due entry of this kind come up; the clock moves there."""
        entry = next(one for one in dues(self.state) if one.kind == kind)
        self.at = max(self.at, entry.at)
        self.do(cmd.Due(kind=kind, subject=entry.subject, due_at=entry.at), TICK)
        return self

    def lose(self) -> Self:
        """Let the lease of the claim run out."""
        assert self.state.claim
        self.do(cmd.Due(kind="lease", subject=self.state.claim.claim_id, due_at=0), TICK)
        return self

    # A worker

    def next_fence(self) -> Fence:
        self._claims += 1
        return Fence(step=self.state.step, attempt=self.state.attempt, claim_id=f"claim-{self._claims:03}")

    def claim(self, by: str = AGENT) -> Self:
        assert self.state.issued
        fence = self.next_fence()
        self.do(
            cmd.Claim(fence=fence, pack_digest=self.state.issued.digest, agent="a", agent_version="1"), by
        )
        self.fence = fence
        return self

    def release(self) -> Self:
        self.do(cmd.Release(fence=self.fence))
        return self

    def checkpoint(self, data: Any, counters: dict[str, int] | None = None) -> Self:
        self.do(cmd.Checkpoint(fence=self.fence, number=1, data=data, counters=counters or {}))
        return self

    def bound(self) -> dict[str, Any]:
        """Return the fields that bind a return to the claim."""
        digest_ = self.state.issued.digest if self.state.issued else "0" * 64
        fence = self.fence
        return {
            "session_id": self.id,
            "step": fence.step,
            "attempt": fence.attempt,
            "claim_id": fence.claim_id,
            "pack_digest": digest_,
            "stage": self.state.stage,
            "next_step": None,
        }

    def body(self, output: Any = None, **more: Any) -> cmd.Give:
        """Return the command that gives `done`."""
        fields: dict[str, Any] = {**self.bound(), "output": {} if output is None else output, **more}
        given = DoneReturn(**fields)
        return cmd.Give(fence=self.fence, body=encode(given).decode())

    def done(self, output: Any = None, **more: Any) -> Self:
        self.do(self.body(output, **more))
        return self

    def ask(self, *questions: str, schema: Any = True) -> Self:
        asked = [Question(id=one, text=f"{one}?", schema=schema) for one in questions]
        return self._give(NeedsInputReturn(**self.bound(), questions=asked))

    def refuse(self, reason: str = "no", policy: str = "") -> Self:
        return self._give(RefusedReturn(**self.bound(), reason=reason, policy=policy))

    def escalate(self, reason: str = "help", **more: Any) -> Self:
        return self._give(EscalateReturn(**self.bound(), reason=reason, **more))

    def _give(self, body: Any) -> Self:
        self.do(cmd.Give(fence=self.fence, body=encode(body).decode()))
        return self

    def fail(self, problem: str = "boom") -> Self:
        self.do(cmd.Fail(fence=self.fence, problem=problem))
        return self

    def note(self, *notes: cmd.ToolNote) -> Self:
        self.do(cmd.NoteTools(fence=self.fence, number=1, notes=list(notes)))
        return self

    # Effects

    def intent(
        self,
        tool: str,
        args: dict[str, Any],
        n: int = 1,
        *,
        after: str | None = None,
        also: dict[str, int] | None = None,
    ) -> cmd.Intend:
        """Return the command of the `n`-th call of `tool` with these arguments in this run."""
        spec = self.registered[tool][1] if tool in self.registered else ToolSpec(name=tool, params=True)
        identity = identity_of(spec, args)
        counters = {**(also or {}), f"{tool}:{ids.identity_digest(identity)}": n}
        effect_id = ids.effect_id(self.id, self.state.step, tool, identity, n)
        return cmd.Intend(
            fence=self.fence, effect_id=effect_id, tool=tool, args=args, counters=counters, after=after
        )

    def intend(
        self, tool: str, args: dict[str, Any], n: int = 1, **more: Any
    ) -> Run | Recorded | Suspended | Refusal:
        reply = self.do(self.intent(tool, args, n, **more))
        assert isinstance(reply, Run | Recorded | Suspended)
        return reply

    def run(self, tool: str, args: dict[str, Any], n: int = 1, **more: Any) -> str:
        """Intend, and be told to run; return the effectId."""
        reply = self.intend(tool, args, n, **more)
        assert isinstance(reply, Run), reply
        return reply.effect_id

    def report(
        self, effect_id: str, phase: Phase = "done", *, claim_id: str | None = None, **more: Any
    ) -> Self:
        claim = claim_id or self.fence.claim_id
        self.do(cmd.Report(effect_id=effect_id, claim_id=claim, phase=phase, **more))
        return self

    def effect(self, effect_id: str) -> Any:
        found = self.state.effect(effect_id)
        assert found
        return found

    def settle(self, **found: Literal["found", "absent", "unsure"]) -> Self:
        """Give verdicts: effect numbers in the ledger (``e1``) → what verify found."""
        rows = self.state.effects
        verdicts = [cmd.Verdict(effect_id=rows[int(k[1:]) - 1].effect_id, found=v) for k, v in found.items()]
        self.do(cmd.Settle(fence=self.fence, verdicts=verdicts))
        return self

    # People

    def resolve(
        self,
        resolution: Resolution,
        value: Any = None,
        by: str = BOB,
        *,
        ticket: int | None = None,
        **more: Any,
    ) -> Self:
        self.do(self.resolution(resolution, value, ticket=ticket, **more), by)
        return self

    def resolution(
        self, resolution: Resolution, value: Any = None, *, ticket: int | None = None, **more: Any
    ) -> cmd.Resolve:
        """Return the command that decides a ticket as it stands, the newest open one by default."""
        number = self.state.tickets[-1].ticket_no if ticket is None else ticket
        found = self.state.ticket(number)
        fields: dict[str, Any] = {"version": found.version if found else 1, **more}
        return cmd.Resolve(ticket_no=number, resolution=resolution, value=value, **fields)
