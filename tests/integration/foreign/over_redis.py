"""A worker that knows nothing of Passdown but docs/push.md: redis-py, plain JSON.

    python over_redis.py redis://HOST:PORT/DB ROLE

A queue is a list; a message on it is an envelope, with the bytes that count as base64 in its `body`.
"""

import base64
import json
import sys
import time
import uuid
from typing import Any

import redis

PREFIX = "passdown:"


def opened(item: bytes) -> dict[str, Any]:
    """Return the JSON in an envelope."""
    envelope = json.loads(item)
    message: dict[str, Any] = json.loads(base64.b64decode(envelope["body"]))
    return message


def sealed(message: dict[str, Any], queue: str) -> str:
    """Return an envelope with JSON in it."""
    envelope = {
        "body": base64.b64encode(json.dumps(message).encode()).decode(),
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {},
        "properties": {
            "body_encoding": "base64",
            "delivery_mode": 2,
            "delivery_tag": str(uuid.uuid4()),
            "delivery_info": {"exchange": "", "routing_key": queue},
            "priority": 0,
        },
    }
    return json.dumps(envelope)


def answer(push: dict[str, Any]) -> dict[str, Any]:
    """Return the message that gives a pack's result back."""
    pack = push["pack"]
    return {
        "spec": "passdown.return/1",
        "result": "done",
        "nextStep": None,
        **{name: pack[name] for name in ("sessionId", "step", "attempt", "stage")},
        "claimId": push["claimId"],
        "packDigest": pack["digest"],
        "output": {"echo": pack["inputs"], "attempt": pack["attempt"]},
    }


def main(url: str, role: str) -> None:
    """Work for ever. What this process holds when it is killed stays on `mine`, and its lease ends."""
    server: Any = redis.Redis.from_url(url, socket_timeout=30)  # pyright: ignore[reportUnknownMemberType]
    mine = f"{PREFIX}working.{role}.{uuid.uuid4()}"
    while True:
        try:
            item = server.blmove(f"{PREFIX}passdown.push.{role}", mine, 1, "RIGHT", "LEFT")
            if item is None:
                continue
            push = opened(item)
            server.lpush(PREFIX + push["returns"], sealed(answer(push), push["returns"]))
            server.lrem(mine, 1, item)
        except redis.ConnectionError:
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
