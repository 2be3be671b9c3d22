"""State and plan → the pack, the same bytes each time (DESIGN §5, §7).

A pack carries only what its attempt needs (rule 4): never the log, never another session. What makes
it too large is left out oldest first, and counted (rule 12).
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from msgspec import UNSET
from msgspec.structs import replace

from passdown.broker.core.given import Given, as_object, grant_of, permit_of
from passdown.broker.core.parts import Effect, Read
from passdown.broker.core.state import State
from passdown.contracts.codec import PACK_BUDGET, encode
from passdown.contracts.pack import (
    Cause,
    Feedback,
    Pack,
    PackAnswer,
    PackEffect,
    PackJoin,
    PackRead,
    PackSnapshot,
    PackTool,
    seal,
)
from passdown.contracts.plans import Grant, Stage
from passdown.contracts.tools import ToolSpec, narrow

_PLACEHOLDER = re.compile(r"\{inputs\.([A-Za-z0-9_.-]+)\}")

Part = Literal["reads", "effects", "feedback", "answers"]
_LEFT_OUT_FIRST: tuple[Part, ...] = ("reads", "effects", "feedback", "answers")


@dataclass(frozen=True, slots=True)
class Granted:
    """The tools that an attempt may call: pinned and registered and granted now (DESIGN §7)."""

    tools: dict[str, tuple[Grant, str, ToolSpec]]
    missing: list[str]
    changes: list[str]
    #: What a person may permit once, by name: tools that are not granted, or within narrower limits.
    permits: dict[str, tuple[Grant, str, ToolSpec]] = field(
        default_factory=dict[str, tuple[Grant, str, ToolSpec]]
    )

    def digests(self) -> dict[str, str]:
        """Return the digests of all tools that the attempt may ask for, by name."""
        return {name: entry[1] for name, entry in (self.permits | self.tools).items()}


def granted(given: Given, stage_name: str) -> Granted:
    """Return what the stage grants now; ``missing`` are tools that were never registered."""
    stage = given.stage(stage_name)
    found = Granted({}, [], [])
    for pinned in stage.tools:
        grant, changed = grant_now(given, stage_name, pinned)
        found.changes.extend(changed)
        if grant is None:
            continue
        registered = given.registered.get(grant.tool)
        if registered is None:
            found.missing.append(grant.tool)
        elif in_scope(given, stage_name, registered[1]):
            found.tools[grant.tool] = (grant, *registered)
        else:
            scope = registered[1].scope
            found.changes.append(f"the tool {grant.tool} has the scope {scope!r}, which is not granted here")
    _permitted(given, stage_name, found)
    return found


def _permitted(given: Given, stage_name: str, found: Granted) -> None:
    """Add the writes that a person may permit; what is not registered is left out, and so is a reading tool."""
    for permit in given.stage(stage_name).permits:
        registered = given.registered.get(permit.tool)
        grant = permit_now(given, stage_name, permit.tool)
        if registered is None or grant is None:
            continue
        if registered[1].effect and in_scope(given, stage_name, registered[1]):
            found.permits[permit.tool] = (grant, *registered)


def permit_now(given: Given, stage_name: str, tool: str) -> Grant | None:
    """Return what a person may permit of a tool by the pinned plan, as far as the newest one still lets them."""
    pinned = permit_of(given.stage(stage_name), tool)
    if pinned is None or given.newest is None:
        return pinned
    stage = given.newest.stages.get(stage_name)
    newest = permit_of(stage, tool) if stage else None
    return None if newest is None else _within_both(pinned, newest)


def grant_now(given: Given, stage_name: str, pinned: Grant) -> tuple[Grant | None, list[str]]:
    """Return a grant of the pinned plan as far as the newest one still gives it, and what differs in words.

    The newest plan may withdraw a tool, narrow its parameters further, or ask for an approval; it gives
    no more than the pinned one.
    """
    if given.newest is None:
        return pinned, []
    stage = given.newest.stages.get(stage_name)
    newest = grant_of(stage, pinned.tool) if stage else None
    if newest is None:
        return None, [f"the tool {pinned.tool} is no longer granted"]
    if newest == pinned:
        return pinned, []
    changes: list[str] = []
    grant = _within_both(pinned, newest)
    if grant.params != pinned.params:
        changes.append(f"the parameters of {pinned.tool} are narrowed further")
    if grant.approve != pinned.approve:
        changes.append(f"the tool {pinned.tool} needs an approval of {grant.approve}")
    if grant.approvals != pinned.approvals:
        changes.append(f"the tool {pinned.tool} needs {grant.approvals} approvals")
    return grant, changes


def _within_both(pinned: Grant, newest: Grant) -> Grant:
    """Return the stricter of two grants in each respect; whom the newest asks is asked."""
    params = dict(pinned.params)
    for name, schema in newest.params.items():
        if name not in params:
            params[name] = schema
        elif params[name] != schema:
            params[name] = {"allOf": [params[name], schema]}
    return Grant(
        tool=pinned.tool,
        approve=newest.approve or pinned.approve,
        approval_seconds=min(pinned.approval_seconds, newest.approval_seconds),
        approvals=max(pinned.approvals, newest.approvals),
        params=params,
    )


def in_scope(given: Given, stage_name: str, spec: ToolSpec) -> bool:
    """Whether a tool's scope is granted; a stage that names no scopes grants those of its tools."""
    newest = given.newest.stages.get(stage_name) if given.newest else None
    return all(
        stage is None or stage.scopes is None or not spec.scope or spec.scope in stage.scopes
        for stage in (given.stage(stage_name), newest)
    )


