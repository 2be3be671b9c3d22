"""Keeps in quarantine what came as a doorbell and is none, without keeping its consumer waiting."""

import queue
import threading
from collections.abc import Callable

import structlog

from passdown.broker.push.judging import KEPT
from passdown.broker.stores.base import Quarantine
from passdown.contracts.codec import clean_text
from passdown.contracts.errors import PassdownError

#: So many wait to be kept; what comes beyond them is only counted.
MOST_WAITING = 50

_log = structlog.get_logger("passdown.pool")


class JunkKeeper:
    """Puts junk into the store from a thread of its own, which is there only while there is some."""

    def __init__(self, put: Callable[[Quarantine], None]) -> None:
        self._put = put
        self._waiting: queue.Queue[Quarantine] = queue.Queue(MOST_WAITING)
        self._lock = threading.Lock()
        self._working = False

    def keep(self, source: str, body: bytes, reason: str) -> None:
        """Keep the beginning of a message, some time soon; never waits and never raises."""
        if len(body) > KEPT:
            reason = f"{reason} (of its {len(body)} bytes the first {KEPT} are kept)"
        try:
            self._waiting.put_nowait(
                Quarantine(source=clean_text(source, 100), reason=clean_text(reason), body=body[:KEPT])
            )
        except queue.Full:
            _log.warning("pool.junk_not_kept", source=source[:100], why="too much at once")
            return
        with self._lock:
            if not self._working:
                self._working = True
                threading.Thread(target=self._work, name="passdown-junk", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if self._waiting.empty():
                    self._working = False
                    return
            self._one(self._waiting.get())

    def _one(self, what: Quarantine) -> None:
        try:
            self._put(what)
        except PassdownError as error:
            _log.warning("pool.junk_not_kept", source=what.source, why=str(error))
        except Exception:  # noqa: BLE001 - there is nobody above, and the next one may be kept
            _log.exception("pool.junk_not_kept", source=what.source)
