"""The one place that names concrete classes: a store from its address, a doorbell for it, and what stands on them."""

import threading
from collections.abc import Callable
from concurrent.futures import wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from passdown.broker.access.acting import AccessMode
from passdown.broker.aside import aside
from passdown.broker.backoff import backoff
from passdown.broker.controller import PATIENCE_S, QUEUE_LIMIT, Controller
from passdown.broker.doorbell import Doorbell, KombuDoorbell, SilentDoorbell
from passdown.broker.joins.followups import FollowUps
from passdown.broker.joins.service import JoinService
from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.transports import memory
from passdown.broker.transports.addresses import SQLITE, Transport, shown_address, store_path, transport_of
from passdown.contracts.errors import Unavailable
from passdown.contracts.outgoing import check_name

if TYPE_CHECKING:
    from passdown.broker.stores.redis import RedisStore

#: Waits between tries to open a store that is away (seconds): the first, and the longest.
_AGAIN_FIRST, _AGAIN_MOST = 0.25, 15.0
#: How soon a stop is heard meanwhile (seconds).
_LOOK_EVERY = 0.05

#: What others find here: the addresses are read in a module of their own.
__all__ = [
    "SQLITE",
    "App",
    "Transport",
    "compose",
    "open_doorbell",
    "open_store",
    "shown_address",
    "store_path",
    "transport_of",
    "when_there",
]

_log = structlog.get_logger("passdown")


def open_store(url: str, *, clock: Callable[[], int] | None = None) -> Store:
    """Open the store at ``sqlite:///path`` (``sqlite:///:memory:`` for one process), or on a Redis server.

    That is ``redis://host:port/db``, ``rediss://…`` with TLS, or ``unix:///path``; see `stores.redis.address` for
    what may stand behind a question mark (``shards=4&prefix=team&timeout=5``). `clock` returns milliseconds since
    the epoch, and is for tests. Raises ContractError for an address that is none, for a file that is not ours or is
    of a newer version, and for a server that could lose what it is given; Unavailable where the file cannot be used,
    or the server does not answer, now.
    """
    if url.startswith(("redis://", "rediss://", "unix://")):
        return _redis_store()(url, clock=clock)
    path = store_path(url)
    return SqliteStore(path, clock=clock) if clock else SqliteStore(path)


def _redis_store() -> "type[RedisStore]":
    """Return the class that only a store on a server needs: to load it takes longer than many a command on a file."""
    from passdown.broker.stores.redis import RedisStore  # noqa: PLC0415

    return RedisStore


def open_doorbell(transport: Transport) -> Doorbell:
    """Return a doorbell on a transport."""
    return KombuDoorbell(transport) if transport.url else SilentDoorbell()


@dataclass(frozen=True, slots=True)
class App:
    """A store, its transport, and the controller on both."""

    store: Store
    transport: Transport
    doorbell: Doorbell
    controller: Controller
    #: Whether plans may write in a way that a store which loses its last moments may repeat (DESIGN §6).
    accept_effect_loss: bool = False
    #: Where a token is needed (`passdown.broker.access.acting`).
    access: AccessMode = "auto"

    @property
    def embedded(self) -> bool:
        """Whether the store is one file: whoever can open that can do everything to it."""
        return isinstance(self.store, SqliteStore) or not isinstance(self.store, _redis_store())

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
    queue_limit: int = QUEUE_LIMIT,
    accept_effect_loss: bool = False,
    access: AccessMode = "auto",
) -> App:
    """Open a store and a transport, and put a controller on them.

    `patience_s` is how long a command is tried again while the store does not answer (seconds); `events` is
    the exchange on which sessions are told of that are opened here; `queue_limit`, `accept_effect_loss` and `access`
    are the settings. Raises ContractError where that cannot be an exchange's name, and as `open_store` and
    `transport_of` do.
    """
    if events:
        check_name(events, what="events")
    transport = transport_of(store_url, transport_url)
    store = open_store(store_url, clock=clock)
    doorbell = open_doorbell(transport)
    controller = Controller(store, doorbell, patience_s=patience_s, events_to=events, queue_limit=queue_limit)
    controller.afterwards = FollowUps(JoinService(controller))
    return App(store, transport, doorbell, controller, accept_effect_loss, access)


def when_there(what: str, attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Do `attempt`; while the store is away, again with jittered waits, for ever, and say so in the log.

    For services, which may be started before their store is there. Returns False as soon as `stop` is set,
    also where an attempt hangs (a locked file: a minute); raises what else `attempt` raises.
    """
    failures = 0
    while not stop.is_set():
        try:
            return _attended(attempt, stop)
        except Unavailable as error:
            failures += 1
            pause = backoff(failures, _AGAIN_FIRST, _AGAIN_MOST)
            _log.warning(f"{what}.store_away", error=str(error), again_s=round(pause, 2))
            stop.wait(pause)
    return False


def _attended(attempt: Callable[[], None], stop: threading.Event) -> bool:
    """Do `attempt` in a thread that is left alone once `stop` is set; returns whether it came to its end."""
    future = aside(attempt, "passdown-opening")
    while not stop.is_set():
        if wait([future], _LOOK_EVERY).done:
            future.result()
            return True
    return False