def to_verify(given: Given, state: State) -> Granted:
    """Return the tools that a settle attempt asks: granted or not, for they only say what happened already."""
    found = Granted({}, [], [])
    for effect in state.unknown():
        registered = given.registered.get(effect.tool)
        if registered is not None:
            found.tools[effect.tool] = (Grant(tool=effect.tool), *registered)
    return found


def build(state: State, given: Given, cause: Cause, at: int, tools: Granted) -> tuple[Pack, bytes] | None:
    """Return the sealed pack of the next attempt and its bytes; None where it cannot be made small enough."""
    pack = _whole(state, given, cause, at, tools)
    sealed, raw = seal(pack)
    for part in _LEFT_OUT_FIRST:
        over = len(raw) - PACK_BUDGET
        if over <= 0:
            break
        pack = _thin(pack, part, over)
        sealed, raw = seal(pack)
    return (sealed, raw) if len(raw) <= PACK_BUDGET else None


def _whole(state: State, given: Given, cause: Cause, at: int, tools: Granted) -> Pack:
    stage = given.stage(state.stage)
    constraints, added = _constraints(stage, given, state.stage)
    return Pack(
        plan=str(state.plan),
        stage=state.stage,
        role=stage.fan_out.merge_role() if stage.fan_out else stage.role,
        goal=fill(stage.goal, state.data),
        constraints=constraints,
        done_when=stage.done_when,
        tools=_pack_tools(tools),
        returns=stage.returns,
        escalation=stage.escalation,
        risk=stage.risk,
        lease_seconds=stage.lease_seconds,
        time_limit_seconds=UNSET if stage.time_limit_seconds is None else stage.time_limit_seconds,
        changes=[*tools.changes, *added],
        task_id=state.task_id,
        session_id=state.session_id,
        parent=state.parent,
        resources=state.resources,
        inputs=state.data,
        join=_pack_join(state, stage),
        step=state.step,
        effects=[_pack_effect(effect) for effect in state.effects if _concerns(effect, state.step)],
        left_out=state.left_out,
        attempt=state.attempt + 1,
        cause=cause,
        deadline=state.deadline,
        trace=state.trace,
        **_local(state, stage, cause, at),
    )


