"""The one place that names concrete classes: a store from its address, a doorbell for it, and what stands on them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from passdown.broker import memory
from passdown.broker.controller import Controller
from passdown.broker.doorbell import Doorbell, KombuDoorbell, SilentDoorbell
from passdown.broker.stores.base import Store
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import ContractError

SQLITE = "sqlite:///"


@dataclass(frozen=True, slots=True)
class Transport:
    """A kombu address and its options; an empty address means that nobody is rung.

    ``linger_s``: how long a drain that found its queue empty waits before it looks once more. Where a
    doorbell is as quick as a look, waiting only keeps a slot busy.
    """

    url: str
    options: dict[str, Any]
    linger_s: float = 0.0


def open_store(url: str, *, clock: Callable[[], int] | None = None) -> Store:
    """Open the store at ``sqlite:///path`` (``sqlite:///:memory:`` for one process). Raises ContractError, Unavailable."""
    if not url.startswith(SQLITE):
        raise ContractError("store address", f"expected sqlite:///path, got {url!r}")
    path = url.removeprefix(SQLITE) or "passdown.db"
    return SqliteStore(path, clock=clock) if clock else SqliteStore(path)


def transport_of(store_url: str, transport_url: str = "") -> Transport:
    """Return the transport of the doorbells; the default beside a SQLite file is a folder next to it.

    ``memory://`` serves one process; ``filesystem://`` processes on one machine.
    """
    if transport_url.startswith("memory:"):
        return Transport(f"{memory.SCHEME}://localhost", {})
    path = store_url.removeprefix(SQLITE) or "passdown.db"
    if transport_url in ("", "filesystem://"):
        if path == ":memory:":
            return Transport(f"{memory.SCHEME}://localhost", {})
        return _beside(Path(f"{path}.bells"))
    if transport_url.startswith("filesystem://"):
        return _beside(Path(transport_url.removeprefix("filesystem://")))
    raise ContractError("transport address", f"expected memory:// or filesystem://, got {transport_url!r}")


def _beside(folder: Path) -> Transport:
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    options: dict[str, Any] = {
        "data_folder_in": str(folder),
        "data_folder_out": str(folder),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    }
    return Transport("filesystem://localhost", options, linger_s=0.05)


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
        """Let go of everything."""
        if isinstance(self.doorbell, KombuDoorbell):
            self.doorbell.close()
        self.store.close()


def compose(store_url: str, transport_url: str = "", *, clock: Callable[[], int] | None = None) -> App:
    """Open a store and a transport, and put a controller on them."""
    store = open_store(store_url, clock=clock)
    transport = transport_of(store_url, transport_url)
    doorbell = open_doorbell(transport)
    return App(store, transport, doorbell, Controller(store, doorbell))
