"""What is wrong with one stage of a plan: who it is for, what it may call, what it takes and gives back."""

import re
from collections.abc import Iterator, Sequence

from passdown.broker.plans.at import At
from passdown.broker.plans.authored import Join
from passdown.broker.plans.check_fan_out import fan_out_faults
from passdown.broker.plans.check_moves import move_faults
from passdown.broker.plans.check_numbers import number_faults
from passdown.broker.plans.check_people import people_faults
from passdown.broker.plans.faults import Fault, one_line, serious, show, warning, within
from passdown.broker.plans.names import PLACEHOLDER, name_faults
from passdown.broker.plans.schema_check import schema_faults
from passdown.broker.plans.schema_look import may_be_object, property_names
from passdown.contracts.codec import PACK_BUDGET, encode, plain
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import PRODUCER, Grant, Permit

#: The most that the fixed parts of a stage may take of each of its packs (bytes); the rest is for the work.
FIXED_BUDGET = PACK_BUDGET * 3 // 4

_OF_A_ROLE = ("tools", "scopes", "waived", "permits", "on_refused", "on_denied", "on_failed")


def stage_faults(at: At) -> list[Fault]:
    """Return the faults and warnings of one stage."""
    found = [
        *_who_faults(at),
        *_text_faults(at),
        *_delivery_faults(at),
        *_tool_faults(at),
        *_result_faults(at),
        *number_faults(at),
        *people_faults(at),
        *fan_out_faults(at),
    ]
    schemas = _schema_faults(at)
    found += schemas
    broken = {fault.place for fault in serious(schemas)}
    if at.place("returns", "schema") not in broken and at.is_sure("returns"):
        found += _returns_faults(at)
        found += move_faults(at, look=True)
    else:
        found += move_faults(at, look=False)
    if at.place("inputs") not in broken:
        found += _input_faults(at)
    found += _travel_faults(at, found)
    if not serious(found):
        found += _size_faults(at)
    return found


def _who_faults(at: At) -> Iterator[Fault]:
    stage = at.stage
    if stage.fan_out is not None:
        return  # `fan_out_faults` says what it may not be besides
    if stage.queue is None:
        if stage.role:
            yield from name_faults(at.place("role"), "role", stage.role)
        else:
            yield Fault(
                at.place(),
                "neither a role nor a queue is named, and no branches",
                "name the `role`, a person's `queue`, or a `fan_out`",
            )
        if stage.ask != PRODUCER:
            yield from name_faults(at.place("ask"), "queue", stage.ask)
        return
    yield from name_faults(at.place("queue"), "queue", stage.queue)
    if stage.role:
        yield Fault(at.place("role"), "a stage is a role's or a person's", "leave out `role` or `queue`")
    for field in _OF_A_ROLE:
        if getattr(stage, field) not in (None, [], ""):
            yield Fault(
                at.place(field), "a person's stage has none", "leave it out, or give the stage to a role"
            )
    if stage.ask != PRODUCER:
        yield Fault(at.place("ask"), "a person's stage asks nobody", "leave it out")
    if stage.delivery != "pull":
        yield Fault(at.place("delivery"), "a person's stage has none", "leave it out")


def _text_faults(at: At) -> Iterator[Fault]:
    for field in ("constraints", "done_when"):
        for n, text in enumerate(getattr(at.stage, field)):
            if not text.strip():
                yield Fault(at.place(field, n), "is blank", "say something, or leave it out")
    for path in PLACEHOLDER.findall(at.stage.goal):
        if not path.startswith("inputs."):
            yield warning(
                at.place("goal"), f"{{{path}}} stays as it is written", f"did you mean {{inputs.{path}}}?"
            )
    if at.stage.waived and at.stage.risk != "high":
        yield warning(at.place("waived"), "waives nothing, as the risk is not high", 'set risk = "high"')


def _delivery_faults(at: At) -> Iterator[Fault]:
    stage = at.stage
    if stage.gateway and stage.delivery == "pull":
        yield Fault(
            at.place("gateway"),
            "workers that take their packs always use the gateway",
            'leave it out, or set delivery = "push"',
        )
    for field in ("tools", "permits"):
        if getattr(stage, field) and stage.delivery == "push" and not stage.gateway:
            yield Fault(
                at.place(field),
                "packs of this stage are pushed, to workers that no tool call can be checked and recorded for",
                "leave the tools out; or say that these workers use the gateway, too: gateway = true",
            )


