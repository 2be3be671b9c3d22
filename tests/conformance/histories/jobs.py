"""What simulated workers do with a pack: small programs that stop before each thing they do to the world.

A program can be left at any point (a crash), or be gone on with much later (a process that froze and
woke up). Where the store is away it tries the same act again when it is next gone on with.
"""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, TypeVar

from passdown.broker.gateway import DirectGateway
from passdown.contracts import ids
from passdown.contracts.codec import digest_of, encode
from passdown.contracts.commands import ToolNote
from passdown.contracts.errors import (
    Conflict,
    ContractError,
    Denied,
    Fenced,
    NotFound,
    PassdownError,
    Unavailable,
)
from passdown.contracts.gateway import AgentInfo, Claim, Offer, Taking, Wanted
from passdown.contracts.pack import Pack, PackTool
from passdown.contracts.replies import Recorded, Run, Suspended
from tests.conformance.histories.markers import marked
from tests.conformance.histories.outside import Arrival, Outside, Writing
from tests.conformance.histories.plans import NEVER_GRANTED

T = TypeVar("T")
#: A program: each `yield` is a point at which it can be left, and says what comes next.
Program = Generator[str, None, T]

End = Literal[
    "done",
    "needs-input",
    "refused",
    "escalate",
    "fail",
    "junk",
    "misfit",
    "foreign",
    "ungranted",
    "release",
    "vanish",
]

#: As much text as stretches the budgets without breaking them.
BULK = "x" * 20_000


@dataclass(frozen=True, repr=False)
class Script:
    """How an agent behaves in one attempt; by default it is honest and quick."""

    writings: tuple[Writing, ...] = ("ok",)
    end: End = "done"
    decision: str = "approve"
    suggest: str | None = None
    read: bool = False
    checkpoint: bool = False
    #: All intents first, then all writes.
    parallel: bool = False
    #: Another amount than an honest agent would choose; ``after`` names what was done before.
    changed: bool = False
    after: bool = False
    #: Calls nothing that writes, whatever was approved.
    idle: bool = False
    #: A call beyond what its stage grants.
    greedy: bool = False
    #: Goes on, and gives its return, when it is told that its claim is over.
    stubborn: bool = False
    #: Each call of the broker is made twice, with the same ids.
    twice: bool = False
    #: Acts as an agent also where the pack asks to settle.
    confused: bool = False
    #: What its `verify` is worth.
    sure: bool = True
    hand_back: bool = False
    bulky: bool = False
    takes_on: bool = True

    def __repr__(self) -> str:
        quirks = {one.name: getattr(self, one.name) for one in fields(self)}
        shown = (
            f"{one.name}={quirks[one.name]!r}" for one in fields(self) if quirks[one.name] != one.default
        )
        return f"Script({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


HONEST = Script()


class World(Protocol):
    """What a program needs of the world around it."""

    outside: Outside

    def version(self, session_id: str) -> int: ...
    def saw_pack(self, pack: Pack) -> None: ...
    def key(self, session_id: str) -> str: ...


