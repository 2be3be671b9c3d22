"""The pack: sealed, read back, and refused where anything in it was changed."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from passdown.contracts.codec import digest, encode
from passdown.contracts.pack import Memory, Pack, PackAnswer, PackEffect, Parent, Resource, read_pack, seal
from tests.unit.contracts.helpers import JSON, TAGGED, raw, refused, sample_pack


def test_the_digest_is_over_all_but_itself() -> None:
    pack, data = sample_pack()
    assert pack.digest == digest(data.replace(pack.digest.encode(), b""))
    assert encode(pack) == data
    assert seal(pack) == (pack, data)


@given(JSON)
@settings(deadline=None)
def test_a_pack_is_read_back_as_it_was_sealed(value: Any) -> None:
    pack, data = sample_pack(
        inputs=value,
        resources=[Resource(name="a", uri="https://a.example/")],
        parent=Parent(session_id="s0-2", join_id="j", branch="de"),
        effects=[PackEffect(effect_id="s0-1.e-1", step=1, tool="t", status="done", args=value, result=value)],
        answers=[PackAnswer(attempt=1, id="q", text="?", value=value, by="user:ann")],
        memory=Memory(version=3, entries=[value], left_out=2),
    )
    assert read_pack(data) == pack


@pytest.mark.parametrize("value", TAGGED, ids=str)
def test_tagged_objects_survive(value: Any) -> None:
    pack, data = sample_pack(inputs=value)
    assert read_pack(data).inputs == value == pack.inputs


def test_another_order_and_white_space_do_not_change_what_was_said() -> None:
    pack, data = sample_pack()
    fields = list(msgspec.json.decode(data).items())
    assert read_pack(msgspec.json.format(msgspec.json.encode(dict(reversed(fields))))) == pack


def _fields(data: bytes) -> dict[str, Any]:
    return msgspec.json.decode(data)


def test_any_other_value_of_any_field_is_noticed() -> None:
    """A forged or altered pack cannot be claimed (DESIGN §5)."""
    _, data = sample_pack(tools=[])
    fields = _fields(data)
    for name, value in fields.items():
        changed = {**fields, name: _other(value)}
        error = refused(lambda changed=changed: read_pack(raw(changed)))
        assert error.pointer in ("/digest", f"/{name}") or error.pointer.startswith(f"/{name}/")
    assert (
        refused(lambda: read_pack(raw({**fields, "goal": "Pay."}))).problem
        == "its digest does not fit its content"
    )


def _other(value: Any) -> Any:
    match value:
        case str():
            return value + "x"
        case int() | float():
            return value + 1
        case list():
            return [*value, "x"]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {**value, "x": 1}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return "x"


@pytest.mark.parametrize(
    "field",
    [
        "plan",
        "stage",
        "role",
        "goal",
        "tools",
        "returns",
        "taskId",
        "sessionId",
        "inputs",
        "step",
        "attempt",
        "cause",
    ],
)
def test_a_field_that_is_missing_is_named(field: str) -> None:
    _, data = sample_pack()
    fields = {name: value for name, value in _fields(data).items() if name != field}
    assert refused(lambda: read_pack(raw(fields))).pointer == f"/{field}"


def test_a_pack_without_its_digest_is_refused() -> None:
    pack, _ = sample_pack()
    assert refused(lambda: read_pack(encode(msgspec.structs.replace(pack, digest="")))).pointer == "/digest"


def test_large_integers_in_a_pack_are_refused_like_everywhere() -> None:
    _, data = sample_pack(inputs={"n": 2**60})
    assert refused(lambda: read_pack(data)).pointer == "/inputs/n"


def test_what_changes_seldom_stands_first() -> None:
    """Consecutive packs of a session share a long prefix."""
    _, first = sample_pack(attempt=1, cause="first")
    _, second = sample_pack(attempt=2, cause="retry")
    shared = next(n for n, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    assert first[shared - len('"attempt":') : shared] == b'"attempt":'
    assert [
        name for name in Pack.__struct_encode_fields__ if name in ("plan", "inputs", "attempt", "digest")
    ] == [
        "plan",
        "inputs",
        "attempt",
        "digest",
    ]
