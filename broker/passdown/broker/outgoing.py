"""Tell outside what happened to sessions: CloudEvents on an exchange, outcomes to reply queues (DESIGN §11).

The log of a session is the outbox (`core.telling`). The store hands out the sessions of which something is to be
told, each to one at a time; what is to be told is published in order, and only then noted as told. So everything
arrives at least once: whoever ends between the two leaves it to be told again, under the same ids. Where one that
was frozen goes on after its reservation ran out, it repeats what another has told by then, and nothing else.
"""

import random
import threading
import time
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

#: Sessions that one pass asks for.
BATCH = 100
#: For how long a session is left to whoever tells of it (milliseconds): longer than one message may take.
RESERVE_MS = 20_000
#: In so much of that a pass begins with another session (seconds).
_BEGIN_WITHIN = 5.0
_PAGE = 1_000

#: Waits after a pass that failed (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.5, 15.0
#: The wait after a pass that found something (seconds); it doubles with each that does not.
_LEAST_WAIT = 0.02
#: For how long a queue or exchange that did not take a message is left alone (seconds).
_LEAVE_S = 30.0
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
    """What one pass came to: sessions found, and those of them that nothing is left to be told of."""

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
        """Make one pass over up to `batch` sessions. Raises Unavailable where the store or the transport is away."""
        begun = self._monotonic()
        found = self._store.due(DueRequest(limit=0, reserve_ms=self._reserve_ms, tell=batch)).tell
        told = 0
        for one in found:
            late = self._monotonic() - begun > min(_BEGIN_WITHIN, self._reserve_ms / 2000)
            if late or (stop is not None and stop.is_set()):
                break  # they are free again soon, for whoever is quicker
            told += self._tell(one)
        return Passed(len(found), told)

    def _tell(self, one: ToTell) -> bool:
        """Tell of one session; a fault with it is said, and leaves the others alone."""
        try:
            self._publish_all(one)
        except Refused:
            return False
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one session that nobody can read must not keep the others waiting
            _log.exception("teller.broken", session=one.session_id, after=one.after)
            return False
        return True

    def _publish_all(self, one: ToTell) -> None:
        log = self._log_of(one.session_id)
        for telling in tellings(log, one.after, self._source):
            self._publish(telling)
        self._store.put(Told(session_id=one.session_id, seq=len(log)))

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
        self._left[where] = self._monotonic() + _LEAVE_S
        _log.warning("teller.refused", by=where, session=session_id, error=str(error), again_s=_LEAVE_S)


def teller_parts(
    store: Store, transport: Transport, *, source: str, most_wait_s: float
) -> dict[str, Part]:
    """Return the part that tells, by name; none where there is no transport. Options as for `Teller`."""
    if not transport.url:
        return {}
    return {"teller": Teller(store, CarrierPublisher(transport), source=source, most_wait_s=most_wait_s)}


def _said(error: Exception, again_s: float) -> None:
    if isinstance(error, Unavailable):
        _log.warning("teller.away", error=str(error), again_s=round(again_s, 2))
    else:
        _log.error("teller.failed_pass", error=repr(error), again_s=round(again_s, 2), exc_info=error)
