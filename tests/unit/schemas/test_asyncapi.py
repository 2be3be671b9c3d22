"""The AsyncAPI document says what the code does: its names, its content types, its payloads."""

import json
import re
from collections.abc import Iterator
from typing import Any, cast

import jsonschema_rs
import pytest

from passdown.broker.core.state import A2A_STATE
from passdown.broker.doorbell import DRAIN_TASK, message, queue_name
from passdown.broker.plans.names import NAME
from passdown.broker.schemas.asyncapi import FILE
from passdown.broker.schemas.generate import documents
from passdown.contracts import outgoing
from passdown.contracts.push import RETURNS_QUEUE, push_queue

DOCUMENT: dict[str, Any] = json.loads(documents()[FILE])
CHANNELS: dict[str, Any] = DOCUMENT["channels"]
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]
OPERATIONS: dict[str, Any] = DOCUMENT["operations"]
each_message = pytest.mark.parametrize("name", MESSAGES)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        if isinstance(table.get("$ref"), str):
            yield table["$ref"]
        for below in table.values():
            yield from references(below)
    elif isinstance(value, list):
        for below in cast("list[Any]", value):
            yield from references(below)


def resolved(reference: str) -> Any:
    if reference.startswith("./"):
        return json.loads(documents()[reference.removeprefix("./")])
    found: Any = DOCUMENT
    for step in reference.removeprefix("#/").split("/"):
        found = found[step]
    return resolved(found["$ref"]) if "$ref" in found else found


def without_examples() -> dict[str, Any]:
    """The examples are data: what looks like a reference there is none."""
    messages = {
        name: {key: value for key, value in one.items() if key != "examples"}
        for name, one in MESSAGES.items()
    }
    return {**DOCUMENT, "components": {"messages": messages}}


def test_every_reference_leads_somewhere() -> None:
    found = set(references(without_examples()))
    assert len(found) > 10
    for reference in found:
        assert resolved(reference), reference


@each_message
def test_an_example_fits_its_payload_schema(name: str) -> None:
    payload = MESSAGES[name]["payload"]["schema"]
    schema = resolved(payload["$ref"]) if "$ref" in payload else payload
    validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
    for example in MESSAGES[name]["examples"]:
        validator.validate(example["payload"])
    assert not validator.is_valid({"novelty": 1})


@each_message
def test_each_message_is_on_a_channel_that_somebody_sends_or_receives_on(name: str) -> None:
    on = [channel for channel, one in CHANNELS.items() if name in one["messages"]]
    used = {step["channel"]["$ref"].removeprefix("#/channels/") for step in OPERATIONS.values()}
    assert on
    assert set(on) <= used


def test_operations_name_messages_of_their_channel_only() -> None:
    for operation in OPERATIONS.values():
        channel = operation["channel"]["$ref"]
        for reference in references(operation["messages"]):
            assert reference.startswith(f"{channel}/messages/")
        assert operation["action"] in ("send", "receive")


def test_parameters_are_those_of_the_address() -> None:
    for channel in CHANNELS.values():
        named = re.findall(r"\{(\w+)\}", channel["address"] or "")
        assert sorted(channel.get("parameters", {})) == sorted(named)


def test_the_names_are_those_that_the_code_uses() -> None:
    addresses = {name: channel["address"] for name, channel in CHANNELS.items()}
    assert addresses["doorbells"].format(role="desk") == queue_name("desk")
    assert addresses["pushed"].format(role="desk") == push_queue("desk")
    assert addresses["returns"] == RETURNS_QUEUE
    assert addresses["replies"] is None
    assert CHANNELS["events"]["bindings"]["amqp"]["exchange"]["type"] == "topic"


def test_the_examples_of_parameters_could_be() -> None:
    parameters = CHANNELS["events"]["parameters"]
    assert set(parameters["status"]["examples"]) <= set(A2A_STATE)
    assert all(NAME.fullmatch(name) for name in parameters["plan"]["examples"])
    assert all(NAME.fullmatch(name) for name in CHANNELS["doorbells"]["parameters"]["role"]["examples"])


def test_content_types_are_those_that_are_sent() -> None:
    kinds = {name: one["contentType"] for name, one in MESSAGES.items()}
    assert kinds.pop("status") == kinds.pop("outcome") == outgoing.CONTENT_TYPE
    assert set(kinds.values()) == {"application/json"}


def test_a_doorbell_as_it_is_sent_fits() -> None:
    schema = MESSAGES["doorbell"]["payload"]["schema"]
    validator = jsonschema_rs.Draft202012Validator(schema, offline=True)
    validator.validate(json.loads(message("desk")))
    assert not validator.is_valid({**json.loads(message("desk")), "task": f"{DRAIN_TASK}s"})