class Job:
    """One offered pack in the hands of a worker."""

    def __init__(
        self, world: World, gateway: DirectGateway, offer: Offer, script: Script, claim_id: str
    ) -> None:
        self.pack = offer.pack
        self.claim_id = claim_id
        self.script = script
        self.claim: Claim | None = None
        #: Whether its worker holds other packs meanwhile.
        self.holding = False
        #: What was taken along with the return.
        self.taking: Taking | None = None
        self._world = world
        self._gateway = gateway
        self._counters: dict[str, int] = dict(self.pack.snapshot.counters) if self.pack.snapshot else {}
        self._numbers = 0
        self._notes: list[ToolNote] = []
        self._written = 0
        self._seen_done: list[str] = []
        self._program = self._run()
        self.over = False

    def go_on(self) -> None:
        """Do the next thing."""
        try:
            next(self._program)
        except StopIteration:
            self.over = True

    def _mark(self, text: str) -> str:
        return marked(self._world.key(self.pack.session_id), text + (BULK if self.script.bulky else ""))

    def _ask(self, what: str, act: Callable[[], T]) -> Program[T]:
        """Ask the broker, again and again while it is away; twice where the script says so."""
        while True:
            yield what
            try:
                outcome = _outcome(act)
                if self.script.twice:
                    again = _outcome(act)
                    assert _same(outcome, again), f"rule 1: {what} made twice: {outcome!r}, then {again!r}"
            except Unavailable:
                continue
            if isinstance(outcome, PassdownError):
                raise outcome
            return outcome

    def _commit(self, what: str, act: Callable[[list[ToolNote]], T]) -> Program[T]:
        """Ask for something that the waiting notes ride along with; the same ones at each try."""
        notes = list(self._notes)
        done = yield from self._ask(what, lambda: act(notes))
        self._notes.clear()
        return done

    def _run(self) -> Program[None]:
        pack, script, gateway = self.pack, self.script, self._gateway
        self._world.saw_pack(pack)
        if script.hand_back:
            yield from self._ask("hand back", lambda: gateway.hand_back(pack, "not here", after_seconds=2.0))
            return
        agent = AgentInfo(name=pack.role, version="1", model="m")
        try:
            self.claim = yield from self._ask("claim", lambda: gateway.claim(pack, self.claim_id, agent))
        except PassdownError:
            return
        try:
            if pack.cause == "settle" and not script.confused:
                yield from self._settle(self.claim)
            else:
                yield from self._work(self.claim)
        except Fenced:
            if script.stubborn:
                yield from self._shrug(self._end(self.claim))
        except (Denied, Conflict, ContractError, NotFound) as error:
            yield from self._shrug(self._fail(self.claim, str(error)))

    def _shrug(self, program: Program[None]) -> Program[None]:
        with contextlib.suppress(PassdownError):
            yield from program

    def _settle(self, claim: Claim) -> Program[None]:
        yield "verify"
        verdicts = [
            self._world.outside.verify(effect.effect_id, sure=self.script.sure)
            for effect in self.pack.effects
            if effect.status == "unknown"
        ]
        yield from self._ask("settle", lambda: self._gateway.settle(claim, verdicts))

    def _work(self, claim: Claim) -> Program[None]:
        script, gateway = self.script, self._gateway
        if script.read:
            yield "read"
            self._read()
        tools = [tool for tool in self.pack.tools if tool.effect and not script.idle]
        if script.end == "ungranted":
            yield from self._effect(claim, _NOT_MINE)
        if (
            yield from (self._side_by_side(claim, tools) if script.parallel else self._in_turn(claim, tools))
        ):
            return
        if script.checkpoint:
            number, data = self._number(), {"text": self._mark("so far"), "at": self.pack.attempt}
            counters = dict(self._counters)
            yield from self._commit(
                "checkpoint", lambda notes: gateway.checkpoint(claim, number, data, counters, notes)
            )
        yield from self._end(claim)

    def _in_turn(self, claim: Claim, tools: list[PackTool]) -> Program[bool]:
        for tool in tools:
            if (yield from self._effect(claim, tool)):
                return True
        return False

    def _side_by_side(self, claim: Claim, tools: list[PackTool]) -> Program[bool]:
        runs: list[tuple[PackTool, Run]] = []
        for tool in tools:
            reply = yield from self._intend(claim, tool)
            if isinstance(reply, Suspended):
                return True
            if isinstance(reply, Run):
                runs.append((tool, reply))
        for tool, run in runs:
            yield from self._write(claim, tool, run)
        return False

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _read(self) -> None:
        for tool in self.pack.tools:
            if not tool.effect:
                args = {"order": self._mark("")[:80]}
                result = {"text": self._mark("read")[:3000]}
                self._notes.append(
                    ToolNote(
                        tool=tool.name, args=args, result=result, result_digest=digest_of(result), kept=True
                    )
                )
        self._notes.append(ToolNote(tool=NEVER_GRANTED, args=None))

    def _arguments(self, tool: PackTool) -> dict[str, Any]:
        args: dict[str, Any] = {"order": marked(self._world.key(self.pack.session_id))}
        properties: dict[str, Any] = tool.params["properties"] if isinstance(tool.params, dict) else {}
        if "cents" in properties:
            args["cents"] = 99_999 if self.script.greedy else 20 if self.script.changed else 10
        return args

    def _intend(self, claim: Claim, tool: PackTool) -> Program[Run | Recorded | Suspended]:
        args = self._arguments(tool)
        identity = {name: args[name] for name in tool.identity} if tool.identity else args
        key = f"{tool.name}:{ids.identity_digest(identity)}"
        n = self._counters[key] = self._counters.get(key, 0) + 1
        effect_id = ids.effect_id(self.pack.session_id, self.pack.step, tool.name, identity, n)
        counters = dict(self._counters)
        after = self._before(tool, effect_id) if self.script.after else None
        try:
            return (
                yield from self._commit(
                    "intend",
                    lambda notes: self._gateway.effect(
                        claim, effect_id, tool.name, args, counters, after, notes
                    ),
                )
            )
        except PassdownError:
            self._counters[key] = n - 1
            raise

    def _before(self, tool: PackTool, effect_id: str) -> str | None:
        done = [
            one.effect_id
            for one in self.pack.effects
            if one.tool == tool.name and one.step == self.pack.step and one.effect_id != effect_id
        ]
        return done[-1] if done else None

    def _effect(self, claim: Claim, tool: PackTool) -> Program[bool]:
        """Call a tool that writes outside; True where a person must see it first, which ends the claim."""
        reply = yield from self._intend(claim, tool)
        match reply:
            case Run():
                yield from self._write(claim, tool, reply)
                return False
            case Recorded():
                if reply.status == "done":
                    assert isinstance(reply.result, dict), f"rule 3: {reply} has lost its result"
                    self._seen_done.append(reply.effect_id)
                return False
            case Suspended():
                return True

    def _write(self, claim: Claim, tool: PackTool, run: Run) -> Program[None]:
        writing = self.script.writings[min(self._written, len(self.script.writings) - 1)]
        self._written += 1
        yield "write"
        result: Any = None
        if writing in ("ok", "lost", "silent"):
            version = self._world.version(self.pack.session_id)
            result = self._world.outside.write(
                Arrival(run.effect_id, tool.name, run.args, self.claim_id, version)
            )
        if self.script.bulky and result:
            result = {**result, "text": self._mark("")}
        report = self._gateway.report
        match writing:
            case "ok":
                self._seen_done.append(run.effect_id)
                yield from self._ask("report", lambda: report(claim, run.effect_id, "done", result=result))
            case "not-done":
                yield from self._ask(
                    "report", lambda: report(claim, run.effect_id, "failed", error="no money")
                )
            case "lost" | "never":
                yield from self._ask(
                    "report", lambda: report(claim, run.effect_id, "unknown", error="time out")
                )
            case "silent":
                pass

    def _fail(self, claim: Claim, problem: str) -> Program[None]:
        gateway = self._gateway
        yield from self._commit("fail", lambda notes: gateway.fail(claim, "error", problem, notes))

    def _end(self, claim: Claim) -> Program[None]:
        gateway, end = self._gateway, self.script.end
        if end == "fail":
            yield from self._fail(claim, self._mark("cannot"))
        elif end == "release":
            yield from self._commit("release", lambda notes: gateway.release(claim, "shutting down", notes))
        elif end != "vanish":
            body = self.body(claim)
            takes_on = self.script.takes_on and not self.script.twice
            taking = Wanted(self.pack.role, 1, self.holding) if takes_on else None
            self.taking = yield from self._commit(
                "give",
                lambda notes: gateway.give(claim, body, notes, then_take=taking),
            )

    def body(self, claim: Claim) -> bytes:
        """Return the bytes of the return."""
        script = self.script
        if script.end == "junk":
            return b'\xff\xfe{"result": "done"'
        head: dict[str, Any] = {
            "spec": "passdown.return/1",
            "sessionId": self.pack.session_id,
            "step": self.pack.step,
            "attempt": self.pack.attempt,
            "claimId": claim.fence.claim_id,
            "packDigest": self.pack.digest,
            "stage": self.pack.stage,
            "nextStep": script.suggest,
        }
        if script.end == "foreign":
            head["packDigest"] = "0" * 64
        return encode({**head, **self._content()})

    def _content(self) -> dict[str, Any]:
        match self.script.end:
            case "needs-input":
                kinds: list[Any] = ["integer", ["integer", "string"]]
                questions = [
                    {"id": f"q{n}", "text": self._mark("how many?"), "schema": {"type": kind}}
                    for n, kind in enumerate(kinds, 1)
                ]
                return {"result": "needs-input", "questions": questions}
            case "refused":
                return {"result": "refused", "reason": self._mark("no"), "policy": "p1"}
            case "escalate":
                return {"result": "escalate", "reason": self._mark("help"), "risks": ["r"]}
            case "misfit":
                return {"result": "done", "output": {"text": 1}}
            case _:
                output = {
                    "text": self._mark("fine"),
                    "decision": self.script.decision,
                    "done": self._seen_done,
                }
                return {"result": "done", "output": output}


_NOT_MINE = PackTool(name=NEVER_GRANTED, params=True, effect=True, digest="")


def _outcome(act: Callable[[], T]) -> T | PassdownError:
    try:
        return act()
    except Unavailable:
        raise
    except PassdownError as error:
        return error


def _same(first: object, again: object) -> bool:
    if isinstance(first, PassdownError) or isinstance(again, PassdownError):
        return type(first) is type(again) and str(first) == str(again)
    return first == again
