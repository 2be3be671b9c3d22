"""Where a stage leads: moves to nowhere, and `next` by a field against the schema of that field."""

from collections.abc import Iterator

from passdown.broker.plans.at import At
from passdown.broker.plans.faults import Fault, closest, show, warning
from passdown.broker.plans.schema_look import FieldLook, field_of
from passdown.contracts.plans import END, FAIL


def move_faults(at: At, *, look: bool) -> Iterator[Fault]:
    """Yield the faults of the moves out of a stage; `look` says whether its returns schema can be relied on."""
    if at.is_sure("next"):
        yield from _shape_faults(at)
        if look and at.stage.next.field is not None:
            yield from _field_faults(at, at.stage.next.field)
    for where, target in _targets(at):
        yield from _target_faults(at, where, target)


def _targets(at: At) -> Iterator[tuple[str, str]]:
    following = at.stage.next
    if following.to is not None:
        yield at.place("next"), following.to
    for value, target in following.cases.items():
        yield at.place("next", value), target
    for n, target in enumerate(following.suggest):
        yield at.place("next", "suggest", n), target
    for field in ("on_refused", "on_denied", "on_failed"):
        target = getattr(at.stage, field)
        if target is not None and not (field == "on_failed" and target == FAIL):
            yield at.place(field), target


def _target_faults(at: At, where: str, target: str) -> Iterator[Fault]:
    if target == END or target in at.plan.stages:
        return
    if target == FAIL:
        yield Fault(where, "only on_failed may lead to 'fail'", "move to a stage, or to 'end'")
    else:
        yield Fault(where, f"there is no stage {show(target)}", closest(target, [*at.plan.stages, END]))


def _shape_faults(at: At) -> Iterator[Fault]:
    following = at.stage.next
    forms = [
        form for form in (following.field, following.to or (following.suggest or None)) if form is not None
    ]
    if len(forms) > 1:
        yield Fault(at.place("next"), "leads by a field and otherwise, too", "choose one")
    if following.field is None and following.cases:
        yield Fault(at.place("next"), "its values are of no field", "name the field of the output as `field`")
    if following.field is not None and not following.cases:
        yield Fault(
            at.place("next"), f"no value of {show(following.field)} leads anywhere", 'add value = "stage"'
        )
    if len(set(following.suggest)) < len(following.suggest):
        yield Fault(at.place("next", "suggest"), "a stage is there twice", "leave one out")


def _field_faults(at: At, field: str) -> Iterator[Fault]:
    look = field_of(at.stage.returns.schema, field)
    if look is None:
        return
    here = at.place("next", "field")
    if not look.declared:
        yield Fault(
            here,
            f"the returns schema has no field {show(field)}",
            "declare it under `properties`, with its values",
        )
    elif not look.required:
        yield Fault(
            here, f"the returns schema does not require {show(field)}", f"add {show(field)} to its `required`"
        )
    elif look.values is None:
        yield warning(
            here,
            f"the values of {show(field)} are not listed, and one that is not mapped breaks the contract",
            "list them as `enum`",
        )
    if look.values is not None:
        yield from _value_faults(at, field, look)


def _value_faults(at: At, field: str, look: FieldLook) -> Iterator[Fault]:
    cases = at.stage.next.cases
    names = [spelled(value) for value in look.values or []]
    for value, name in zip(look.values or [], names, strict=True):
        if name is None:
            yield Fault(
                at.place("next", "field"),
                f"{show(field)} may be {show(value)}, and only text, integers, true, false and null lead somewhere",
                "let the field have text values",
            )
        elif name not in cases:
            yield Fault(
                at.place("next"),
                f"{show(field)} may be {show(name)}, which leads nowhere",
                f'map {show(name)} to a stage, or to "end"',
            )
    for name in cases:
        if name not in names:
            yield Fault(
                at.place("next", name),
                f"{show(field)} is never {show(name)}",
                closest(name, [one for one in names if one]),
            )


def spelled(value: object) -> str | None:
    """Return how `next` writes a value of a field; None where it cannot be written."""
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value).lower()  # booleans are integers here
    return value if isinstance(value, str) else None
