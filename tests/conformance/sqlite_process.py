"""What the tests run in processes of their own: ``python sqlite_process.py WHAT PATH [ARGUMENT …]``.

It speaks one JSON value to a line on standard output.
"""

import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable

from passdown.broker.stores.base import Committed
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import Unavailable
from tests.conformance.building import do, done, pack, step
from tests.conformance.suite_drafts import write
from tests.conformance.suite_tickets import on_offer


def say(value: object) -> None:
    print(json.dumps(value), flush=True)  # noqa: T201 - this is how it reports


def hammer(path: str, who: str, seconds: str) -> None:
    """Move ten sessions that others move too, reading and then writing; say how many steps were written."""
    store = SqliteStore(path)
    written = 0
    turn = 0
    until = time.monotonic() + float(seconds)
    while time.monotonic() < until:
        turn += 1
        name = f"s0-{turn % 10}"
        version = store.load(name).version
        act = step(name, version, command=f"{who}/{turn}", queue=pack(attempt=version + 1))
        written += isinstance(do(store, act)[0], Committed)
    store.close()
    say(written)


def one(path: str, session_id: str) -> None:
    """Open a session with a ticket on offer and a draft, and say the version of another one that is there."""
    store = SqliteStore(path)
    done(store, step(session_id, tickets=[on_offer(session_id)]))
    write(store, b"so far", session=session_id)
    say(store.load("s0-parent").version)
    store.close()


def endless(path: str, session_id: str) -> None:
    """Move a session for ever, and say each version once it was acknowledged."""
    store = SqliteStore(path)
    version = store.load(session_id).version
    while True:
        done(store, step(session_id, version, events=2, state=b"x" * 5000, queue=pack(attempt=version + 1)))
        version += 2
        say(version)


def limited(path: str) -> None:
    """Write until the size of files allows no more; say so, lift the limit, and write again."""
    store = SqliteStore(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    version = 0
    try:
        while True:
            done(store, step("s0-a", version, state=os.urandom(20_000)))
            version += 1
    except Unavailable as error:
        say([version, store.load("s0-a").version, str(error)])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    say(done(store, step("s0-a", version)).version)
    store.close()


def fork(path: str) -> None:
    """Fork while threads write; both sides go on. Say how each side ended."""
    store = SqliteStore(path)
    stop = threading.Event()
    failed: list[str] = []

    def write(n: int) -> None:
        version = 0
        try:
            while not stop.is_set():
                done(store, step(f"s0-{n}", version))
                version += 1
                assert store.load(f"s0-{n}").version == version
        except Exception as error:  # noqa: BLE001 - reported
            failed.append(repr(error))

    threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    children: list[int] = []
    for n in range(5):
        child = os.fork()
        if child == 0:
            done(store, step(f"s0-child-{n}"))
            done(store, step(f"s0-child-{n}", store.load(f"s0-child-{n}").version))
            store.close()
            os._exit(0)
        children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    stop.set()
    for thread in threads:
        thread.join()
    store.close()
    say([statuses, failed])


def fork_memory(_: str) -> None:
    """Fork with a store in memory: the child is refused, the parent goes on."""
    store = SqliteStore(":memory:")
    done(store, step("s0-a"))
    child = os.fork()
    if child == 0:
        try:
            store.load("s0-a")
        except Unavailable as error:
            say(str(error))
        os._exit(0)
    os.waitpid(child, 0)
    say(store.load("s0-a").version)
    store.close()


WHAT: dict[str, Callable[..., None]] = {
    "hammer": hammer,
    "one": one,
    "endless": endless,
    "limited": limited,
    "fork": fork,
    "fork-memory": fork_memory,
}

if __name__ == "__main__":
    WHAT[sys.argv[1]](*sys.argv[2:])
