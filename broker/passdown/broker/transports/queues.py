"""Queues as they are declared on every transport; RabbitMQ alone reads their arguments.

Messages that must arrive lie on durable quorum queues, and what is returned to one too often goes to
``passdown.dead``. A queue of hints holds a few, in the server's memory, and drops the oldest.
"""

from typing import Any

import amqp
import kombu

DEAD = "passdown.dead"
#: How often RabbitMQ gives out one message before it counts as dead. Only what ends its consumer, or is held by one
#: whose connection ends, gets there: what a consumer cannot deal with now it publishes anew (`carrier.Consumer`).
DELIVERY_LIMIT = 100
#: So many dead messages are kept.
MOST_DEAD = 10_000
#: So many hints lie on a queue.
MOST_HINTS = 8

_QUORUM: dict[str, Any] = {
    "x-queue-type": "quorum",
    "x-delivery-limit": DELIVERY_LIMIT,
    "x-dead-letter-exchange": DEAD,
}


def lasting(name: str) -> kombu.Queue:
    """Return a queue whose messages must arrive."""
    return kombu.Queue(name, routing_key=name, durable=True, queue_arguments=dict(_QUORUM))


def theirs(name: str) -> kombu.Queue:
    """Return a queue of somebody else, as it is made where there is none."""
    return kombu.Queue(name, routing_key=name, durable=True, queue_arguments={"x-queue-type": "quorum"})


def is_theirs(what: object) -> bool:
    """Whether a queue is one of `theirs`."""
    return isinstance(what, kombu.Queue) and what.queue_arguments == {"x-queue-type": "quorum"}


def declare_theirs(queue: kombu.Queue, channel: Any) -> None:
    """Make a queue where there is none; one that is there, or is its owner's alone, may be sent to as it is.

    What RabbitMQ refuses closes its channel, so that each try has one of its own.
    """
    trying = channel.connection.channel()
    try:
        queue.bind(trying).queue_declare(passive=True)
    except amqp.NotFound:
        trying = channel.connection.channel()
        queue.bind(trying).declare()
    except amqp.ResourceLocked:
        return
    trying.close()


def hints(name: str, *, expires_s: float | None = None) -> kombu.Queue:
    """Return a queue of messages that may be lost; `expires_s` seconds after its last consumer it is gone."""
    arguments: dict[str, Any] = {"x-max-length": MOST_HINTS, "x-overflow": "drop-head"}
    if expires_s is not None:
        arguments["x-expires"] = int(expires_s * 1000)
    return kombu.Queue(name, routing_key=name, durable=True, queue_arguments=arguments)


def topic(name: str) -> kombu.Exchange:
    """Return a durable topic exchange."""
    return kombu.Exchange(name, type="topic", durable=True)


def declare_dead(channel: Any) -> None:
    """Declare where messages go that RabbitMQ gives up."""
    exchange = kombu.Exchange(DEAD, type="fanout", durable=True)
    arguments = {"x-queue-type": "quorum", "x-max-length": MOST_DEAD, "x-overflow": "drop-head"}
    kombu.Queue(DEAD, exchange, durable=True, queue_arguments=arguments).bind(channel).declare()
