"""Push delivery as parts of a process: what publishes packs, what hears that some wait, what takes returns in."""

from typing import Any

import kombu
import msgspec
import structlog

from passdown.broker.controller import Controller
from passdown.broker.doorbell import PUSH_BELL
from passdown.broker.parts import Part
from passdown.broker.push.judging import put_aside, take_in
from passdown.broker.push.pusher import Pusher
from passdown.broker.stores.base import Store
from passdown.broker.transports import queues
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import (
    PUBLISH_WITHIN_S,
    Consumer,
    Publisher,
    Received,
    connection_to,
    drop,
)
from passdown.contracts.codec import decode
from passdown.contracts.errors import ContractError, Unavailable
from passdown.contracts.push import RETURNS_QUEUE, role_of_pushed

_log = structlog.get_logger("passdown.push")


def push_parts(controller: Controller, transport: Transport, limit: int) -> dict[str, Part]:
    """Return the parts by name; none where there is no transport. `limit` is `Pusher`'s."""
    if not transport.url:
        return {}
    pusher = Pusher(controller, Outbox(transport), limit=limit)
    store = controller.store
    return {
        "push": pusher,
        "push-bells": Consumer(
            transport,
            queues.hints(PUSH_BELL),
            lambda message: _hear(pusher, store, message),
            on_junk=lambda body, why: put_aside(store, PUSH_BELL, why, body),
        ),
        "returns": Consumer(
            transport,
            RETURNS_QUEUE,
            lambda message: _take_in(controller, message),
            on_junk=lambda body, why: put_aside(store, RETURNS_QUEUE, why, body),
        ),
    }


def _take_in(controller: Controller, message: Received) -> None:
    judged = take_in(controller, message.body, message.content_type)
    if judged.fate != "accepted":
        _log.info("push.return", fate=judged.fate, reason=judged.reason)


class _Bell(msgspec.Struct, frozen=True):
    """Of a doorbell, what says for whom it rings."""

    args: list[str]


def _hear(pusher: Pusher, store: Store, message: Received) -> None:
    """Tell the pusher for which roles a bell rang."""
    try:
        rung = decode(message.body, _Bell, what="doorbell").args
    except ContractError as error:
        put_aside(store, PUSH_BELL, str(error), message.body)
        return
    for queue in rung:
        role = role_of_pushed(queue)
        if role:
            pusher.hear(role)


class Outbox:
    """Publishes over a transport, and counts what lies on a queue. Used from one thread."""

    def __init__(self, transport: Transport) -> None:
        self._publisher = Publisher(transport)
        self._transport = transport.within(PUBLISH_WITHIN_S)
        self._connection: kombu.Connection | None = None

    def publish(self, queue: str, body: bytes) -> None:
        """Return once the transport has the message; raises Unavailable where that is not known."""
        self._publisher.publish(body, queue=queue)

    def waiting(self, queue: str) -> int:
        """Return how many messages nobody has fetched; the queue is made where there is none. Raises Unavailable."""
        try:
            return self._count(queue)
        except Exception as error:  # each transport raises its own
            drop(self._connection)
            self._connection = None
            raise Unavailable("transport", f"{queue} cannot be counted: {error!r}"[:300]) from error

    def _count(self, queue: str) -> int:
        if self._connection is None:
            self._connection = connection_to(self._transport, PUBLISH_WITHIN_S)
        channel: Any = self._connection.default_channel
        if self._transport.rabbitmq:
            queues.declare_dead(channel)
        wanted = queues.lasting(queue)
        found = channel.queue_declare(
            queue=wanted.name,
            durable=True,
            exclusive=False,
            auto_delete=False,
            arguments=wanted.queue_arguments,
        )
        return int(found.message_count)

    def close(self) -> None:
        """Let go of both connections."""
        self._publisher.close()
        drop(self._connection)
        self._connection = None
