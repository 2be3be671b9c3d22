"""Run an agent against a pack without a broker.

::

    from passdown.agents.testing import make_pack, run_agent

    pack = make_pack("cashier", tools=[create_refund], inputs={"orderId": "4711", "cents": 1200})
    outcome = run_agent(cashier, pack, tools=[create_refund], crash=("after_write", 1))
    assert outcome.status == "done"
    assert [effect.tool for effect in outcome.effects] == ["refunds.create"]

The agent runs in the real runtime, on a gateway in memory (`MemoryGateway`), until its step is over or
waits for something that was not given: an answer, an approval, a person's word on an unknown effect.

An agent that merges branches, and a reducer, is given them::

    outcome = run_agent(judge, make_pack("judge"), branches=[{"risk": "low"}, {"risk": "high"}])
    outcome = run_agent(total, branches=[{"cents": 5}, {"cents": 7}])
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from passdown.agents.agent import Agent
from passdown.agents.jsonable import as_json, schema_of
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Effect, Session, SessionStatus, Ticket
from passdown.agents.options import Options
from passdown.agents.port import HookPoint
from passdown.agents.reducers import AnyReducer, Reducer
from passdown.agents.runtime import Runtime
from passdown.agents.tools import AnyTool
from passdown.contracts import ids
from passdown.contracts.codec import digest_of
from passdown.contracts.commands import ToolNote
from passdown.contracts.errors import ContractError
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Cause, Feedback, Pack, PackAnswer, PackJoin, PackSnapshot, PackTool, seal
from passdown.contracts.plans import REDUCE, REDUCER, Evidence, Returns
from passdown.contracts.returns import DoneReturn, Return
from passdown.contracts.tools import narrow

__all__ = [
    "Approve",
    "BranchResult",
    "Crash",
    "Decision",
    "Deny",
    "Edit",
    "Effect",
    "Happened",
    "MemoryGateway",
    "NeverHappened",
    "Outcome",
    "Ticket",
    "make_pack",
    "pack_tool",
    "run_agent",
]

#: More rounds than this are a loop.
_ROUNDS = 50


@dataclass(frozen=True, slots=True)
class Approve:
    """A person allows the action as it is."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A person allows it with other arguments."""

    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Deny:
    """A person forbids it."""

    why: str = "a person denied it"


@dataclass(frozen=True, slots=True)
class Happened:
    """A person found that an unknown effect happened."""

    result: Any = None


@dataclass(frozen=True, slots=True)
class NeverHappened:
    """A person found that an unknown effect did not happen, which allows one repeat."""


Decision = Approve | Edit | Deny | Happened | NeverHappened


class Crash(BaseException):
    """The worker dies here, as far as a test in one process can show: nothing it says later is heard."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What became of the step.

    ``result`` is the return that ended it, or None; ``effects`` are the ledger in order of first intent,
    ``writes`` the names of effect tools in the order they were let run, repeats included; ``ticket`` is what is waited for.
    """

    status: SessionStatus
    result: Return | None
    effects: list[Effect]
    writes: list[str]
    reads: list[ToolNote]
    denied: list[ToolNote]
    checkpoints: list[Any]
    causes: list[Cause]
    problems: list[Feedback]
    ticket: Ticket | None
    session: Session = field(repr=False)

    @property
    def output(self) -> Any:
        """The output of a step that is done; raises ContractError, saying why, where it is not."""
        if self.status != "done" or not isinstance(self.result, DoneReturn):
            why = "; ".join(one.text for one in self.problems) or (
                self.ticket.why if self.ticket else "no reason is known"
            )
            raise ContractError("outcome", f"the step is {self.status}, not done: {why}")
        return self.result.output

    @property
    def attempts(self) -> int:
        """How many attempts were issued, settling included."""
        return len(self.causes)


