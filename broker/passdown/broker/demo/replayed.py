"""The recorded agent and its tools, for a worker: ``--module passdown.broker.demo.replayed``.

The agent plays its run from the last checkpoint on. The run comes by reference: the pack names a file
and its digest. Reading tools give what was recorded for the very call that is played; writing ones reach
the outside's journal first.
"""

import json
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from passdown.agents import (
    Absent,
    Agent,
    AgentResult,
    Context,
    ContractError,
    Done,
    Escalate,
    Found,
    NeedsInput,
    NotDone,
    Pack,
    PassdownError,
    Question,
    agent,
    tool,
)
from passdown.agents.tools import AnyTool
from passdown.broker.demo.journal import Journal
from passdown.broker.demo.place import Place, folder_of_worker
from passdown.broker.demo.record import Act, Asked, Called, Run, Said, read_run
from passdown.contracts.ids import session_of

ROLE = "recorded-agent"
TRAJECTORY = "trajectory"

#: Any arguments: what a recorded call had is what it gets.
_ANY: dict[str, Any] = {"type": "object"}
_RUNS_CACHED = 512
#: A summary of the conversation as the reason of an escalation; the whole stands in the record.
_REASON = 1000

_playing: ContextVar[Called] = ContextVar("playing")


class ToolError(PassdownError):
    """The recorded tool refused: its result begins with ``Error``."""

    code = "tool-error"


@lru_cache(maxsize=_RUNS_CACHED)
def _run(path: Path, digest: str) -> Run:
    return read_run(path, digest)


def run_of(pack: Pack) -> Run:
    """Return the run that a pack refers to; raises ContractError where it is not the one that is meant."""
    found = next((one for one in pack.resources if one.name == TRAJECTORY), None)
    if found is None:
        raise ContractError("pack", f"no resource {TRAJECTORY!r}", pointer="/resources")
    return _run(Path(unquote(urlsplit(found.uri).path)), found.digest)


@agent(ROLE, version="1", model="recorded")
async def replay(pack: Pack, ctx: Context) -> AgentResult:
    """Play the run from the last checkpoint to its next question or to its end."""
    run = run_of(pack)
    began: int = ctx.snapshot["position"] if ctx.snapshot else 0
    for position in range(began, len(run.acts)):
        asked = await _play(run.acts[position], position, ctx)
        if asked is not None:
            return asked
    if run.transfer is not None:
        return Escalate(run.transfer[:_REASON] or "transferred", recommended="talk to the customer")
    effects = run.effects()
    return Done({"acts": len(run.acts), "written": sum(not call.failed for call in effects.values())})


async def _play(act: Act, position: int, ctx: Context) -> NeedsInput | None:
    match act:
        case Said():
            ctx.log.info("said", action="said", message=act.message, by=act.by, text=act.text[:500])
        case Asked():
            if act.question not in ctx.answers:
                await _checkpoint(ctx, position)
                schema = {"type": ["string", "null"]}
                return NeedsInput([Question(act.question, act.text, schema=schema)])
        case Called():
            await _call(act, ctx)
            if act.writes:
                await _checkpoint(ctx, position + 1)
    return None


async def _checkpoint(ctx: Context, position: int) -> None:
    if ctx.snapshot != {"position": position}:
        await ctx.checkpoint({"position": position})


async def _call(call: Called, ctx: Context) -> None:
    token = _playing.set(call)
    try:
        await ctx.call(call.tool, **call.args)
    except (ToolError, NotDone) as error:
        # The recorded agent saw the error and went on; so does this one.
        ctx.log.info("tool error", action="tool-error", tool=call.tool, error=str(error)[:200])
    finally:
        _playing.reset(token)


class Backend:
    """What the recorded tools reach: the record for what they read, the outside's journal for what they write."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._journal = Journal(place.journal)

    def read(self, name: str, args: dict[str, Any]) -> str | None:
        """Return the recorded result of the call that is being played."""
        call = _playing.get(None)
        if call is None or (call.tool, call.args) != (name, args):
            raise ContractError(f"call of {name}", "it is not the recorded one that is being played")
        if call.failed:
            raise ToolError(call.result)
        return call.result

    def write(self, name: str, key: str) -> Any:
        """Write outside under `key`, which says which recorded call this is."""
        call = self._effects(session_of(key)).get(key)
        if call is None or call.tool != name:
            raise ContractError(f"call of {name}", f"no recorded write has the key {key}")
        if call.failed:
            self._journal.refuse(key, name)
            raise NotDone(call.result or "")
        return self._journal.apply(key, name, call.args, call.result)

    def find(self, key: str) -> Found | Absent:
        """Return whether the outside knows of a write under `key`."""
        written = self._journal.find(key)
        return Found(written.result) if written else Absent()

    @lru_cache(maxsize=_RUNS_CACHED)  # noqa: B019 - one backend lives as long as its process
    def _effects(self, session_id: str) -> dict[str, Called]:
        return read_run(self._place.runs / f"{session_id}.json").effects()


def reading_tool(name: str, backend: Backend) -> AnyTool:
    """Return the recorded tool of a name that only reads. Async, so that it runs where the agent does."""

    async def read(**args: Any) -> str | None:
        return backend.read(name, args)

    return tool(name, params=_ANY)(read)


def writing_tool(name: str, backend: Backend) -> AnyTool:
    """Return the recorded tool of a name that writes outside, which absorbs repeated keys."""

    def verify(*, key: str) -> Found | Absent:
        return backend.find(key)

    def write(*, key: str, **_: Any) -> Any:
        return backend.write(name, key)

    return tool(name, params=_ANY, effect=True, verify=verify, dedupes=True)(write)


def tools_of(place: Place, names: dict[str, bool]) -> list[AnyTool]:
    """Return the recorded tools: name → whether it writes."""
    backend = Backend(place)
    return [(writing_tool if writes else reading_tool)(name, backend) for name, writes in names.items()]


def items_of(place: Place) -> dict[str, Agent | AnyTool]:
    """Return what a worker in this place needs, under names for a module."""
    names: dict[str, bool] = json.loads(place.tools.read_bytes())
    return {f"tool_{n}": one for n, one in enumerate(tools_of(place, names))}


if _place := folder_of_worker():
    globals().update(items_of(_place))
