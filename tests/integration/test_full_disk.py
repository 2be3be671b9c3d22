"""A disk that is full in the middle of a handoff: it is said, nothing is half-written, and it goes on once there is room."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.client import Broker
from passdown.broker.core.evolve import fold
from passdown.broker.gateway import DirectGateway
from passdown.broker.tick import Tick
from passdown.contracts.codec import encode
from passdown.contracts.errors import NotFound, Unavailable
from tests.integration.site import one_stage, types, wait_until
from tests.integration.small_disk import Disk, small_disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "small") as made:
        yield made


@pytest.fixture
def broker(disk: Disk) -> Iterator[Broker]:
    made = Broker.connect(f"sqlite:///{disk.path}/a.db", by="user:producer", patience_s=0.3)
    yield made
    disk.make_room()
    made.close()


def test_a_handoff_on_a_full_disk(disk: Disk, broker: Broker) -> None:
    runs: list[int] = []

    @agent("filler")
    def filler(pack: Any, ctx: Any) -> Done:
        runs.append(pack.attempt)
        if pack.attempt == 1:
            disk.fill()
        return Done({"text": "y" * 50_000})

    broker.register(one_stage("p", "filler", lease_seconds=0.5))
    session = broker.submit("p", key="k")
    runtime = Runtime(
        DirectGateway(broker.app.controller),
        agents=[filler],
        options=Options(linger_seconds=0.0, patience_seconds=0.5),
    )
    assert runtime.drain("filler") is False

    # What was there can be read; what could not be written is not there, not even in part.
    assert types(session) == ["SessionOpened", "StageEntered", "PackIssued", "Claimed"]
    assert encode(fold(session.events())) == encode(session.state())
    with pytest.raises(Unavailable, match="the disk or its quota is full; make room"):
        broker.submit("p", inputs={"text": "z" * 50_000}, key="other")
    with pytest.raises(NotFound):
        broker.session("other")

    disk.make_room()
    tick = Tick(broker.app.controller)
    wait_until(lambda: tick.once() and session.state().attempt == 2, "the lost attempt is issued anew")
    runtime.drain("filler")
    assert session.result(0).result == "done"
    assert runs == [1, 2]
    assert types(session).count("Returned") == 1
    assert encode(fold(session.events())) == encode(session.state())
    other = broker.submit("p", inputs={"text": "z" * 50_000}, key="other")
    assert other.status() == "queued"
    runtime.stop(1.0)
    with closing(sqlite3.connect(disk.path / "a.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def write_until_full(broker: Broker) -> None:
    for _ in range(100):
        broker.submit("p", inputs={"text": "x" * 60_000})


def test_a_tick_on_a_full_disk_says_so_and_goes_on(disk: Disk, broker: Broker) -> None:
    broker.register(one_stage("p", "nobody", deadline_seconds=0.2))
    session = broker.submit("p")
    disk.fill()
    tick = Tick(broker.app.controller)

    # The log of the database has a little room of its own at first.
    with pytest.raises(Unavailable, match="disk or its quota is full"):
        write_until_full(broker)

    disk.make_room()
    wait_until(lambda: tick.once() and session.state().over, "its deadline is seen to", 60)
    assert session.status() == "expired"
