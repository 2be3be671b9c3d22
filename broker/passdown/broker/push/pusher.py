"""Publishes packs of roles that are pushed; publishing is the claim (DESIGN §4, push delivery).

A pack is taken, published, and only then recorded as claimed, under an id that follows from the attempt
(`push_claim_id`). So nothing is lost or counted as failed at any point where this process may end or the
transport may be away:

* before it was published: the reservation ends by itself, or is handed back, and the pack is taken again;
* published but not recorded: it is published again under the same claim, so that either copy's return counts;
  a return that comes before the record is itself the record (`judging`).
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import structlog

from passdown.broker.backoff import backoff
from passdown.broker.controller import Controller
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.stores.queries import FindQueues, QueueRow
from passdown.contracts.codec import encode
from passdown.contracts.errors import PassdownError, Unavailable
from passdown.contracts.gateway import AgentInfo, Claiming, Offer
from passdown.contracts.pack import Pack
from passdown.contracts.push import Push, push_claim_id, push_queue, pushed, role_of_pushed

#: Packs of one turn. Another role waits no longer than this takes.
BATCH = 50
#: For how long a taken pack is left to whoever took it (milliseconds).
RESERVE_MS = 10_000
#: Waits after a turn that failed (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.5, 15.0
#: When to look again whether a message queue that was full has room (seconds).
_ROOM_EVERY = 1.0
#: How often a role that was served is looked at without a bell (seconds): bells may be lost.
_ROUND_EVERY = 5.0

#: What came of a turn: nothing could be taken, all that waited went out, or more waits, or the queue has no room.
Turn = Literal["nothing", "done", "more", "full"]

_log = structlog.get_logger("passdown.push")


class Publisher(Protocol):
    """Puts messages on queues, and knows when they are there."""

    def publish(self, queue: str, body: bytes) -> None:
        """Return once the transport has the message; raises Unavailable where that is not known."""
        ...

    def waiting(self, queue: str) -> int:
        """Return how many messages nobody has fetched; raises Unavailable."""
        ...

    def close(self) -> None:
        """Let go; a later call begins anew."""
        ...


@dataclass(slots=True)
class _Role:
    """When a role's next turn is, and what came of the last ones; ``served``: packs of it were published."""

    at: float
    failures: int = 0
    full: bool = False
    served: bool = False


