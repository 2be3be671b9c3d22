"""Tell outside what happened to sessions: CloudEvents on an exchange, outcomes to reply queues (DESIGN §11).

The log of a session is the outbox (`core.telling`). The store hands out the sessions of which something is to be
told, each to one at a time; what is to be told is published in order, and only then noted as told. So everything
arrives at least once: whoever ends between the two leaves it to be told again, under the same ids. Where one that
was frozen goes on after its reservation ran out, it repeats what another has told by then, and nothing else.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from passdown.broker.core.telling import Telling, tellings
from passdown.broker.parts import Part
from passdown.broker.stores.base import DueRequest, Store, Told, ToTell
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import Publisher as CarrierPublisher
from passdown.broker.transports.carrier import Refused
from passdown.contracts.codec import encode
from passdown.contracts.errors import Unavailable
from passdown.contracts.outgoing import CONTENT_TYPE

#: Sessions that are asked for at once.
BATCH = 100
#: For how long a session is left to whoever tells of it (milliseconds). As late it is told of where that one was
#: killed; one that takes longer is told of twice.
RESERVE_MS = 10_000
_PAGE = 1_000

#: Waits after a pass that failed (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.5, 5.0
#: The wait after a pass that found something (seconds); it doubles with each that does not.
_LEAST_WAIT = 0.02
#: For how long a queue or exchange that did not take a message is left alone (seconds).
LEAVE_S = 30.0
#: Of so many is that known at once.
_MOST_LEFT = 1_000

_log = structlog.get_logger("passdown.teller")


class Publisher(Protocol):
    """Sends messages that must arrive, to queues and topic exchanges."""

    def publish(
        self,
        body: bytes,
        *,
        queue: str = "",
        theirs: bool = False,
        exchange: str = "",
        routing_key: str = "",
        content_type: str = "application/json",
        message_id: str = "",
    ) -> None:
        """Return once the transport has the message; raises Unavailable, or Refused where it does not take this one."""
        ...

    def close(self) -> None:
        """Let go of the connection."""
        ...


class Passed(NamedTuple):
    """What one pass came to: the sessions that were in hand, and those that were told of."""

    found: int
    told: int


class Teller:
    """Tells of the sessions of a store. Run as many as you like. Times in seconds where not said otherwise.

    ``source`` is that of the CloudEvents; ``most_wait_s`` the longest wait between two looks; ``monotonic`` is
    for tests.
    """

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        *,
        source: str,
        most_wait_s: float = 1.0,
        reserve_ms: int = RESERVE_MS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._publisher = publisher
        self._source = source
        self._most_wait_s = most_wait_s
        self._reserve_ms = reserve_ms
        self._monotonic = monotonic
        #: Sessions that are reserved for this one, and until when: they wait here where the transport is away.
        self._hand: deque[ToTell] = deque()
        self._until = 0.0
        #: Queue or exchange → until when it is left alone.
        self._left: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Tell until `stop` is set; whatever goes wrong, try again for ever, with jittered waits, and say so."""
        try:
            self._run(stop)
        finally:
            self._publisher.close()

    def _run(self, stop: threading.Event) -> None:
        failures = 0
        wait = _LEAST_WAIT
        while not stop.is_set():
            try:
                # While the transport is away one session is enough to find out: the others stay free.
                passed = self.once(1 if failures else BATCH, stop)
            except Exception as error:  # noqa: BLE001 - whatever it is, the next pass may be fine
                failures += 1
                wait = min(_AGAIN_MOST, _AGAIN_FIRST * 2 ** min(failures - 1, 8)) * random.uniform(0.5, 1.0)  # noqa: S311
                _said(error, wait)
            else:
                if failures and passed.told:
                    _log.info("teller.back", after_tries=failures)
                failures = 0 if passed.told or not passed.found else failures
                wait = _LEAST_WAIT if passed.found else min(2 * wait, self._most_wait_s)
            stop.wait(wait)

    def once(self, batch: int = BATCH, stop: threading.Event | None = None) -> Passed:
        """Tell of what is in hand, else of up to `batch` sessions. Raises Unavailable where store or transport is away."""
        if not self._hand or self._monotonic() >= self._until:
            self._until = self._monotonic() + self._reserve_ms / 1000
            asked = DueRequest(limit=0, reserve_ms=self._reserve_ms, tell=batch)
            self._hand = deque(self._store.due(asked).tell)
        found, told = len(self._hand), 0
        while self._hand and self._monotonic() < self._until and not (stop and stop.is_set()):
            told += self._next()
        return Passed(found, told)

    def _next(self) -> bool:
        """Tell of one session in hand. Where the transport is away it stays there."""
        one = self._hand[0]
        seq = self._told_up_to(one)
        self._hand.popleft()
        if seq:
            self._store.put(Told(session_id=one.session_id, seq=seq))
        return bool(seq)

    def _told_up_to(self, one: ToTell) -> int:
        """Publish what is to be told of a session; return up to which event that was, 0 where it cannot be told.

        A fault with one session is said, and leaves the others alone. Raises Unavailable.
        """
        try:
            log = self._log_of(one.session_id)
            for telling in tellings(log, one.after, self._source):
                self._publish(telling)
        except Refused:
            return 0
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one session that nobody can read must not keep the others waiting
            _log.exception("teller.broken", session=one.session_id, after=one.after)
            return 0
        return len(log)

    def _log_of(self, session_id: str) -> list[bytes]:
        """Return the whole log, up to the end of a commit."""
        log: list[bytes] = []
        while True:
            page = self._store.events(session_id, after=len(log), limit=_PAGE)
            log += page
            if len(page) < _PAGE:
                return log

    def _publish(self, telling: Telling) -> None:
        """Publish one message. Raises Unavailable; Refused where its queue or exchange takes none at present."""
        event, where = (
            telling.event,
            f"exchange {telling.exchange}" if telling.exchange else f"queue {telling.key}",
        )
        if self._left.get(where, 0.0) > self._monotonic():
            raise Refused("transport", f"{where} took no message a moment ago")
        body = encode(event)
        try:
            if telling.exchange:
                self._publisher.publish(
                    body,
                    exchange=telling.exchange,
                    routing_key=telling.key,
                    content_type=CONTENT_TYPE,
                    message_id=event.id,
                )
            else:
                self._publisher.publish(
                    body, queue=telling.key, theirs=True, content_type=CONTENT_TYPE, message_id=event.id
                )
        except Refused as error:
            self._leave(where, event.subject, error)
            raise

    def _leave(self, where: str, session_id: str, error: Refused) -> None:
        """Leave a queue or an exchange alone for a while; what is for others goes on."""
        if len(self._left) >= _MOST_LEFT:
            self._left.clear()
        self._left[where] = self._monotonic() + LEAVE_S
        _log.warning("teller.refused", by=where, session=session_id, error=str(error), again_s=LEAVE_S)


def teller_parts(store: Store, transport: Transport, *, source: str, most_wait_s: float) -> dict[str, Part]:
    """Return the part that tells, by name; none where there is no transport. Options as for `Teller`."""
    if not transport.url:
        return {}
    return {"teller": Teller(store, CarrierPublisher(transport), source=source, most_wait_s=most_wait_s)}


def _said(error: Exception, again_s: float) -> None:
    if isinstance(error, Unavailable):
        _log.warning("teller.away", error=str(error), again_s=round(again_s, 2))
    else:
        _log.error("teller.failed_pass", error=repr(error), again_s=round(again_s, 2), exc_info=error)