def _pack_join(state: State, stage: Stage) -> PackJoin | None:
    join, contract = state.joining, stage.fan_out
    if join is None or contract is None:
        return None
    return PackJoin(
        join_id=join.join_id,
        merge=contract.merge,
        branches=join.branches,
        counted=join.counted,
        digest=join.digest,
        outcomes=join.outcomes,
        how=join.how,
        why=join.why,
        branch=join.branch,
        vote_on=contract.vote_on,
    )


def _local(state: State, stage: Stage, cause: Cause, at: int) -> dict[str, Any]:
    """Return what this step has gathered so far, for the agent; in a settle attempt none runs."""
    if cause == "settle":
        return {}
    kept = None if starts_from_top(stage, cause) else state.snapshot
    return {
        "reads": [_pack_read(read, at) for read in state.reads],
        "answers": [
            PackAnswer(attempt=one.attempt, id=one.id, text=one.text, value=one.value, by=one.by)
            for one in state.questions
            if one.answered
        ],
        "feedback": [Feedback(attempt=one.attempt, kind=one.kind, text=one.text) for one in state.feedback],
        "snapshot": kept and PackSnapshot(attempt=kept.attempt, data=kept.data, counters=kept.counters),
    }


def _concerns(effect: Effect, step: int) -> bool:
    """Whether an effect is told: what happened, and of this step also what is open or was decided otherwise."""
    if effect.step != step:
        return effect.status == "done"
    return effect.status != "proposed" or effect.approval is not None


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


def _pack_tools(tools: Granted) -> list[PackTool]:
    """Return the tools of a pack; one that is granted and may be permitted beyond that says both."""
    found = [_pack_tool(*entry, tools.permits.get(name)) for name, entry in tools.tools.items()]
    only = [entry for name, entry in tools.permits.items() if name not in tools.tools]
    return [*found, *(_pack_tool(*entry) for entry in only)]


def _pack_tool(
    grant: Grant, tool_digest: str, spec: ToolSpec, permit: tuple[Grant, str, ToolSpec] | None = None
) -> PackTool:
    return PackTool(
        name=spec.name,
        description=spec.description,
        params=narrow(spec.params, grant.params),
        effect=spec.effect,
        scope=spec.scope,
        identity=spec.identity,
        fresh_for_seconds=spec.fresh_for_seconds,
        needs_approval=grant.approve is not None,
        permit=narrow(spec.params, permit[0].params) if permit else None,
        digest=tool_digest,
    )


def _pack_effect(effect: Effect) -> PackEffect:
    args = effect.args if effect.edited is None else effect.edited
    return PackEffect(
        effect_id=effect.effect_id,
        step=effect.step,
        tool=effect.tool,
        status=effect.status,
        args=args,
        result=effect.result,
        error=effect.error,
        omitted=args is None or effect.result_out,
    )


def _pack_read(read: Read, now: int) -> PackRead:
    fresh = read.kept and (read.fresh_for_ms is None or now - read.at <= read.fresh_for_ms)
    return PackRead(
        tool=read.tool,
        args=read.args,
        result=read.result if fresh else None,
        age_seconds=(now - read.at) / 1000,
        read_again=not fresh,
    )


def _thin(pack: Pack, part: Part, over: int) -> Pack:
    """Leave out the oldest entries of one part until the pack is smaller by `over` bytes.

    What the attempt is about stays: unknown effects, and the answers to the newest questions.
    """
    entries: list[Any] = list(getattr(pack, part))
    newest = max((one.attempt for one in pack.answers), default=0)
    kept: list[Any] = []
    for entry in entries:
        stays = (part == "effects" and entry.status == "unknown") or (
            part == "answers" and entry.attempt == newest
        )
        if over <= 0 or stays:
            kept.append(entry)
        else:
            over -= len(encode(entry)) + 1
    left_out = pack.left_out + len(entries) - len(kept)
    return replace(pack, left_out=left_out, **{part: kept})
