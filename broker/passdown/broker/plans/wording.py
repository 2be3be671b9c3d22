"""pydantic's errors in our words: the place as the author wrote it, what came, what to do."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from passdown.broker.plans.faults import Fault, one_line, place, show

# Tags of unions stand in pydantic's locations; no key that an author writes looks like these.
NAME_TAG = "\0name"
TABLE_TAG = "\0table"
ROLE_TAG = "\0role"
HUMAN_TAG = "\0human"
FAN_OUT_TAG = "\0fan-out"
FAN_OUT_TABLE_TAG = "\0fan-out-table"

Path = tuple[str | int, ...]
#: What to do about an unknown field, from pydantic's location of it.
MendUnknown = Callable[[Path], str]


def path_of(error: ErrorDetails) -> Path:
    """Return where an error stands, in the author's keys and numbers."""
    loc = error["loc"][:-1] if error["loc"][-1:] == ("[key]",) else error["loc"]
    return tuple(part for part in loc if not str(part).startswith("\0"))


def faults_of(error: ValidationError, mend_unknown: MendUnknown) -> list[Fault]:
    """Return each of pydantic's errors as a fault."""
    return [_fault(details, mend_unknown) for details in error.errors(include_url=False)]


def _fault(error: ErrorDetails, mend_unknown: MendUnknown) -> Fault:
    path = path_of(error)
    where, kind, value = place(*path), error["type"], error["input"]
    context: Mapping[str, Any] = error.get("ctx", {})
    match kind:
        case "passdown":
            return Fault(where, str(context["problem"]), str(context["mend"]))
        case "extra_forbidden":
            return Fault(where, "unknown field", mend_unknown(error["loc"]))
        case "missing":
            return Fault(place(*path[:-1]), f"{show(path[-1])} is missing", _needed(str(path[-1])))
        case "literal_error":
            return Fault(where, f"expected {context['expected']}, got {show(value)}")
        case _:
            expected = _EXPECTED.get(kind)
            wrong = f"expected {expected}" if expected else one_line(error["msg"])
            return Fault(where, f"{wrong}, got {show(value)}")


def _needed(field: str) -> str:
    return "name the role, the `queue` of a person's stage, or a `fan_out`" if field == "role" else "add it"


#: What was expected, by pydantic's type of error.
_EXPECTED = {
    kind: expected
    for expected, kinds in {
        "a string": ("string_type", "string_sub_type"),
        "text without lone surrogates": ("string_unicode",),
        "an integer": ("int_type", "int_from_float", "int_parsing", "int_parsing_size"),
        "a number": ("float_type", "float_parsing"),
        "a finite number": ("finite_number",),
        "true or false": ("bool_type", "bool_parsing"),
        "a table": ("model_type", "model_attributes_type", "dict_type", "mapping_type"),
        "a list": ("list_type", "sequence_str", "is_instance_of"),
    }.items()
    for kind in kinds
}
