"""Tell outside what happened to sessions: CloudEvents on an exchange, outcomes to reply queues (DESIGN §11).

The log of a session is the outbox (`core.telling`). The store hands out the sessions of which something is to be
told, each to one at a time; what is to be told is published in order, and only then noted as told. So everything
arrives at least once: whoever ends between the two leaves it to be told again, under the same ids. Where one that
was frozen goes on after its reservation ran out, it repeats what another has told by then, and nothing else.

A queue or exchange that takes nothing (here: a place) keeps no other waiting, not even the other one of the same
session: what went out meanwhile is noted where it is a beginning of what is to be told, and else remembered here.
"""

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import structlog

from passdown.broker.backoff import backoff
from passdown.broker.core.telling import Telling, tellings
from passdown.broker.parts import Part
from passdown.broker.stores.base import DueRequest, Quarantine, Store, Told, ToTell
from passdown.broker.transports.addresses import Transport
from passdown.broker.transports.carrier import Publisher as CarrierPublisher
from passdown.broker.transports.carrier import Refused
from passdown.contracts.codec import clean_text, encode
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
#: For how long a place that did not take a message is left alone (seconds).
LEAVE_S = 30.0
#: What happened so long ago (milliseconds, store clock), at a place that has taken nothing for so long as this process
#: knows (seconds), is told nobody any more: it goes to quarantine. The second, so that a place which refuses for a
#: moment after a transport was away for days costs nothing.
GIVE_UP_MS, SURE_S = 24 * 3600 * 1000, 3600.0
#: Of so many places is it known at once that they take nothing, and of so many sessions what went out to the other.
_MOST_LEFT = 1_000

#: Where in quarantine that is found which was given up.
SOURCE = "outgoing"

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
    """What one pass came to: the sessions that were in hand, and those of which something was told and noted."""

    found: int
    told: int


class _Left(NamedTuple):
    """A place that takes nothing: since when, until when it is left alone, and why.

    ``sure``: that is known, for it said so, or was silent while another was not.
    """

    since: float
    until: float
    why: str
    sure: bool