def pack_tool(
    tool: AnyTool,
    *,
    approve: bool = False,
    narrowed: Mapping[str, Any] | None = None,
    permit: Mapping[str, Any] | None = None,
) -> PackTool:
    """Return the grant of a tool: with approval, or with parameters narrowed (name → JSON Schema).

    `permit` are the wider limits within which a person may permit a call that goes beyond those, once.
    """
    spec = tool.spec
    return PackTool(
        name=spec.name,
        description=spec.description,
        params=narrow(spec.params, dict(narrowed or {})),
        effect=spec.effect,
        scope=spec.scope,
        identity=spec.identity,
        fresh_for_seconds=spec.fresh_for_seconds,
        needs_approval=approve,
        permit=None if permit is None else narrow(spec.params, dict(permit)),
        digest=tool.digest,
    )


def make_pack(
    role: str = "worker",
    *,
    inputs: Any = None,
    tools: Iterable[AnyTool | PackTool] = (),
    returns: Any = True,
    evidence: Evidence = "optional",
    answers: Mapping[str, Any] | None = None,
    snapshot: Any = None,
    **fields: Any,
) -> Pack:
    """Return a sealed pack of the first attempt of a step, with defaults for all that is not said.

    `returns` is the type or JSON Schema of the output; `answers` are question id → value; `snapshot` is
    data that an attempt before checkpointed. `fields` are further fields of `Pack` (``goal=``, ``session_id=``,
    ``lease_seconds=`` …). Raises ContractError where something is not JSON.
    """
    given: Any = as_json({} if inputs is None else inputs, what="inputs")
    session_id = fields.pop("session_id", ids.session_id(f"{role}{given!r}"))
    known: dict[str, Any] = {
        "plan": "test@1",
        "stage": role,
        "role": role,
        "goal": f"the work of {role}",
        "constraints": [],
        "done_when": [],
        "tools": [one if isinstance(one, PackTool) else pack_tool(one) for one in tools],
        "returns": Returns(schema=schema_of(returns, what="returns"), evidence=evidence),
        "escalation": [],
        "risk": "normal",
        "lease_seconds": 60.0,
        "task_id": ids.task_id(session_id),
        "session_id": session_id,
        "inputs": given,
        "step": 1,
        "answers": [_answer(name, value) for name, value in (answers or {}).items()],
        "snapshot": None if snapshot is None else PackSnapshot(attempt=1, data=snapshot),
        "attempt": 1,
        "cause": "first",
    }
    return seal(Pack(**{**known, **fields}))[0]


def _answer(question: str, value: Any) -> PackAnswer:
    return PackAnswer(attempt=1, id=question, text=question, value=value, by="user:tester")


def _branch(given: BranchResult | Mapping[str, Any], place: int) -> BranchResult:
    if isinstance(given, BranchResult):
        return given
    output = as_json(given, what=f"branch {place}")
    return BranchResult(branch=str(place), place=place, outcome="done", output=output)


def _join(pack: Pack, branches: list[BranchResult]) -> PackJoin:
    reduces = pack.role.startswith(REDUCER)
    return PackJoin(
        join_id=ids.join_id(pack.session_id, pack.step),
        merge=f"{REDUCE}{pack.role.removeprefix(REDUCER)}" if reduces else pack.role,
        branches=len(branches),
        counted=len(branches),
        digest=digest_of(branches),
        outcomes=dict(Counter(one.outcome for one in branches)),
        how="enough",
    )


class _Fate:
    """The hooks of a run: ends the worker where the test says so."""

    def __init__(self, gateway: MemoryGateway, session_id: str, crash: tuple[HookPoint, int] | None) -> None:
        self._gateway = gateway
        self._session_id = session_id
        self._crash = crash
        self._passed = 0

    def __call__(self, point: HookPoint, _pack: Pack | None, /) -> None:
        if self._crash is None or point != self._crash[0]:
            return
        self._passed += 1
        if self._passed == self._crash[1]:
            self._gateway.lose(self._session_id)
            raise Crash(point)


