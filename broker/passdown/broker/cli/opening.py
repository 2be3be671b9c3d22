"""From the command line to settings and a broker."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from passdown.broker.app import SQLITE, App, Transport, open_doorbell, open_store, transport_of
from passdown.broker.cli.frame import Frame
from passdown.broker.client import Broker, me
from passdown.broker.controller import Controller
from passdown.broker.joins.followups import FollowUps
from passdown.broker.joins.service import JoinService
from passdown.broker.logs import set_up_logs
from passdown.broker.settings import Loaded, Settings, load
from passdown.contracts.errors import ContractError, NotFound

_MEMORY = f"{SQLITE}:memory:"


def load_settings(frame: Frame) -> Loaded:
    """Return the settings of this command line, and set up logs as they say."""
    loaded = load(frame.flags, config=frame.config)
    set_up_logs(loaded.settings.log_level, loaded.settings.log_format)
    # A folder has no host name, and kombu complains about that at each ring.
    logging.getLogger("kombu.connection").setLevel(logging.ERROR)
    return loaded


@contextmanager
def opened(frame: Frame, *, create: bool = False, ring: bool = False) -> Generator[Broker]:
    """Open the broker for one command. With `create` a store is made where there is none; with `ring` it has a doorbell.

    Raises NotFound where there is no store: looking for something must not leave an empty database behind.
    """
    settings = load_settings(frame).settings
    require_store(settings, create=create)
    store = open_store(settings.store)
    try:
        transport = transport_of(settings.store, settings.transport) if ring else Transport("", {})
        doorbell = open_doorbell(transport)
        controller = Controller(
            store,
            doorbell,
            patience_s=settings.store_patience_s,
            events_to=settings.events,
            queue_limit=settings.queue_limit,
        )
        controller.afterwards = FollowUps(JoinService(controller))
        app = App(store, transport, doorbell, controller, settings.accept_effect_loss)
        broker = Broker(app, settings.principal or _me())
    except BaseException:
        store.close()
        raise
    with broker:
        yield broker


def _me() -> str:
    try:
        return me()
    except (KeyError, OSError, ImportError) as error:
        raise ContractError(
            "principal", "the operating system knows no name for you; give --as user:NAME"
        ) from error


def require_store(settings: Settings, *, create: bool) -> None:
    """Raise NotFound where there is no store and none is to be made, ContractError where it would be nobody else's."""
    if settings.store == _MEMORY:
        raise ContractError("store", "one in memory ends with this process; only `up` and `demo` can use it")
    path = Path(settings.store.removeprefix(SQLITE) or "passdown.db")
    if not create and settings.store.startswith(SQLITE) and not path.exists():
        raise NotFound("store", str(path), "`passdown up` makes one; --store names another")
