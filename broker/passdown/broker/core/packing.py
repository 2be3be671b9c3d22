"""State and plan → the pack, the same bytes each time (DESIGN §5, §7).

A pack carries only what its attempt needs (rule 4): never the log, never another session. What makes
it too large is left out oldest first, and counted (rule 12).
"""

import re
from dataclasses import dataclass
from typing import Any, Literal

from msgspec.structs import replace

from passdown.broker.core.given import Given, as_object, grant_of
from passdown.broker.core.state import Effect, State
from passdown.contracts.codec import PACK_BUDGET, encode
from passdown.contracts.pack import (
    Cause,
    Feedback,
    Pack,
    PackAnswer,
    PackEffect,
    PackRead,
    PackSnapshot,
    PackTool,
    seal,
)
from passdown.contracts.plans import Grant, Stage
from passdown.contracts.tools import ToolSpec, narrow

_PLACEHOLDER = re.compile(r"\{inputs\.([A-Za-z0-9_.-]+)\}")


@dataclass(frozen=True, slots=True)
class Granted:
    """The tools that a stage may call now: pinned and registered and granted (DESIGN §7)."""

    tools: dict[str, tuple[Grant, str, ToolSpec]]
    missing: list[str]
    changes: list[str]


def granted(given: Given, stage_name: str) -> Granted:
    """Return what the stage grants now; ``missing`` are tools that were never registered."""
    stage = given.stage(stage_name)
    newest = given.newest.stages.get(stage_name) if given.newest else None
    found: dict[str, tuple[Grant, str, ToolSpec]] = {}
    missing: list[str] = []
    changes: list[str] = []
    for grant in stage.tools:
        if newest is not None and grant_of(newest, grant.tool) is None:
            changes.append(f"the tool {grant.tool} is no longer granted")
            continue
        registered = given.registered.get(grant.tool)
        if registered is None:
            missing.append(grant.tool)
            continue
        tool_digest, spec = registered
        if not in_scope(stage, spec):
            changes.append(
                f"the tool {grant.tool} has the scope {spec.scope!r}, which this stage does not grant"
            )
            continue
        found[grant.tool] = (grant, tool_digest, spec)
    return Granted(found, missing, changes)


def in_scope(stage: Stage, spec: ToolSpec) -> bool:
    """Whether the stage grants the tool's scope; a stage that names no scopes grants those of its tools."""
    return stage.scopes is None or not spec.scope or spec.scope in stage.scopes


def build(state: State, given: Given, cause: Cause, at: int, tools: Granted) -> tuple[Pack, bytes] | None:
    """Return the sealed pack of the next attempt and its bytes; None where it cannot be made small enough."""
    pack = _whole(state, given, cause, at, tools)
    for part in ("reads", "effects", "feedback", "answers"):
        if len(encode(pack)) + _DIGEST_BYTES <= PACK_BUDGET:
            break
        pack = _thin(pack, part)
    sealed, raw = seal(pack)
    return (sealed, raw) if len(raw) <= PACK_BUDGET else None


_DIGEST_BYTES = 64


def _whole(state: State, given: Given, cause: Cause, at: int, tools: Granted) -> Pack:
    stage = given.stage(state.stage)
    constraints, added = _constraints(stage, given, state.stage)
    snapshot = None if starts_from_top(stage, cause) else state.snapshot
    return Pack(
        plan=str(state.plan),
        stage=state.stage,
        role=stage.role,
        goal=fill(stage.goal, state.data),
        constraints=constraints,
        done_when=stage.done_when,
        tools=[_pack_tool(*entry) for entry in tools.tools.values()],
        returns=stage.returns,
        escalation=stage.escalation,
        risk=stage.risk,
        lease_seconds=stage.lease_seconds,
        changes=[*tools.changes, *added],
        task_id=state.task_id,
        session_id=state.session_id,
        parent=state.parent,
        resources=state.resources,
        inputs=state.data,
        step=state.step,
        effects=[
            _pack_effect(effect) for effect in state.effects if effect.status != "proposed" or effect.approval
        ],
        reads=[
            PackRead(
                tool=read.tool,
                args=read.args,
                result=read.result if _fresh(read.at, read.fresh_for_ms, at) and read.kept else None,
                age_seconds=(at - read.at) / 1000,
                read_again=not (read.kept and _fresh(read.at, read.fresh_for_ms, at)),
            )
            for read in state.reads
        ],
        answers=[
            PackAnswer(attempt=one.attempt, id=one.id, text=one.text, value=one.value, by=one.by)
            for one in state.questions
            if one.answered
        ],
        feedback=[Feedback(attempt=one.attempt, kind=one.kind, text=one.text) for one in state.feedback],
        left_out=state.reads_left_out,
        snapshot=snapshot
        and PackSnapshot(attempt=snapshot.attempt, data=snapshot.data, counters=snapshot.counters),
        attempt=state.attempt + 1,
        cause=cause,
        deadline=state.deadline,
        trace=state.trace,
    )


def starts_from_top(stage: Stage, cause: Cause) -> bool:
    """Whether an attempt ignores what was checkpointed: after a failure, where the stage's recovery is `rerun`."""
    return stage.recovery == "rerun" and cause in ("retry", "rework")


def fill(goal: str, data: dict[str, Any]) -> str:
    """Return a goal with ``{inputs.name}`` replaced; what is not there stays as it is written."""

    def value(match: re.Match[str]) -> str:
        found: Any = data
        for part in match[1].split("."):
            known = as_object(found)
            if part not in known:
                return match[0]
            found = known[part]
        return found if isinstance(found, str) else encode(found).decode()

    return _PLACEHOLDER.sub(value, goal)


def _constraints(stage: Stage, given: Given, name: str) -> tuple[list[str], list[str]]:
    newest = given.newest.stages.get(name) if given.newest else None
    added = [one for one in newest.constraints if one not in stage.constraints] if newest else []
    return [*stage.constraints, *added], [f"a constraint was added: {one}" for one in added]


def _pack_tool(grant: Grant, tool_digest: str, spec: ToolSpec) -> PackTool:
    return PackTool(
        name=spec.name,
        description=spec.description,
        params=narrow(spec.params, grant.params),
        effect=spec.effect,
        scope=spec.scope,
        identity=spec.identity,
        fresh_for_seconds=spec.fresh_for_seconds,
        needs_approval=grant.approve is not None,
        digest=tool_digest,
    )


def _pack_effect(effect: Effect) -> PackEffect:
    args = effect.edited or effect.args
    return PackEffect(
        effect_id=effect.effect_id,
        step=effect.step,
        tool=effect.tool,
        status=effect.status,
        args=args,
        result=effect.result,
        error=effect.error,
        omitted=args is None or (effect.result is None and effect.result_seq is not None),
    )


def _fresh(at: int, fresh_for_ms: int | None, now: int) -> bool:
    return fresh_for_ms is None or now - at <= fresh_for_ms


def _thin(pack: Pack, part: Literal["reads", "effects", "feedback", "answers"]) -> Pack:
    """Leave out the oldest entries of one part until the pack fits; unknown effects always stay."""
    over = len(encode(pack)) + _DIGEST_BYTES - PACK_BUDGET
    entries: list[Any] = list(getattr(pack, part))
    left_out = pack.left_out
    while entries and over > 0:
        index = next((n for n, one in enumerate(entries) if getattr(one, "status", "") != "unknown"), None)
        if index is None:
            break
        over -= len(encode(entries.pop(index))) + 1
        left_out += 1
    return replace(pack, left_out=left_out, **{part: entries})
