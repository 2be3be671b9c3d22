"""A teller that dies between publishing and noting it: ``python -m tests.integration.killing_teller STORE TRANSPORT MARKER``."""

import sys
import threading
from pathlib import Path
from typing import Any

from passdown.broker.app import open_store, transport_of
from passdown.broker.outgoing import Teller
from passdown.broker.stores.base import Put, Told
from passdown.broker.transports.carrier import Publisher
from tests.integration.killing import die_once


def main() -> None:
    """Tell until killed."""
    store_url, transport_url, marker = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    store: Any = open_store(store_url)
    inner = store.put

    def put(what: Put) -> None:
        if isinstance(what, Told):
            die_once(marker)
        inner(what)

    store.put = put
    transport = transport_of(store_url, transport_url)
    Teller(store, Publisher(transport), source="/passdown", reserve_ms=300).run(threading.Event())


if __name__ == "__main__":
    main()
