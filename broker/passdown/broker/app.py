"""The one place that names concrete classes: a store from its address, a doorbell for it, and what stands on them."""

import random
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from passdown.broker import folder, memory
from passdown.broker.controller import PATIENCE_S, Controller
from passdown.broker.doorbell import Doorbell, KombuDoorbell, SilentDoorbell
from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import ContractError, Unavailable
from passdown.contracts.outgoing import check_name

SQLITE = "sqlite:///"
_MEMORY = ":memory:"
_DEFAULT_FILE = "passdown.db"

#: Waits between tries to open a store that is away (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.25, 15.0
#: How soon a stop is heard meanwhile (seconds).
_LOOK_EVERY = 0.05

_log = structlog.get_logger("passdown")


@dataclass(frozen=True, slots=True)
class Transport:
    """A kombu address and its options; an empty address means that nobody is rung.

    ``linger_s``: how long a drain that found its queue empty waits before it looks once more (seconds).
    Where a doorbell is as quick as a look, waiting only keeps a slot busy.
    """

    url: str
    options: dict[str, Any]
    linger_s: float = 0.0


def shown_address(url: str) -> str:
    """Return an address as logs and errors may show it: without user name and password."""
    return re.sub(r"://[^/]*@", "://…@", url)


def store_path(url: str) -> str:
    """Return the path in the address of a SQLite store, relative or (``sqlite:////abs``) absolute.

    It is taken as it is written: a space is a space, and ``%20`` is three characters. Raises ContractError
    for an address that is none.
    """
    if not url.startswith(SQLITE):
        raise ContractError("store address", f"expected sqlite:///path, got {shown_address(url)!r}")
    path = url.removeprefix(SQLITE) or _DEFAULT_FILE
    if "\0" in path:
        raise ContractError("store address", f"a path has no NUL character, got {url!r}")
    if path != _MEMORY and Path(path).is_dir():
        raise ContractError("store address", f"{path} is a folder; name a file in it")
    # Some builds of SQLite take a name like this for an address of their own.
    return f"./{path}" if path.startswith("file:") else path


def open_store(url: str, *, clock: Callable[[], int] | None = None) -> Store:
    """Open the store at ``sqlite:///path`` (``sqlite:///:memory:`` for one process).

    `clock` returns milliseconds since the epoch, and is for tests. Raises ContractError for an address that
    is none and for a file that is not ours or is of a newer version, Unavailable where the file cannot be
    used now.
    """
    path = store_path(url)
    return SqliteStore(path, clock=clock) if clock else SqliteStore(path)


def transport_of(store_url: str, transport_url: str = "") -> Transport:
    """Return the transport of the doorbells; the default beside a SQLite file is a folder next to it.

    ``memory://`` serves one process, ``filesystem://FOLDER`` the processes of one machine. Nothing is
    made here: the folder comes with the first message. Raises ContractError for an address that is none.
    """
    if transport_url.startswith("memory:"):
        return _within(store_path(store_url))
    if transport_url in ("", "filesystem://"):
        path = store_path(store_url)
        return _within(path) if path == _MEMORY else _beside(Path(f"{path}.bells"))
    if transport_url.startswith("filesystem://"):
        return _beside(Path(transport_url.removeprefix("filesystem://")))
    raise ContractError(
        "transport address", f"expected memory:// or filesystem://, got {shown_address(transport_url)!r}"
    )


def _within(path: str) -> Transport:
    """One process: those who use one file meet, and every store in memory is alone."""
    return Transport(memory.alone() if path == _MEMORY else memory.shared(str(Path(path).resolve())), {})


def _beside(path: Path) -> Transport:
    options = folder.options_of(path.absolute())
    return Transport(f"{folder.SCHEME}://localhost", options, linger_s=0.05)


def open_doorbell(transport: Transport) -> Doorbell:
    """Return a doorbell on a transport."""
    return KombuDoorbell(transport.url, transport.options) if transport.url else SilentDoorbell()


@dataclass(frozen=True, slots=True)
class App:
    """A store, its transport, and the controller on both."""

    store: Store
    transport: Transport
    doorbell: Doorbell
    controller: Controller

    def close(self) -> None:
        """Let go of everything; a second time does nothing."""
        self.controller.close()
        if isinstance(self.doorbell, KombuDoorbell):
            self.doorbell.close()
        memory.forget(self.transport.url)
        self.store.close()


def compose(
    store_url: str,
    transport_url: str = "",
    *,
    clock: Callable[[], int] | None = None,
    patience_s: float = PATIENCE_S,
    events: str = "",
) -> App:
    """Open a store and a transport, and put a controller on them.

    `patience_s` is how long a command is tried again while the store does not answer (seconds); `events` is
    the exchange on which sessions are told of that are opened here. Raises ContractError where that cannot be
    its name, and as `open_store` and `transport_of` do.
    """
    if events:
        check_name(events, what="events")
    transport = transport_of(store_url, transport_url)
    store = open_store(store_url, clock=clock)
    doorbell = open_doorbell(transport)
    return App(store, transport, doorbell, Controller(store, doorbell, patience_s=patience_s, events_to=events))


def when_there(what: str, attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Do `attempt`; while the store is away, again with jittered waits, for ever, and say so in the log.

    For services, which may be started before their store is there. Returns False as soon as `stop` is set,
    also where an attempt hangs (a locked file: a minute); raises what else `attempt` raises.
    """
    longest = _AGAIN_FIRST
    while not stop.is_set():
        try:
            return _attended(attempt, stop)
        except Unavailable as error:
            pause = longest * random.uniform(0.5, 1.0)  # noqa: S311 - spreads load, guards nothing
            _log.warning(f"{what}.store_away", error=str(error), again_s=round(pause, 2))
            stop.wait(pause)
            longest = min(2 * longest, _AGAIN_MOST)
    return False


def _attended(attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Do `attempt` in a thread that is left alone once `stop` is set; returns whether it came to its end."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            future.set_result(attempt())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name="passdown-opening", daemon=True).start()
    while not stop.is_set():
        if wait([future], _LOOK_EVERY).done:
            future.result()
            return True
    return False
