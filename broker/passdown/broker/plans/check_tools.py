"""What is wrong with a plan against the specifications of its tools (DESIGN §6, §7)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from passdown.broker.plans.at import At
from passdown.broker.plans.faults import Fault, closest, one_line, serious, show, warning
from passdown.broker.plans.schema_check import schema_faults
from passdown.broker.plans.schema_look import field_of, kinds_of, property_names, property_of, required_names
from passdown.contracts.plans import Grant, Plan, Stage
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec

Rule = Callable[[At, int, Grant, ToolSpec], Iterator[Fault]]


def check_tools(plan: Plan, specs: Mapping[str, ToolSpec]) -> list[Fault]:
    """Return the faults and warnings of what the stages of `plan` grant, by the registered `specs` (name → spec).

    A tool that is not registered is a warning: its stage waits for it. `plan` itself is sound (`check_plan`).
    """
    found: list[Fault] = []
    for name, stage in plan.stages.items():
        at = At(plan, name, stage)
        for n, grant in enumerate(stage.tools):
            spec = specs.get(grant.tool)
            if spec is None:
                mend = f"register it, or else: {closest(grant.tool, specs)}"
                found.append(warning(at.place("tools", n), f"{show(grant.tool)} is not registered yet", mend))
            else:
                found += [fault for rule in _RULES for fault in rule(at, n, grant, spec)]
        found += _idle_scopes(at, specs)
    return found


def _risk(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if at.stage.risk == "high" and spec.effect and grant.approve is None and not at.stage.waived.strip():
        yield Fault(
            at.place("tools", n),
            f"{show(grant.tool)} has effects outside, the risk is high, and nobody approves",
            'name a queue as `approve`, or say why not: waived = "reason"',
        )


def _pushed(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if at.stage.delivery == "push" and spec.effect:
        yield Fault(
            at.place("tools", n),
            f"{show(grant.tool)} has effects outside, and the packs of this stage are pushed; a gateway for such"
            " workers, through which each effect would be recorded, does not exist yet",
            'leave it to a stage with delivery = "pull"',
        )


def _approval(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if grant.approve is not None and not spec.effect:
        yield Fault(
            at.place("tools", n, "approve"),
            f"{show(grant.tool)} only reads, and reading calls are never put to a person",
            "leave it out, or register the tool with effect=True",
        )


def _verify(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if spec.effect and not spec.verifies and _retries(at.stage):
        by_person = "" if at.stage.fan_out is not None else 'recovery = "human" or '
        yield Fault(
            at.place("tools", n),
            f"{show(grant.tool)} has effects outside and no verify, and the stage tries again by itself",
            f"give the tool a verify, or the stage {by_person}max_attempts = 1",
        )


def _retries(stage: Stage) -> bool:
    return stage.max_attempts > 1 and stage.recovery != "human"


def _scope(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if at.stage.scopes is not None and spec.scope and spec.scope not in at.stage.scopes:
        yield Fault(
            at.place("tools", n),
            f"{show(grant.tool)} has the scope {show(spec.scope)}, which `scopes` leaves out",
            f"add {show(spec.scope)} to `scopes`",
        )


def _params(at: At, n: int, grant: Grant, spec: ToolSpec) -> Iterator[Fault]:
    if not grant.params:
        return
    if serious(schema_faults("", spec.params)):
        yield warning(
            at.place("tools", n), f"the parameters of {show(grant.tool)} are registered with a broken schema"
        )
        return
    known = property_names(spec.params)
    for name, narrowed in grant.params.items():
        where = at.place("tools", n, "params", name)
        if known is not None and name not in known:
            yield Fault(where, f"{show(grant.tool)} has no parameter {show(name)}", closest(name, known))
        elif (why := _nothing_fits(spec, name, narrowed)) is not None:
            yield Fault(
                where, f"no value fits this and what {show(grant.tool)} asks for: {why}", "narrow it less"
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
    granted = [specs.get(grant.tool) for grant in at.stage.tools]
    if None in granted:
        return
    used = {spec.scope for spec in granted if spec is not None}
    for n, scope in enumerate(at.stage.scopes or []):
        if scope not in used:
            yield warning(
                at.place("scopes", n),
                f"no tool of the stage has the scope {show(scope)}",
                closest(scope, used),
            )


_RULES: tuple[Rule, ...] = (_risk, _pushed, _approval, _verify, _scope, _params)
