"""The JSON Schemas say what the Structs say: examples fit, mutations do not, and both agree on everything between."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast, get_args

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.broker.core.state import State
from passdown.broker.schemas import asyncapi
from passdown.broker.schemas.generate import URN, documents
from passdown.broker.schemas.messages import Message, messages
from passdown.contracts import (
    brief,
    commands,
    events,
    outgoing,
    pack,
    plans,
    problems,
    push,
    replies,
    returns,
    tools,
)
from passdown.contracts.codec import ContractError, decode_any, encode
from passdown.contracts.pack import read_pack
from passdown.contracts.returns import read_return
from tests.unit.contracts.helpers import JSON

ROOT = Path(__file__).parents[3]
MESSAGES = messages()
#: Name → document.
FOUND: dict[str, dict[str, Any]] = {
    name: json.loads(text) for name, text in documents().items() if name != asyncapi.FILE
}
each_message = pytest.mark.parametrize("message", MESSAGES, ids=[message.name for message in MESSAGES])


def document(message: Message) -> dict[str, Any]:
    return FOUND[f"{message.name}.json"]


def validator(message: Message) -> jsonschema_rs.Draft202012Validator:
    """Return a validator that can reach nothing but the document itself."""
    return jsonschema_rs.Draft202012Validator(document(message), offline=True)


#: A struct → the union that readers take it for: only there its tag must be said.
UNIONS: dict[Any, Any] = {
    member: union
    for union in (returns.Return, events.Event, commands.Body, replies.Reply, outgoing.Outgoing)
    for member in get_args(union)
}


def decodes(message: Message, value: object) -> bool:
    try:
        found = decode_any(encode(value), UNIONS.get(message.kind, message.kind))
    except ContractError:
        return False
    return message.kind not in UNIONS or type(found) is message.kind


def test_everything_that_travels_or_is_stored_has_a_document() -> None:
    covered = {message.kind for message in MESSAGES}
    kinds: set[Any] = {
        brief.Brief,
        pack.Pack,
        plans.Plan,
        tools.ToolSpec,
        State,
        events.Logged,
        problems.Problem,
        push.Push,
    }
    for union in (returns.Return, events.Event, commands.Body, replies.Reply, outgoing.Outgoing):
        kinds.update(get_args(union))
    kinds.update([returns.Return, commands.Body, replies.Reply, outgoing.Outgoing])
    assert covered == kinds
    assert set(FOUND) == {f"{message.name}.json" for message in MESSAGES}


@each_message
def test_a_document_is_a_schema_with_an_id_a_title_and_a_text(message: Message) -> None:
    found = document(message)
    jsonschema_rs.meta.validate(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["$id"] == f"{URN}{message.name.replace('/', ':')}:1"
    assert found["title"]
    assert found["description"].endswith(".")
    assert "\n" not in found["description"]
    assert "``" not in json.dumps(found)


def test_ids_are_unique() -> None:
    ids = [found["$id"] for found in FOUND.values()]
    assert len(set(ids)) == len(ids)


@each_message
def test_an_example_is_there_fits_and_is_read(message: Message) -> None:
    examples = document(message)["examples"]
    assert examples
    for example in examples:
        validator(message).validate(example)
        found = decode_any(encode(example), message.kind)
        assert msgspec.json.decode(encode(found)) == example
        assert found in message.examples


def test_the_examples_of_pack_and_returns_pass_their_readers() -> None:
    for example in FOUND["pack.json"]["examples"]:
        read_pack(encode(example))
    assert [read_return(encode(example)) for example in FOUND["return.json"]["examples"]]


def with_spec(message: Message) -> bool:
    return "spec" in document(message).get("properties", {})


def test_what_has_a_spec_must_say_it() -> None:
    named = {message.name for message in MESSAGES if with_spec(message)}
    assert named >= {"pack", "plan", "tool", "returns/done", "state"}
    for message in MESSAGES:
        if with_spec(message):
            assert "spec" in document(message)["required"]
            assert document(message)["properties"]["spec"] == {
                "const": document(message)["examples"][0]["spec"]
            }


def single(message: Message) -> bool:
    return "properties" in document(message)


SINGLE = [message for message in MESSAGES if single(message)]
each_struct = pytest.mark.parametrize("message", SINGLE, ids=[message.name for message in SINGLE])


@each_struct
def test_each_required_field_is_required(message: Message) -> None:
    found = document(message)
    example: dict[str, Any] = found["examples"][0]
    for name in found.get("required", []):
        lacking = {key: value for key, value in example.items() if key != name}
        assert not validator(message).is_valid(lacking), name
        if name != "spec":  # a default in Python; readers of packs and returns ask for it first
            assert not decodes(message, lacking), name


@each_struct
def test_an_unknown_field_is_refused(message: Message) -> None:
    more = {**document(message)["examples"][0], "novelty": 1}
    others_may_add = message.kind in (problems.Problem, outgoing.StatusEvent, outgoing.OutcomeEvent)
    assert validator(message).is_valid(more) is others_may_add
    assert decodes(message, more) is others_may_add


@each_struct
def test_a_value_of_another_type_is_refused(message: Message) -> None:
    found = document(message)
    for name, schema in found["properties"].items():
        if schema and name != "default":
            for other in ({"x": {"x": None}}, [[None]], 3.25, "\x00"):
                changed = {**found["examples"][0], name: other}
                assert validator(message).is_valid(changed) == decodes(message, changed), (name, other)
    assert not validator(message).is_valid([found["examples"][0]])


WITH_SPEC = [message for message in SINGLE if with_spec(message)]


@pytest.mark.parametrize("message", WITH_SPEC, ids=[message.name for message in WITH_SPEC])
def test_a_newer_message_is_refused(message: Message) -> None:
    example = document(message)["examples"][0]
    newer = {**example, "spec": example["spec"].replace("/1", "/2")}
    assert not validator(message).is_valid(newer)
    assert not decodes(message, newer)


ODD: list[Any] = [0, 1, -1, 1.5, "", "a", "deny", "done", True, None, [], {}, [{}], {"a": 1}, "claim-0001"]
VALUES: st.SearchStrategy[Any] = JSON | st.sampled_from(ODD)


@given(st.sampled_from(MESSAGES), st.data())
@settings(deadline=None, max_examples=400)
def test_schema_and_reader_agree_on_whatever_comes_near_an_example(
    message: Message, chance: st.DataObject
) -> None:
    """Where one accepts what the other refuses, somebody's worker breaks in a way that the schema hides."""
    found = document(message)
    example = chance.draw(st.sampled_from(found["examples"]))
    places = list(_places(example))
    changed: Any = example
    for _ in range(chance.draw(st.integers(1, 2))):
        changed = _put(changed, chance.draw(st.sampled_from(places)), chance.draw(VALUES))
    if not _has_whole_floats(changed):
        assert validator(message).is_valid(changed) == decodes(message, changed)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Any:
    yield place
    if isinstance(value, dict):
        for name, below in cast("dict[str, Any]", value).items():
            yield from _places(below, (*place, name))
        yield (*place, "novelty")
    elif isinstance(value, list):
        for index, below in enumerate(cast("list[Any]", value)):
            yield from _places(below, (*place, index))


def _put(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    if not place:
        return new
    step, *rest = place
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        return {**table, step: _put(table.get(step), tuple(rest), new)}
    if isinstance(value, list) and isinstance(step, int) and step < len(cast("list[Any]", value)):
        listed = cast("list[Any]", value)
        return [*listed[:step], _put(listed[step], tuple(rest), new), *listed[step + 1 :]]
    return cast("Any", value)


def _has_whole_floats(value: Any) -> bool:
    """Whether some number is like 1.0, an integer to JSON Schema and a float to us."""
    if isinstance(value, float):
        return value.is_integer()
    if isinstance(value, dict):
        return any(map(_has_whole_floats, cast("dict[str, Any]", value).values()))
    return isinstance(value, list) and any(map(_has_whole_floats, cast("list[Any]", value)))


_DIGEST = """
from passdown.broker.schemas import asyncapi
from passdown.broker.schemas.generate import documents
from passdown.contracts.codec import digest_of
print(digest_of(list(documents().items())))
"""


def test_the_documents_are_the_same_at_every_run() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
