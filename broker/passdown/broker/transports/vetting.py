"""Messages that nobody can read must stop no consumer: they are looked at before kombu handles them.

kombu and Celery end their loops over a list item that is no envelope, a body that is not the base64 it
claims to be, a compression that does not unpack, or an envelope without its delivery's address.
"""

import base64
import json
from collections.abc import Callable
from typing import Any, cast

import structlog

#: Told of each message that is none: its queue, its bytes as far as they are known, and what is wrong.
Junk = Callable[[str, bytes, str], None]

_log = structlog.get_logger("passdown.transport")


def envelope(channel: Any, data: bytes | str) -> Any:
    """Return the message that a queue of one of kombu's virtual transports held; raises whatever is wrong with it."""
    found: Any = json.loads(data)
    if not isinstance(found, dict):
        raise TypeError(f"expected an envelope, got {type(found).__name__}")
    payload = cast("dict[str, Any]", found)
    properties = payload["properties"]
    delivery = properties["delivery_info"]
    _require(str, properties["delivery_tag"], delivery["exchange"], delivery["routing_key"])
    headers: Any = payload.get("headers") or {}
    _require(dict, headers)
    if headers.get("compression"):
        raise ValueError("compressed messages are not read")
    if properties.get("body_encoding") == "base64":
        base64.b64decode(payload["body"], validate=True)  # kombu leaves out what does not belong
    channel.Message(payload, channel=channel)
    return payload


def _require(kind: type, *values: object) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"expected {kind.__name__}, got {type(value).__name__}")


def is_hint(message: Any) -> bool:
    """Whether a message was sent as one that may be lost: of those only a few are kept."""
    return message["properties"].get("delivery_mode") == 1


def tell(on_junk: Junk | None, queue: str, data: bytes, reason: str) -> None:
    """Hand a message that is none to whoever wants to know; whatever comes of that, the consumer goes on."""
    _log.warning("transport.junk", queue=queue[:100], bytes=len(data), reason=reason[:200])
    if on_junk is None:
        return
    try:
        on_junk(queue, data, reason)
    except Exception:  # noqa: BLE001 - the message is lost to us; the next one may be fine
        _log.exception("transport.junk_not_kept", queue=queue[:100])