def _tool_faults(at: At) -> Iterator[Fault]:
    seen: dict[str, int] = {}
    for n, grant in enumerate(at.stage.tools):
        yield from name_faults(at.place("tools", n), "tool", grant.tool)
        first = seen.setdefault(grant.tool, n)
        if first != n:
            yield Fault(
                at.place("tools", n),
                f"{show(grant.tool)} is granted already, as {at.place('tools', first)}",
                "grant it once",
            )
        if grant.approve is not None:
            yield from name_faults(at.place("tools", n, "approve"), "queue", grant.approve)
    scopes: set[str] = set()
    for n, scope in enumerate(at.stage.scopes or []):
        if not scope.strip() or scope in scopes:
            yield Fault(
                at.place("scopes", n), "is blank" if not scope.strip() else "is there twice", "leave it out"
            )
        scopes.add(scope)


def _result_faults(at: At) -> Iterator[Fault]:
    stage, results = at.stage, at.stage.returns.results
    here = at.place("returns", "results")
    if "done" not in results:
        yield Fault(here, "the stage could never be done", "add 'done'")
    if len(set(results)) < len(results):
        yield Fault(here, "a result is there twice", "leave one out")
    by_veto = stage.fan_out is not None and stage.fan_out.need == "veto"
    if stage.on_refused is not None and "refused" not in results and not by_veto:
        yield Fault(
            at.place("on_refused"),
            "the stage cannot refuse",
            "add 'refused' to returns.results, or leave it out",
        )
    if stage.ask != PRODUCER and "needs-input" not in results:
        yield Fault(
            at.place("ask"), "the stage cannot ask", "add 'needs-input' to returns.results, or leave it out"
        )
    if stage.on_denied is not None and stage.role and not (stage.tools or stage.permits):
        yield Fault(at.place("on_denied"), "the stage has no tools that could be denied", "leave it out")


def _schema_faults(at: At) -> list[Fault]:
    found: list[Fault] = []
    if at.stage.inputs is not None:
        found += schema_faults(at.place("inputs"), at.stage.inputs)
    found += schema_faults(at.place("returns", "schema"), at.stage.returns.schema)
    parts: dict[str, Sequence[Grant | Permit]] = {"tools": at.stage.tools, "permits": at.stage.permits}
    for part, calls in parts.items():
        for n, call in enumerate(calls):
            for name, schema in call.params.items():
                found += schema_faults(at.place(part, n, "params", name), schema)
    for n, level in enumerate(at.stage.escalation):
        if level.hand_over is not None:
            found += schema_faults(at.place("escalation", n, "hand_over"), level.hand_over)
    return found


def _returns_faults(at: At) -> Iterator[Fault]:
    if not may_be_object(at.stage.returns.schema):
        yield Fault(
            at.place("returns", "schema"),
            "no object fits, and what a stage gives back is an object",
            'describe one: { type = "object", properties = { … } }',
        )


def _input_faults(at: At) -> Iterator[Fault]:
    schema = at.stage.inputs
    if schema is None or not at.is_sure("inputs"):
        return
    if not may_be_object(schema):
        yield Fault(
            at.place("inputs"),
            "no object fits, and the inputs of a stage are an object",
            "describe their fields",
        )
        return
    known = property_names(schema)
    texts = [(at.place("goal"), at.stage.goal)]
    texts += [(at.place("people", "skills", n), skill) for n, skill in enumerate(at.stage.people.skills)]
    for where, text in texts:
        for path in PLACEHOLDER.findall(text):
            head, _, rest = path.partition(".")
            if head == "inputs" and known and rest.split(".")[0] not in known:
                yield warning(where, f"{{{path}}} is not among the inputs: {one_line(', '.join(known))}")


def _travel_faults(at: At, known: list[Fault]) -> list[Fault]:
    """Return what cannot travel at all (a lone surrogate in some text), unless its place has a fault already."""
    try:
        plain(at.stage, what="stage")
    except ContractError as error:
        where = at.place(*_as_authored(error.pointer.split("/")[1:]))
        said = any(within(where, fault.place) or within(fault.place, where) for fault in known)
        return [] if said else [Fault(where, error.problem)]
    return []


def _as_authored(steps: list[str]) -> list[str | int]:
    """Return the parts of a JSON pointer into the stored form as the author wrote them."""
    parts = [_key_as_authored(step) for step in steps]
    if parts[:1] == ["fan_out"] and parts[1:] and parts[1] in Join.model_fields:
        return ["join", *parts[1:]]
    return parts


def _key_as_authored(key: str) -> str | int:
    name = key.replace("~1", "/").replace("~0", "~").removesuffix("Seconds")
    return int(name) if name.isdecimal() else re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def _size_faults(at: At) -> Iterator[Fault]:
    sizes = {
        field: len(encode(getattr(at.stage, field)))
        for field in ("goal", "constraints", "done_when", "returns", "escalation")
    }
    total = sum(sizes.values())
    if total > FIXED_BUDGET:
        largest = max(sizes, key=sizes.__getitem__)
        yield Fault(
            at.place(largest),
            f"takes {sizes[largest]} bytes of every pack; the fixed parts of a stage may take {FIXED_BUDGET}, and take {total}",
            "pass bulk as a resource of the session",
        )