class Pusher:
    """Publishes what waits for the roles that it hears of. Times in seconds.

    ``limit``: packs of a role that are out and not returned, and messages that lie unread on its queue.
    ``clock`` only tells a worker until when its return is worth the work; both clocks may be replaced in tests.
    """

    def __init__(
        self,
        controller: Controller,
        publisher: Publisher,
        *,
        limit: int = 1_000,
        reserve_ms: int = RESERVE_MS,
        monotonic: Callable[[], float] = time.monotonic,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._controller = controller
        self._publisher = publisher
        self._limit = limit
        self._gateway = DirectGateway(controller, Limits(claim_by_ms=reserve_ms, role=limit))
        self._monotonic = monotonic
        self._clock = clock
        self._lock = threading.Lock()
        self._heard = threading.Event()
        self._roles: dict[str, _Role] = {}

    def hear(self, role: str) -> None:
        """Note that packs wait for `role`; where its last turn failed or found no room, that one's wait stands."""
        now = self._monotonic()
        with self._lock:
            known = self._roles.setdefault(role, _Role(now))
            if not known.failures and not known.full:
                known.at = now
        self._heard.set()

    def look(self) -> None:
        """Hear of each role whose packs wait: bells that rang before anybody listened are gone. Raises Unavailable."""
        found = self._controller.store.find(FindQueues())
        for row in found if isinstance(found, list) else []:
            role = role_of_pushed(row.role) if isinstance(row, QueueRow) else None
            if role is not None:
                self.hear(role)

    def run(self, stop: threading.Event) -> None:
        """Publish until `stop` is set."""
        looked = False
        while not stop.is_set():
            looked = looked or self._look()
            self._heard.wait(self.turns())
            self._heard.clear()
        self._publisher.close()

    def _look(self) -> bool:
        try:
            self.look()
        except Unavailable as error:
            _log.warning("push.store_away", error=str(error))
            return False
        return True

    def turns(self) -> float:
        """Give each role whose turn it is one; returns how long the next is away."""
        now = self._monotonic()
        with self._lock:
            due = [(role, known) for role, known in self._roles.items() if known.at <= now]
        for role, known in due:
            self._turn(role, known)
        with self._lock:
            next_at = min((known.at for known in self._roles.values()), default=now + _ROUND_EVERY)
        return max(0.0, min(next_at - self._monotonic(), _ROOM_EVERY))

    def _turn(self, role: str, known: _Role) -> None:
        # A pack that cannot go out is handed back: one is enough to find out whether they can again.
        slots = 1 if known.failures or known.full else BATCH
        began = self._monotonic()
        try:
            turn = self.push(role, slots)
        except Exception as error:  # noqa: BLE001 - whatever it is, other roles and later turns must not suffer
            known.failures += 1
            again = backoff(known.failures, _AGAIN_FIRST, _AGAIN_MOST)
            unforeseen = None if isinstance(error, PassdownError) else error
            _log.warning(
                "push.failed", role=role, error=str(error), again_s=round(again, 2), exc_info=unforeseen
            )
            known.at = self._monotonic() + again
            return
        if turn == "full" and not known.full:
            _log.warning("push.queue_full", role=role, limit=self._limit)
        known.failures, known.full = 0, turn == "full"
        known.served = known.served or turn in ("done", "more")
        self._after(role, known, turn, began)

    def _after(self, role: str, known: _Role, turn: Turn, began: float) -> None:
        """Set when the role's next turn is; who was never served is forgotten, for anybody can ring."""
        now = self._monotonic()
        with self._lock:
            if turn == "more":
                known.at = now
            elif turn == "full":
                known.at = now + _ROOM_EVERY
            elif known.at > began:
                return  # a bell rang meanwhile
            elif known.served:
                known.at = now + _ROUND_EVERY
            else:
                del self._roles[role]

    def push(self, role: str, slots: int = BATCH) -> Turn:
        """Publish up to `slots` packs of `role`. Raises Unavailable; what was not published is handed back."""
        taking = self._gateway.take(pushed(role), slots)
        if not taking.offers:
            return "nothing"
        out: list[Pack] = []
        why = "it could not be published"
        try:
            room = self._limit - self._publisher.waiting(push_queue(role))
            for offer in taking.offers[: max(0, room)]:
                self._publish(offer)
                out.append(offer.pack)
            why = "the message queue of its role is full"
        finally:
            self._hand_back(taking.offers[len(out) :], why)
            self._claim(out)
        if len(out) < len(taking.offers):
            return "full"
        return "more" if taking.more else "done"

    def _publish(self, offer: Offer) -> None:
        pack = offer.pack
        until = int((self._clock() + pack.lease_seconds) * 1000)
        body = encode(Push(claim_id=_claim_id(pack), lease_until=until, pack=pack))
        self._publisher.publish(push_queue(pack.role), body)

    def _claim(self, packs: list[Pack]) -> None:
        """Record the claims of what was published."""
        if not packs:
            return
        asked = [Claiming(pack, _claim_id(pack), AgentInfo(name=pack.role)) for pack in packs]
        for pack, answer in zip(packs, self._gateway.claim_all(asked), strict=True):
            if isinstance(answer, PassdownError):
                # Its return was quicker, the session went on otherwise, or it is published once more.
                _log.info("push.not_claimed", session=pack.session_id, error=str(answer))

    def _hand_back(self, offers: list[Offer], why: str) -> None:
        for offer in offers:
            try:
                self._gateway.hand_back(offer.pack, why, after_seconds=0.0)
            except PassdownError as error:
                _log.info("push.not_handed_back", session=offer.pack.session_id, error=str(error))


def _claim_id(pack: Pack) -> str:
    return push_claim_id(pack.session_id, pack.step, pack.attempt, pack.digest)
