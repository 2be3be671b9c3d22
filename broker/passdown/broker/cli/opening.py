"""From the command line to settings and a broker."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from passdown.broker.access.acting import AccessMode, acting_on, token_of
from passdown.broker.access.policy import Verb
from passdown.broker.app import SQLITE, App, Transport, open_doorbell, open_store, transport_of
from passdown.broker.cli.frame import Frame
from passdown.broker.client import Broker, me
from passdown.broker.controller import Controller
from passdown.broker.joins.followups import FollowUps
from passdown.broker.joins.service import JoinService
from passdown.broker.logs import set_up_logs
from passdown.broker.settings import Loaded, Settings, load
from passdown.broker.stores.base import Store
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
def opened(frame: Frame, verb: Verb, *, create: bool = False, ring: bool = False) -> Generator[Broker]:
    """Open the broker for one command, for somebody who may do `verb` at all (rule 10).

    What they may do it to is asked of each thing. With `create` a store is made where there is none; with `ring` it
    has a doorbell. Raises Denied, and NotFound where there is no store: looking for something must not leave an empty
    database behind.
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
        access = cast("AccessMode", settings.access)
        app = App(store, transport, doorbell, controller, settings.accept_effect_loss, access)
        broker = Broker(app, settings.principal or None, token=token_of(settings))
        broker.acting.require(verb)
    except BaseException:
        store.close()
        raise
    with broker:
        yield broker


def allowed_store(settings: Settings, verb: Verb) -> Store:
    """Open a store that is there for somebody who may do `verb`; raises Denied."""
    store = open_store(settings.store)
    try:
        acting_on(
            store,
            principal=settings.principal or me(),
            named=bool(settings.principal),
            token=token_of(settings),
            embedded=settings.store.startswith(SQLITE),
            mode=cast("AccessMode", settings.access),
        ).require(verb)
    except BaseException:
        store.close()
        raise
    return store


def require_store(settings: Settings, *, create: bool) -> None:
    """Raise NotFound where there is no store and none is to be made, ContractError where it would be nobody else's."""
    if settings.store == _MEMORY:
        raise ContractError("store", "one in memory ends with this process; only `up` and `demo` can use it")
    path = Path(settings.store.removeprefix(SQLITE) or "passdown.db")
    if not create and settings.store.startswith(SQLITE) and not path.exists():
        raise NotFound("store", str(path), "`passdown up` makes one; --store names another")
