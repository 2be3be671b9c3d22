"""The AsyncAPI 3.1 document of the queues: what is sent on each, and who sends it."""

import json
from typing import Any

import msgspec

from passdown.broker.doorbell import DRAIN_TASK, message
from passdown.broker.schemas import examples, outgoing_examples
from passdown.contracts.codec import encode
from passdown.contracts.outgoing import CONTENT_TYPE
from passdown.contracts.push import RETURNS_QUEUE, push_queue

FILE = "asyncapi.json"
#: Of the document, by semantic versioning: a field or a queue more is a minor one.
VERSION = "1.0.0"
_BINDING = "0.3.0"
_JSON_SCHEMA = "application/schema+json;version=draft/2020-12"

_ABOUT = (
    "What Passdown sends and reads over kombu's transports (RabbitMQ, Redis and others). A message is UTF-8 JSON"
    " (RFC 7493, integers within ±(2**53 - 1)), and may come twice: drop what you have seen, by what its description says identifies it. The JSON Schemas of the"
    " payloads lie beside this document. Generated from the code by `passdown schema write`."
)
_ROLE = {"description": "A role of a plan: lower-case words joined by - _ or .", "examples": ["cashier"]}


def document() -> dict[str, Any]:
    """Return the document as plain JSON data."""
    return {
        "asyncapi": "3.1.0",
        "id": "urn:passdown:queues",
        "info": {
            "title": "Passdown's queues",
            "version": VERSION,
            "description": _ABOUT,
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "rabbitmq": {
                "host": "localhost:5672",
                "protocol": "amqp",
                "description": "Any RabbitMQ; the address is the setting `transport`.",
            }
        },
        "channels": _channels(),
        "operations": _operations(),
        "components": {"messages": _messages()},
    }


def text() -> str:
    """Return the document as the text of its file."""
    return json.dumps(document(), indent=2, ensure_ascii=False) + "\n"


def _channels() -> dict[str, Any]:
    return {
        "doorbells": {
            "address": "passdown.{role}",
            "title": "Doorbells of a role",
            "description": "Read by Passdown's own worker pools. A lost, doubled or late one costs time, never work.",
            "parameters": {"role": _ROLE},
            "messages": _named("doorbell"),
            "bindings": _queue(),
        },
        "pushed": {
            "address": push_queue("{role}"),
            "title": "Packs of a role that are pushed",
            "description": 'Read by workers of roles with `delivery = "push"`, in any language.',
            "parameters": {"role": _ROLE},
            "messages": _named("pack"),
            "bindings": _queue(),
        },
        "returns": {
            "address": RETURNS_QUEUE,
            "title": "Returns of packs that were pushed",
            "description": "What does not fit is kept in quarantine with its reason, and stops nobody.",
            "messages": _named("return"),
            "bindings": _queue(RETURNS_QUEUE),
        },
        "events": {
            "address": "{status}.{plan}",
            "title": "Outgoing events",
            "description": (
                "A durable topic exchange, named by the setting `events` of whoever submits; bind a queue of your own"
                " to it before: with no queue bound, what is sent is gone."
            ),
            "parameters": {
                "status": {"description": "The status from here on.", "examples": ["running", "done"]},
                "plan": {"description": "The plan's name, without its version.", "examples": ["refund"]},
            },
            "messages": _named("status", "outcome"),
            "bindings": {
                "amqp": {
                    "is": "routingKey",
                    "exchange": {"name": "EVENTS", "type": "topic", "durable": True, "autoDelete": False},
                    "bindingVersion": _BINDING,
                }
            },
        },
        "replies": {
            "address": None,
            "title": "Outcomes for a producer",
            "description": "The queue that the producer named at submit (`reply_to`); it is made durable where there is none.",
            "messages": _named("outcome"),
            "bindings": _queue(),
        },
    }


def _operations() -> dict[str, Any]:
    return {
        "ring": _operation("send", "doorbells", "Tell a role's pool that packs wait.", "doorbell"),
        "hear": _operation("receive", "doorbells", "Take packs from the store.", "doorbell"),
        "push": {
            **_operation(
                "send", "pushed", "Give an attempt to a worker that may not reach the store.", "pack"
            ),
            "reply": {
                "channel": _ref("channels", "returns"),
                "messages": [_ref("channels", "returns", "messages", "return")],
            },
        },
        "takeReturn": _operation("receive", "returns", "Take in what a claim gives back.", "return"),
        "tell": _operation("send", "events", "Tell of each change of a status.", "status", "outcome"),
        "reply": _operation("send", "replies", "Tell the producer how a session ended.", "outcome"),
    }


def _messages() -> dict[str, Any]:
    _, outcome = outgoing_examples.OUTGOING
    status = outgoing_examples.OUTGOING[0]
    bell = json.loads(message("cashier"))
    return {
        "doorbell": {
            "title": "Doorbell",
            "summary": "Packs wait for a role; a Celery task message of protocol 1.",
            "contentType": "application/json",
            "payload": {"schemaFormat": _JSON_SCHEMA, "schema": _DOORBELL},
            "examples": [{"payload": {**bell, "id": "6f1ed002ab5595859014ebf0951522d9"}}],
        },
        "pack": _message(
            "Pack", "What an attempt is given; known by its `claimId`.", "push.json", examples.PUSH
        ),
        "return": _message(
            "Return", "What a claim gives back; known by its `claimId`.", "return.json", examples.PUSHED_DONE
        ),
        "status": _cloud_event("A session's status changed; known by `source` and `id`.", "status", status),
        "outcome": _cloud_event("A session ended; known by `source` and `id`.", "outcome", outcome),
    }


_DOORBELL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "task": {"const": DRAIN_TASK},
        "id": {"type": "string"},
        "args": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1},
        "kwargs": {"type": "object", "maxProperties": 0},
    },
    "required": ["task", "id", "args", "kwargs"],
    "additionalProperties": False,
}


def _message(title: str, summary: str, file: str, example: object) -> dict[str, Any]:
    return {
        "title": title,
        "summary": summary,
        "contentType": "application/json",
        "payload": {"schemaFormat": _JSON_SCHEMA, "schema": {"$ref": f"./{file}"}},
        "examples": [{"payload": msgspec.json.decode(encode(example))}],
    }


def _cloud_event(summary: str, name: str, example: object) -> dict[str, Any]:
    made = _message(f"CloudEvent: {name}", summary, f"outgoing/{name}.json", example)
    return {**made, "contentType": CONTENT_TYPE}


def _operation(action: str, channel: str, summary: str, *names: str) -> dict[str, Any]:
    return {
        "action": action,
        "channel": _ref("channels", channel),
        "summary": summary,
        "messages": [_ref("channels", channel, "messages", name) for name in names],
        "bindings": {"amqp": {"deliveryMode": 2, "ack": True, "bindingVersion": _BINDING}},
    }


def _queue(name: str = "") -> dict[str, Any]:
    """Return the binding of a channel that is a queue on the default exchange."""
    queue: dict[str, Any] = {"durable": True, "exclusive": False, "autoDelete": False}
    named = {"name": name, **queue} if name else queue
    return {"amqp": {"is": "queue", "queue": named, "bindingVersion": _BINDING}}


def _named(*names: str) -> dict[str, Any]:
    return {name: _ref("components", "messages", name) for name in names}


def _ref(*steps: str) -> dict[str, str]:
    return {"$ref": "#/" + "/".join(steps)}
