"""An agent that plays a script: for tests, demos and evaluations, where a model would only be noise.

A script is a list of steps, played from where its last checkpoint left it::

    ScriptedAgent(
        "cashier",
        [
            Call("orders.read", {"order_id": Input("orderId")}, save="order"),
            Ask(Question("amount", "How much, in cents?", schema={"type": "integer"})),
            Call("refunds.create", {"order_id": Input("orderId"), "cents": Answer("amount")}, save="refund"),
            Checkpoint(),
            Finish(Done({"refundId": Saved("refund", "id")})),
        ],
    )

Values may stand as `Input`, `Answer`, `Saved`, anywhere inside dicts, lists and results; they are looked
up when their step is played. A step may also be a function of the `Scene`, called for what it does.
"""

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from passdown.agents.agent import Agent
from passdown.agents.context import Context, SyncContext
from passdown.agents.results import AgentResult, Done, Escalate, NeedsInput, Question, Refused
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import Pack


@dataclass(frozen=True, slots=True)
class Input:
    """A value of ``pack.inputs``, by its path of names."""

    path: tuple[str, ...]

    def __init__(self, *path: str) -> None:
        object.__setattr__(self, "path", path)


@dataclass(frozen=True, slots=True)
class Answer:
    """The latest answer to a question."""

    question: str


@dataclass(frozen=True, slots=True)
class Saved:
    """What an earlier call saved, and a path of names into it."""

    name: str
    path: tuple[str, ...]

    def __init__(self, name: str, *path: str) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "path", path)


@dataclass(frozen=True, slots=True)
class Scene:
    """What a script knows while it plays: the pack, the answers, and what its calls saved."""

    pack: Pack
    answers: Mapping[str, Any]
    saved: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool; ``save`` keeps its result under a name, ``after`` is an effectId."""

    tool: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    save: str = ""
    after: Any = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Record how far the script is, and what was saved."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask, unless it is answered already. The attempt with the answer goes on behind this step."""

    question: Question


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait this many seconds, as a model would."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Fail:
    """Raise this error."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class Finish:
    """Return this result (anything else breaks the contract, which may be what is tested)."""

    result: AgentResult | Any


Step = Call | Checkpoint | Ask | Pause | Fail | Finish | Callable[[Scene], object]


class ScriptedAgent(Agent):
    """Plays `steps` for `role`; as a plain agent where `plain` is true, else as an async one.

    Raises ContractError where no step can end the script.
    """

    def __init__(
        self,
        role: str,
        steps: Sequence[Step],
        *,
        plain: bool = False,
        version: str = "",
        model: str = "",
        time_limit_seconds: float | None = None,
    ) -> None:
        if not any(isinstance(step, Finish | Fail) for step in steps):
            raise ContractError(f"script of {role!r}", "no step ends it; add Finish(…)")
        script = list(steps)

        async def play_async(pack: Pack, ctx: Context) -> AgentResult:
            return await _play(script, _AsyncVerbs(ctx), _Played.of(pack, ctx))

        def play_plain(pack: Pack, ctx: SyncContext) -> AgentResult:
            playing = _play(script, _PlainVerbs(ctx), _Played.of(pack, ctx))
            try:
                playing.send(None)
            except StopIteration as end:
                return end.value
            raise AssertionError("unreachable: plain verbs never wait")

        play = play_plain if plain else play_async
        play.__name__ = f"script-of-{role}"
        super().__init__(play, role, version=version, model=model, time_limit_seconds=time_limit_seconds)


@dataclass(slots=True)
class _Played:
    """How far a run is: the index of the next step, and what the script knows."""

    next: int
    scene: Scene

    @classmethod
    def of(cls, pack: Pack, ctx: Context | SyncContext) -> "_Played":
        snapshot: object = ctx.snapshot
        held = cast(dict[str, Any], snapshot) if isinstance(snapshot, dict) else {}
        return cls(int(held.get("next", 0)), Scene(pack, ctx.answers, dict(held.get("saved", {}))))


class _AsyncVerbs:
    def __init__(self, ctx: Context) -> None:
        self.call = ctx.call
        self.checkpoint = ctx.checkpoint
        self.pause = asyncio.sleep


class _PlainVerbs:
    """The verbs of a plain context in the form of awaitables that never wait."""

    def __init__(self, ctx: SyncContext) -> None:
        self._ctx = ctx

    async def call(self, name: str, /, after: str | None = None, **args: Any) -> Any:
        return self._ctx.call(name, after=after, **args)

    async def checkpoint(self, data: object) -> None:
        self._ctx.checkpoint(data)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251  (there is no loop here)


async def _play(script: list[Step], verbs: _AsyncVerbs | _PlainVerbs, played: _Played) -> Any:
    scene = played.scene
    for number in range(played.next, len(script)):
        step = script[number]
        match step:
            case Call():
                result = await verbs.call(
                    step.tool, after=_look_up(step.after, scene), **_look_up(dict(step.args), scene)
                )
                if step.save:
                    scene.saved[step.save] = result
            case Checkpoint():
                await verbs.checkpoint({"next": number + 1, "saved": scene.saved})
            case Ask():
                if step.question.id not in scene.answers:
                    return NeedsInput([step.question])
            case Pause():
                await verbs.pause(step.seconds)
            case Fail():
                raise step.error
            case Finish():
                return _look_up(step.result, scene)
            case _:
                step(scene)
    raise ContractError("script", "it came to its end without a result")


def _look_up(value: Any, scene: Scene) -> Any:
    """Return `value` with what stands for something else replaced by it."""
    match value:
        case Input():
            return _follow(scene.pack.inputs, value.path)
        case Answer():
            return scene.answers[value.question]
        case Saved():
            return _follow(scene.saved[value.name], value.path)
        case dict():
            return {name: _look_up(one, scene) for name, one in cast(dict[str, Any], value).items()}
        case list():
            return [_look_up(one, scene) for one in cast(list[Any], value)]
        case Done() | NeedsInput() | Refused() | Escalate():
            found = {one.name: _look_up(getattr(value, one.name), scene) for one in dataclasses.fields(value)}
            return type(value)(**found)
        case _:
            return value


def _follow(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value[name]
    return value
