"""What a process says of itself once a second, in a file: whether it hears its transport and its store.

A process that is alive may still do nothing. Green is one that wrote lately, whose transport was polled
lately, and whose store answered lately (`passdown health FILE`).
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

from passdown.broker.stores.base import Store
from passdown.contracts.codec import Record, clean_text, decode, encode
from passdown.contracts.errors import ContractError, PassdownError, Unavailable
from passdown.contracts.ids import session_id

#: How often the file is written, and the store is asked (seconds).
_WRITE_EVERY_S, _ASK_EVERY_S = 1.0, 2.0

_log = structlog.get_logger("passdown.health")


class Health(Record, frozen=True, kw_only=True):
    """One process. Times in seconds, but for ``at_ms``: milliseconds since the epoch, when this was written.

    ``poll_s``: for how long its transport has not answered though there was room for work (None: it polls
    none); ``store_s``: since its store answered last. ``restarts``: how often its consumer, or all of it, was
    started again.
    """

    kind: str
    roles: list[str] = []
    pid: int
    at_ms: int
    up_s: float
    poll_s: float | None = None
    store_s: float
    restarts: int = 0


class HealthFile:
    """Writes the health of this process, from `run` in a thread of its own; removes the file at its end."""

    def __init__(
        self,
        path: str,
        kind: str,
        ask_store: Callable[[], None],
        *,
        roles: list[str] | None = None,
        poll_s: Callable[[], float | None] = lambda: None,
        restarts: Callable[[], int] = lambda: 0,
    ) -> None:
        """`ask_store` returns once the store has answered, and raises where it does not."""
        self._path = Path(path)
        self._kind = kind
        self._roles = roles or []
        self._ask_store = ask_store
        self._poll_s = poll_s
        self._restarts = restarts
        self._began = self._answered = time.monotonic()
        self._failed = ""

    def run(self, stop: threading.Event) -> None:
        """Write until `stop` is set; a file that cannot be written is said once."""
        # A store that hangs must not keep the file from saying so.
        threading.Thread(target=self._ask, args=(stop,), name="passdown-health-store", daemon=True).start()
        while True:
            self._write()
            if stop.wait(_WRITE_EVERY_S):
                break
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _ask(self, stop: threading.Event) -> None:
        while True:
            try:
                self._ask_store()
                self._answered = time.monotonic()
            except PassdownError as error:
                _log.debug("health.store_away", error=str(error))
            except Exception as error:  # noqa: BLE001 - whatever it is, the store did not answer
                _log.warning("health.store_failed", error=repr(error))
            if stop.wait(_ASK_EVERY_S):
                return

    def now(self) -> Health:
        """Return the health of this process."""
        now = time.monotonic()
        polled = self._poll_s()
        return Health(
            kind=self._kind,
            roles=self._roles,
            pid=os.getpid(),
            at_ms=time.time_ns() // 1_000_000,
            up_s=round(now - self._began, 1),
            poll_s=None if polled is None else round(polled, 1),
            store_s=round(now - self._answered, 1),
            restarts=self._restarts(),
        )

    def _write(self) -> None:
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            beside.write_bytes(encode(self.now()) + b"\n")
            beside.replace(self._path)
        except OSError as error:
            if str(error) != self._failed:
                _log.error("health.not_written", file=str(self._path), error=str(error))
            self._failed = str(error)
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)
        else:
            self._failed = ""


def asking(store: Store) -> Callable[[], None]:
    """Return what asks a store for something small."""
    nobody = session_id("health")
    return lambda: store.load(nobody) and None


def read_health(path: str) -> Health:
    """Return what a process wrote. Raises Unavailable where it wrote nothing, ContractError where that is no health."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        why = "nothing is written there: its process is not up, or has another `health_file`"
        raise Unavailable(f"health file {clean_text(path, 200)}", why) from None
    except OSError as error:
        raise ContractError(
            "health file", f"{clean_text(path, 200)} cannot be read: {error.strerror}"
        ) from error
    return decode(data, Health, what="health file")


def faults(health: Health, within_s: float, now_ms: int) -> list[str]:
    """Return what is wrong with a process: what has not happened for more than `within_s` seconds."""
    age = (now_ms - health.at_ms) / 1000
    found: list[str] = []
    if abs(age) > within_s:
        found.append(
            f"it wrote last {age:.0f} s ago: its process {health.pid} is gone, frozen or out of breath"
        )
    if health.poll_s is not None and health.poll_s > within_s:
        found.append(f"its transport has not answered for {health.poll_s:.0f} s")
    if health.store_s > within_s:
        found.append(f"its store has not answered for {health.store_s:.0f} s")
    return found
