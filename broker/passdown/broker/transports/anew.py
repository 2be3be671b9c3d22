"""Giving a message back to RabbitMQ as if it came for the first time.

What is given back otherwise counts towards `queues.DELIVERY_LIMIT`, beyond which a message is dead: a store that is
away for an hour would cost every message that waits for it.
"""

from typing import Any

import amqp

#: Headers in which RabbitMQ counts how often it gave out a message.
_COUNTED = ("x-delivery-count", "x-acquired-count")


def publish(message: Any, body: bytes, queue: str, within_s: float) -> None:
    """Put a message at the end of its queue; whoever ends before it is acknowledged has it there twice.

    Raises what py-amqp raises where the server has not confirmed it within so many seconds.
    """
    properties: dict[str, Any] = dict(message.properties)
    headers: dict[str, Any] = properties.pop("application_headers", None) or {}
    kept = {name: value for name, value in headers.items() if name not in _COUNTED}
    again = amqp.Message(body, **properties, application_headers=kept)
    message.channel.basic_publish(again, exchange="", routing_key=queue, mandatory=True, timeout=within_s)
