"""Whoever only looks neither waits for those who write nor fails because of them."""

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest

from passdown.broker.client import Broker
from passdown.broker.stores.queries import FindQueues
from tests.integration.site import PASSDOWN, Site, one_stage

WRITE = """
import sys
from passdown.broker.client import Broker

with Broker.connect(sys.argv[1], by="user:writer", transport="memory://") as broker:
    n = 0
    while True:
        broker.submit("p", inputs={"n": n}).cancel()
        n += 1
"""


@pytest.mark.parametrize(
    "argv",
    [
        ("status", "k"),
        ("list",),
        ("tickets",),
        ("log", "k"),
        ("replay", "k"),
        ("plan", "show", "p"),
        ("tools", "list"),
    ],
    ids=lambda argv: argv[0],
)
def test_the_commands_that_look_need_no_lock(site: Site, argv: tuple[str, ...]) -> None:
    """Somebody holds the lock for writing all the while."""
    site.broker.register(one_stage("p", "nobody"))
    site.broker.submit("p", key="k")
    with closing(sqlite3.connect(site.folder / "passdown.db", isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        found = subprocess.run(
            [PASSDOWN, "--store", site.store, *argv], capture_output=True, text=True, timeout=40, check=False
        )
        writer.execute("ROLLBACK")
    assert (found.returncode, found.stderr) == (0, "")


def test_looking_while_two_processes_write(site: Site) -> None:
    site.broker.register(one_stage("p", "nobody"))
    session = site.broker.submit("p", key="k")
    writers = [site.run(sys.executable, "-c", WRITE, site.store) for _ in range(2)]
    slowest, looks = 0.0, 0
    with Broker.connect(site.store, by="user:reader", patience_s=0.1) as reader:
        ends = time.monotonic() + 4
        while time.monotonic() < ends or len(reader.sessions(limit=50)) < 50:
            began = time.monotonic()
            assert reader.session("k").status() == "queued"
            assert reader.sessions(limit=50)
            assert reader.tickets() == []
            assert reader.app.store.find(FindQueues())
            assert len(list(session.events())) == 3
            slowest = max(slowest, time.monotonic() - began)
            looks += 1
            assert time.monotonic() < ends + 60
    for writer in writers:
        assert writer.poll() is None, site.log()
        site.kill(writer, signal.SIGKILL)
    assert looks > 20
    assert slowest < 2