def run_agent(  # noqa: PLR0913  (each says one thing about a test, and is named)
    agent: Agent | AnyReducer,
    pack: Pack | None = None,
    *,
    tools: Sequence[AnyTool] = (),
    answers: Mapping[str, Any] | None = None,
    people: Mapping[str, Decision | Sequence[Decision]] | None = None,
    branches: Iterable[BranchResult | Mapping[str, Any]] | None = None,
    crash: tuple[HookPoint, int] | None = None,
    rerun: bool = False,
    max_attempts: int = 3,
    options: Options | None = None,
) -> Outcome:
    """Run `agent` until its step is over or waits for what was not given; return what became of it.

    Without a `pack` it is one of the agent's role with nothing in it. `answers` are given to questions by their id. `people` decide about effects of a tool, by its name, in
    order. `crash` ends the worker when a hook point is passed for the n-th time (``("after_write", 2)``);
    what it left unfinished is settled and the step goes on, from the snapshot, or with `rerun` from the top.
    `branches` are those that are merged, each as it counts or just as the output of one that is done; a pack
    that says nothing of a join gets one by whose contract all of them count.

    Raises ContractError where the pack cannot be run with these tools.
    """
    runs = agent.agent if isinstance(agent, Reducer) else agent
    pack = make_pack(runs.role) if pack is None else pack
    merged = None if branches is None else [_branch(one, place) for place, one in enumerate(branches)]
    if merged is not None and pack.join is None:
        pack, _ = seal(replace(pack, join=_join(pack, merged)))
    gateway = MemoryGateway()
    session = gateway.submit(pack, max_attempts=max_attempts, rerun=rerun, branches=merged or ())
    decisions = {name: _listed(given) for name, given in (people or {}).items()}
    fate = _Fate(gateway, session.name, crash)
    with Runtime(gateway, agents=[runs], tools=tools, options=options or _QUICK, hooks=fate) as runtime:
        for _ in range(_ROUNDS):
            with contextlib.suppress(Crash):
                runtime.drain(pack.role)
            if session.status == "queued" and not session.handed_back:
                continue
            if not _decide(gateway, session, answers or {}, decisions):
                break
    if session.status == "queued":
        raise ContractError("pack", session.handed_back)
    return _outcome(session)


_QUICK = Options(
    linger_seconds=0, poll_seconds=0.05, cancel_grace_seconds=1, verify_seconds=5, patience_seconds=5
)


def _listed(given: Decision | Sequence[Decision]) -> list[Decision]:
    return list(given) if isinstance(given, Sequence) else [given]


def _decide(
    gateway: MemoryGateway,
    session: Session,
    answers: Mapping[str, Any],
    decisions: dict[str, list[Decision]],
) -> bool:
    """Let people do what the test gave them to do; return whether the step goes on."""
    given = [(one.id, answers[one.id]) for one in session.questions if one.id in answers]
    for question, value in given:
        gateway.answer(session.name, question, value)
    decided = [
        _decide_effect(gateway, session, effect, decisions.get(effect.tool, []))
        for effect in session.with_status("proposed", "unknown")
    ]
    return bool(given) or any(decided)


def _decide_effect(
    gateway: MemoryGateway, session: Session, effect: Effect, decisions: list[Decision]
) -> bool:
    about_proposal = bool(decisions) and isinstance(decisions[0], Approve | Edit | Deny)
    if not decisions or about_proposal != (effect.status == "proposed"):
        return False
    match decisions.pop(0):
        case Approve():
            gateway.approve(session.name, effect.effect_id)
        case Edit(args=args):
            gateway.approve(session.name, effect.effect_id, edited=args)
        case Deny(why=why):
            gateway.deny(session.name, effect.effect_id, why)
        case Happened(result=result):
            gateway.say(session.name, effect.effect_id, done=True, result=result)
        case NeverHappened():
            gateway.say(session.name, effect.effect_id, done=False)
    return True


def _outcome(session: Session) -> Outcome:
    return Outcome(
        status=session.status,
        result=session.given,
        effects=list(session.ledger.values()),
        writes=list(session.writes),
        reads=[one for one in session.notes if not one.denied],
        denied=[one for one in session.notes if one.denied],
        checkpoints=list(session.checkpoints),
        causes=list(session.causes),
        problems=list(session.feedback),
        ticket=next(iter(session.open_tickets()), None),
        session=session,
    )
