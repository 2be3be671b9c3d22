"""What the tests of `passdown.contracts` share: data that may travel, data that may not, and sample messages."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st

from passdown.contracts.codec import MAX_INTEGER, encode
from passdown.contracts.errors import ContractError, PassdownError
from passdown.contracts.pack import Pack, seal
from passdown.contracts.plans import Returns

E = TypeVar("E", bound=PassdownError)

#: Texts that have broken other systems, all of which may travel.
ODD_TEXTS = [
    "",
    "\x00",
    "a\x00b",
    "\x1f\x7f\x85\u2028\u2029",
    "\u202eright to left\u202c\u200f",
    "\ufeff",
    "\ufffe\uffff",
    "e\u0301 é",
    "\U0001f469\u200d\U0001f4bb",
    '"\\/\b\f\n\r\t',
    "{[",
    "$.a[0] - at `$.b`",
    "x" * 1_000_000,
]
#: What kombu's own serializer would turn into an object or an error (TRAPS): here it is data like any other.
TAGGED: list[Any] = [
    {"__type__": "datetime", "__value__": "2026-01-01T00:00:00"},
    {"__type__": "no.such.Type", "__value__": {"__type__": "uuid", "__value__": "x"}},
    {"__type__": 3},
    {"$ref": "file:///etc/passwd"},
    {"py/object": "os.system"},
    {"__class__": "x", "__proto__": {"a": 1}, "constructor": None},
]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(ODD_TEXTS[:-1])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-MAX_INTEGER, MAX_INTEGER)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda below: st.lists(below, max_size=4) | st.dictionaries(TEXTS, below, max_size=4),
    max_leaves=20,
)


def refused(act: Callable[[], object], kind: type[E] = ContractError) -> E:
    """Return the error with which `act` refuses; its text must be bounded and fit for storing."""
    with pytest.raises(kind) as caught:
        act()
    assert len(str(caught.value)) < 1_000
    str(caught.value).encode("utf-8")
    return caught.value


def nested(depth: int, leaf: Any = 1) -> Any:
    """Return `leaf` within `depth` containers, lists and dicts by turns."""
    value = leaf
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


def seconds(act: Callable[[], object]) -> float:
    """Return how long `act` keeps a processor busy, so that a loaded machine changes little."""
    began = time.process_time()
    act()
    return time.process_time() - began


def sample_return(**changes: Any) -> dict[str, Any]:
    """Return a `done` return as plain data; a field that is changed to ... is left out."""
    whole = {
        "spec": "passdown.return/1",
        "result": "done",
        "sessionId": "s0-1",
        "step": 1,
        "attempt": 1,
        "claimId": "claim-0001",
        "packDigest": "d" * 64,
        "stage": "check",
        "nextStep": None,
        "output": {"decision": "approve"},
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


def sample_pack(**changes: Any) -> tuple[Pack, bytes]:
    """Return a sealed pack and its bytes."""
    fields: dict[str, Any] = {
        "plan": "refund@1",
        "stage": "check",
        "role": "analyst",
        "goal": "Decide.",
        "constraints": [],
        "done_when": ["a decision"],
        "tools": [],
        "returns": Returns(),
        "escalation": [],
        "risk": "normal",
        "lease_seconds": 60.0,
        "task_id": "t-1",
        "session_id": "s0-1",
        "inputs": {"orderId": "4711"},
        "step": 1,
        "attempt": 1,
        "cause": "first",
    }
    return seal(Pack(**{**fields, **changes}))


def raw(value: Any) -> bytes:
    """Return canonical bytes, as a sender would send them."""
    return encode(value)