class _Silence:
    """The one place that a pass passes over, for nobody knows whether it has the message: the fault may be its own.

    A second one says that the transport is away. ``alone``: another place has answered since.
    """

    def __init__(self) -> None:
        self.place = ""
        self.fault: Unavailable | None = None
        self.alone = False


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
        #: The store's time when sessions were asked for last (ms).
        self._now = 0
        self._left: dict[str, _Left] = {}
        #: Session → what went out of it and is not noted: the place and the event's id.
        self._out: dict[str, set[tuple[str, str]]] = {}
        #: The last pass ended at one silent place, and knows of no other whether it takes messages.
        self._doubtful = False

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
                wait = backoff(failures, _AGAIN_FIRST, _AGAIN_MOST)
                _said(error, wait)
            else:
                if failures and passed.told:
                    _log.info("teller.back", after_tries=failures)
                failures = 0 if passed.told or not passed.found else failures
                wait = _LEAST_WAIT if passed.found else min(2 * wait, self._most_wait_s)
            stop.wait(wait)

    def once(self, batch: int = BATCH, stop: threading.Event | None = None) -> Passed:
        """Tell of what is in hand, else of up to `batch` sessions. Raises Unavailable where store or transport is away."""
        self._fill_hand(batch)
        found, told = len(self._hand), 0
        silence = _Silence()
        for _ in range(found):
            if self._monotonic() >= self._until or (stop and stop.is_set()):
                break
            told += self._next(silence)
        self._judge(silence)
        return Passed(found, told)

    def _fill_hand(self, batch: int) -> None:
        """Ask for sessions where none are in hand, and for more where those may all wait for one place alone."""
        expired = self._monotonic() >= self._until
        doubtful, self._doubtful = self._doubtful, False
        if self._hand and not expired and not doubtful:
            return
        if expired or not self._hand:
            self._hand.clear()
            self._until = self._monotonic() + self._reserve_ms / 1000
        elif len(self._hand) >= BATCH:
            # One is enough to try that place again.
            self._hand = deque([self._hand[0]])
        asked = DueRequest(limit=0, reserve_ms=self._reserve_ms, tell=BATCH if doubtful else batch)
        due = self._store.due(asked)
        self._now = due.now
        self._hand += due.tell

    def _judge(self, silence: _Silence) -> None:
        """Leave a place alone that was silent while another was not; else raise, for the transport may be away."""
        if silence.fault is None:
            return
        if not silence.alone and silence.place not in self._left:
            self._doubtful = True
            raise silence.fault
        self._leave(silence.place, silence.fault, sure=silence.alone)

    def _next(self, silence: _Silence) -> bool:
        """Tell of one session in hand; say whether that was noted. What waits for a silent place stays there."""
        one = self._hand[0]
        seq, waits = self._told_up_to(one, silence)
        self._hand.popleft()
        if seq:
            # Where there is more the store hands it out again.
            self._store.put(Told(session_id=one.session_id, seq=seq))
        elif waits:
            self._hand.append(one)
        return bool(seq)

    def _told_up_to(self, one: ToTell, silence: _Silence) -> tuple[int, bool]:
        """Publish what is to be told of a session; return up to which event that is done by now, and whether it waits.

        0 where nothing new is done. A fault with one session is said, and leaves the others alone. Raises
        Unavailable where store or transport is away.
        """
        try:
            log = self._log_of(one.session_id)
            to_tell = tellings(log, one.after, self._source)
            return self._publish_all(to_tell, len(log), silence)
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001 - one session that nobody can read must not keep the others waiting
            _log.exception("teller.broken", session=one.session_id, after=one.after)
            return 0, False

    def _publish_all(self, to_tell: list[Telling], whole: int, silence: _Silence) -> tuple[int, bool]:
        """Publish a session's messages, those for each place in order; returns as `_told_up_to`. `whole`: all of the log."""
        if not to_tell:
            return whole, False
        session_id = to_tell[0].event.subject
        out = self._out.pop(session_id, set())
        try:
            closed = self._publish_each(to_tell, out, silence)
        finally:
            self._remember(session_id, out)
        pending = [telling.seq for telling in to_tell if _mark(telling) not in out]
        if not pending:
            del self._out[session_id]
            return whole, False
        done = [telling.seq for telling in to_tell if telling.seq < pending[0]]
        return max(done, default=0), silence.place in closed

    def _publish_each(self, to_tell: list[Telling], out: set[tuple[str, str]], silence: _Silence) -> set[str]:
        """Publish what is not out yet, and say which places took not all of it. Raises Unavailable."""
        closed: set[str] = set()
        for telling in to_tell:
            place, mark = _place(telling), _mark(telling)
            if mark in out or place in closed:
                continue
            if self._publish(telling, place, silence):
                out.add(mark)
            else:
                closed.add(place)
        return closed

    def _remember(self, session_id: str, out: set[tuple[str, str]]) -> None:
        """Keep in mind what went out of a session until that can be noted."""
        if not out:
            return
        while len(self._out) >= _MOST_LEFT:
            del self._out[next(iter(self._out))]
        self._out[session_id] = out

    def _log_of(self, session_id: str) -> list[bytes]:
        """Return the whole log, up to the end of a commit."""
        log: list[bytes] = []
        while True:
            page = self._store.events(session_id, after=len(log), limit=_PAGE)
            log += page
            if len(page) < _PAGE:
                return log

    def _publish(self, telling: Telling, place: str, silence: _Silence) -> bool:
        """Publish one message, or give it up; False where its place takes none at present. Raises Unavailable."""
        if place == silence.place:
            return False
        left = self._left.get(place)
        if left is None or left.until <= self._monotonic():
            fault = self._send(telling)
            if fault is None or isinstance(fault, Refused):
                silence.alone |= silence.fault is not None
            elif silence.fault is not None:
                self._left.clear()  # no place is to be given up for what is the transport's fault
                raise fault
            else:
                silence.place, silence.fault = place, fault
                return False
            if fault is None:
                self._left.pop(place, None)
                return True
            self._leave(place, fault, sure=True)
        return self._given_up(telling, place)

    def _send(self, telling: Telling) -> Unavailable | None:
        """Publish one message; return what came in between."""
        event = telling.event
        if telling.exchange:
            to: dict[str, Any] = {"exchange": telling.exchange, "routing_key": telling.key}
        else:
            to = {"queue": telling.key, "theirs": True}
        try:
            self._publisher.publish(encode(event), content_type=CONTENT_TYPE, message_id=event.id, **to)
        except Unavailable as error:
            return error
        return None

    def _leave(self, place: str, fault: Unavailable, *, sure: bool) -> None:
        """Leave a place alone for a while; what is for others goes on."""
        now = self._monotonic()
        before = self._left.pop(place, None)
        if len(self._left) >= _MOST_LEFT:
            del self._left[next(iter(self._left))]
        since = before.since if before and sure else now
        self._left[place] = _Left(since, now + LEAVE_S, str(fault), sure)
        _log.warning("teller.refused", by=place, error=str(fault), again_s=LEAVE_S)

    def _given_up(self, telling: Telling, place: str) -> bool:
        """Put a message into quarantine that cannot be delivered, so that its session need not be kept for it.

        False where there is hope. Raises Unavailable.
        """
        left = self._left[place]
        if not left.sure or self._monotonic() - left.since < SURE_S or self._now - telling.at < GIVE_UP_MS:
            return False
        key = f" under {telling.key}" if telling.exchange else ""
        reason = clean_text(f"given up for {place}{key}: {left.why}")
        self._store.put(Quarantine(source=SOURCE, reason=reason, body=encode(telling.event)))
        _log.error("teller.given_up", by=place, session=telling.event.subject, event_id=telling.event.id)
        return True


def _place(telling: Telling) -> str:
    return f"exchange {telling.exchange}" if telling.exchange else f"queue {telling.key}"


def _mark(telling: Telling) -> tuple[str, str]:
    return _place(telling), telling.event.id


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
