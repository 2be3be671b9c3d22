"""What is wrong with a plan against the specifications of its tools (DESIGN §6, §7)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

from passdown.broker.plans.at import At
from passdown.broker.plans.faults import Fault, closest, one_line, serious, show, warning
from passdown.broker.plans.schema_check import schema_faults
from passdown.broker.plans.schema_look import field_of, kinds_of, property_names, property_of, required_names
from passdown.contracts.plans import Plan, Stage
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec


class Call(NamedTuple):
    """What a stage may call, granted or permitted by people: where that stands, the limits, and whom it is put to."""

    at: At
    part: Literal["tools", "permits"]
    n: int
    tool: str
    params: Mapping[str, Any]
    queue: str | None

    def place(self, *parts: str | int) -> str:
        """Return the place of a part of it."""
        return self.at.place(self.part, self.n, *parts)


Rule = Callable[[Call, ToolSpec], Iterator[Fault]]


def check_tools(plan: Plan, specs: Mapping[str, ToolSpec]) -> list[Fault]:
    """Return the faults and warnings of what the stages of `plan` grant or let people permit, by the registered `specs` (name → spec).

    A tool that is not registered is a warning: its stage waits for it. `plan` itself is sound (`check_plan`).
    """
    found: list[Fault] = []
    for name, stage in plan.stages.items():
        at = At(plan, name, stage)
        for call in _calls(at):
            spec = specs.get(call.tool)
            if spec is None:
                mend = f"register it, or else: {closest(call.tool, specs)}"
                found.append(warning(call.place(), f"{show(call.tool)} is not registered yet", mend))
            else:
                found += [fault for rule in _RULES for fault in rule(call, spec)]
        found += _idle_scopes(at, specs)
        found += _silent(at, specs)
    return found


def _calls(at: At) -> list[Call]:
    grants = [Call(at, "tools", n, one.tool, one.params, one.approve) for n, one in enumerate(at.stage.tools)]
    return grants + [
        Call(at, "permits", n, one.tool, one.params, one.queue) for n, one in enumerate(at.stage.permits)
    ]


def _risk(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    stage = call.at.stage
    if stage.risk == "high" and spec.effect and call.queue is None and not stage.waived.strip():
        yield Fault(
            call.place(),
            f"{show(call.tool)} has effects outside, the risk is high, and nobody approves",
            'name a queue as `approve`, or say why not: waived = "reason"',
        )


def _pushed(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    if call.at.stage.delivery == "push" and spec.effect:
        yield Fault(
            call.place(),
            f"{show(call.tool)} has effects outside, and the packs of this stage are pushed; a gateway for such"
            " workers, through which each effect would be recorded, does not exist yet",
            'leave it to a stage with delivery = "pull"',
        )


def _approval(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    if call.queue is not None and not spec.effect:
        yield Fault(
            call.place("approve" if call.part == "tools" else "queue"),
            f"{show(call.tool)} only reads, and reading calls are never put to a person",
            "leave it out, or register the tool with effect=True",
        )


def _verify(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    if spec.effect and not spec.verifies and _retries(call.at.stage):
        by_person = "" if call.at.stage.fan_out is not None else 'recovery = "human" or '
        yield Fault(
            call.place(),
            f"{show(call.tool)} has effects outside and no verify, and the stage tries again by itself",
            f"give the tool a verify, or the stage {by_person}max_attempts = 1",
        )


def _retries(stage: Stage) -> bool:
    return stage.max_attempts > 1 and stage.recovery != "human"


def _scope(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    scopes = call.at.stage.scopes
    if scopes is not None and spec.scope and spec.scope not in scopes:
        yield Fault(
            call.place(),
            f"{show(call.tool)} has the scope {show(spec.scope)}, which `scopes` leaves out",
            f"add {show(spec.scope)} to `scopes`",
        )


def _params(call: Call, spec: ToolSpec) -> Iterator[Fault]:
    if not call.params:
        return
    if serious(schema_faults("", spec.params)):
        yield warning(
            call.place(), f"the parameters of {show(call.tool)} are registered with a broken schema"
        )
        return
    known = property_names(spec.params)
    for name, narrowed in call.params.items():
        where = call.place("params", name)
        if known is not None and name not in known:
            yield Fault(where, f"{show(call.tool)} has no parameter {show(name)}", closest(name, known))
        elif (why := _nothing_fits(spec, name, narrowed)) is not None:
            yield Fault(
                where, f"no value fits this and what {show(call.tool)} asks for: {why}", "narrow it less"
            )


def _nothing_fits(spec: ToolSpec, name: str, narrowed: Any) -> str | None:
    """Return why no value of a parameter is left once it is narrowed; None where one may be."""
    if narrowed is False:
        return "it must be there" if name in required_names(spec.params) else None
    own = property_of(spec.params, name)
    before, after = kinds_of(own), kinds_of(narrowed)
    if before is not None and after is not None and not before & after:
        return f"it is {_or(before)}, not {_or(after)}"
    look = field_of(spec.params, name)
    if (
        look is not None
        and look.values is not None
        and all(problems(narrowed, value) for value in look.values)
    ):
        return one_line(f"it is one of {', '.join(show(value) for value in look.values)}")
    return None


def _or(kinds: set[str]) -> str:
    return " or ".join(sorted(kinds))


def _idle_scopes(at: At, specs: Mapping[str, ToolSpec]) -> Iterator[Fault]:
    called = [specs.get(call.tool) for call in _calls(at)]
    if None in called:
        return
    used = {spec.scope for spec in called if spec is not None}
    for n, scope in enumerate(at.stage.scopes or []):
        if scope not in used:
            yield warning(
                at.place("scopes", n),
                f"no tool of the stage has the scope {show(scope)}",
                closest(scope, used),
            )


def _silent(at: At, specs: Mapping[str, ToolSpec]) -> Iterator[Fault]:
    """Nobody's answer is no approval: it leads to no call that somebody has to stand for."""
    overdue = at.stage.overdue
    following = None if overdue is None else at.plan.stages.get(overdue.to)
    if overdue is None or following is None or following.risk != "high":
        return
    for grant in following.tools:
        spec = specs.get(grant.tool)
        if spec is not None and spec.effect and grant.approve is None:
            yield Fault(
                at.place("overdue", "to"),
                f"where nobody answers it leads to {show(overdue.to)}, which calls {show(grant.tool)} at high risk"
                " and asks nobody",
                "lead to another stage or to 'fail', or name a queue as `approve` there",
            )
            return


_RULES: tuple[Rule, ...] = (_risk, _pushed, _approval, _verify, _scope, _params)
