"""A pool in this process: bells become drains, packs that remain are rung for, and it ends when told."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from passdown.agents import Done, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker import pool as module
from passdown.broker.app import App, compose
from passdown.broker.client import Broker
from passdown.broker.doorbell import KombuDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.pool import Pool
from passdown.broker.transports.addresses import transport_of
from tests.integration.site import wait_until
from tests.unit.broker.rig import Bells, plan


class Drains:
    """Stands in for a runtime: says what a drain finds, and keeps how it was called."""

    def __init__(self, act: Callable[[str, Callable[[str], None]], bool] = lambda _, __: False) -> None:
        self.act = act
        self.roles: list[str] = []
        self.stopped: list[float] = []

    def drain(self, role: str, ring: Callable[[str], None]) -> bool:
        self.roles.append(role)
        return self.act(role, ring)

    def close(self) -> None:
        self.closed = True

    def stop(self, grace_s: float) -> None:
        self.stopped.append(grace_s)


class Site:
    """An app in memory with a pool whose consumer runs in a thread."""

    def __init__(self, runtime: Any, roles: list[str], concurrency: int = 4) -> None:
        self.app = compose("sqlite:///:memory:")
        self.pool = Pool(
            cast("Runtime", runtime), self.app.doorbell, self.app.transport, roles, concurrency=concurrency
        )
        self.thread = threading.Thread(target=self.pool.run)

    def close(self) -> None:
        self.pool.stop(1.0)
        if self.thread.ident:
            self.thread.join(10)
            assert not self.thread.is_alive()
        self.app.close()


@pytest.fixture
def site() -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def start(runtime: Any, *roles: str, **more: Any) -> Site:
        made.append(Site(runtime, list(roles or ("desk",)), **more))
        made[-1].thread.start()
        return made[-1]

    yield start
    for one in made:
        one.close()


class TestDrains:
    """Without a consumer: what one answered bell leads to."""

    def pool(self, runtime: Any, concurrency: int = 2) -> tuple[Pool, Bells]:
        bells = Bells()
        transport = compose("sqlite:///:memory:").transport
        return Pool(cast("Runtime", runtime), bells, transport, ["desk"], concurrency=concurrency), bells

    def test_where_packs_remain_it_rings_on(self) -> None:
        for more in (True, False):
            pool, bells = self.pool(Drains(lambda _, __, more=more: more))
            pool.drain("desk")
            assert bells.rung == ["desk"] * more

    def test_it_rings_during_a_drain_only_where_slots_sleep(self) -> None:
        def act(role: str, ring: Callable[[str], None]) -> bool:
            ring(role)
            return False

        for concurrency, rung in ((1, []), (2, ["desk"])):
            pool, bells = self.pool(Drains(act), concurrency)
            pool.drain("desk")
            assert bells.rung == rung

    @pytest.mark.parametrize("role", ["other", "", None, 5, {"a": 1}, ["desk"]])
    def test_rule_11_a_role_that_it_does_not_serve_is_said_and_left(self, role: Any) -> None:
        drains = Drains()
        pool, bells = self.pool(drains)
        with structlog.testing.capture_logs() as said:
            pool.drain(role)
        assert [one["event"] for one in said] == ["pool.foreign_role"]
        assert drains.roles == bells.rung == []

    def test_a_drain_that_breaks_gives_its_slot_back(self) -> None:
        def act(_: str, __: object) -> bool:
            raise KeyError("x")

        pool, _ = self.pool(Drains(act))
        for _ in range(3):
            with pytest.raises(KeyError):
                pool.drain("desk")
        slots = cast("Any", vars(vars(pool)["_answers"])["_slots"])
        assert slots.spare


class TestConsumer:
    def test_each_role_is_drained_at_the_start_and_when_it_is_rung_for(
        self, site: Callable[..., Site]
    ) -> None:
        drains = Drains()
        made = site(drains, "desk", "clerk")
        wait_until(lambda: sorted(drains.roles) == ["clerk", "desk"], "both were drained once")
        made.app.doorbell.ring("clerk")
        wait_until(lambda: drains.roles.count("clerk") == 2, "the clerk was drained again")
        made.app.doorbell.ring("other")
        assert drains.roles.count("desk") == 1

    def test_a_drain_that_breaks_does_not_stop_the_next(self, site: Callable[..., Site]) -> None:
        def act(_: str, __: object) -> bool:
            raise (KeyError("x") if len(drains.roles) % 2 else SystemExit(3))

        drains = Drains(act)
        made = site(drains, concurrency=1)
        for n in range(1, 8):
            wait_until(lambda n=n: len(drains.roles) >= n, f"drain {n}")
            made.app.doorbell.ring("desk")

    def test_a_consumer_that_ends_by_itself_is_started_again(
        self, site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_RESTART_FIRST", 0.01)
        drains = Drains()
        made = site(drains)
        for ended in range(1, 4):
            wait_until(lambda ended=ended: len(drains.roles) >= ended, "it consumes")
            vars(made.pool)["_worker"].stop()
        wait_until(lambda: len(drains.roles) >= 4, "it consumes again")

    def test_one_that_cannot_start_is_tried_again_with_longer_waits(
        self, site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tries: list[float] = []

        def consume(_: Pool) -> None:
            tries.append(time.monotonic())

        monkeypatch.setattr(module, "_RESTART_FIRST", 0.02)
        monkeypatch.setattr(Pool, "_consume", consume)
        site(Drains())
        wait_until(lambda: len(tries) >= 5, "five tries")
        gaps = [after - before for before, after in pairwise(tries)]
        assert all(gap >= 0.02 * 2**n for n, gap in enumerate(gaps))

    def test_two_pools_of_one_role_in_one_process_serve_each_its_own(self, site: Callable[..., Site]) -> None:
        one, two = Drains(), Drains()
        first, second = site(one), site(two)
        wait_until(lambda: one.roles and two.roles, "both were drained")
        for _ in range(3):
            before = len(one.roles)
            first.app.doorbell.ring("desk")
            wait_until(lambda before=before: len(one.roles) > before, "the first was drained")
        assert len(two.roles) == 1
        second.app.doorbell.ring("desk")
        wait_until(lambda: len(two.roles) == 2, "the second was drained")


class TestStop:
    def test_what_runs_is_given_its_time(self, site: Callable[..., Site]) -> None:
        drains = Drains()
        made = site(drains)
        made.pool.stop(3.5)
        assert drains.stopped == [3.5]
        made.thread.join(10)
        assert not made.thread.is_alive()

    def test_in_every_moment_of_its_start(self, site: Callable[..., Site]) -> None:
        """Celery ignores a stop that comes before its consumer runs; the process would go on for ever."""
        chance = random.Random(7)
        for n in range(12):
            made = site(Drains())
            time.sleep(chance.uniform(0, 0.12) if n else 0)
            began = time.monotonic()
            made.pool.stop(0.1)
            made.thread.join(10)
            assert not made.thread.is_alive()
            assert time.monotonic() - began < 4

    def test_before_it_was_started_and_twice(self) -> None:
        made = Site(Drains(), ["desk"])
        made.pool.stop(0.1)
        made.pool.stop(0.1)
        made.thread.start()
        made.close()

    def test_an_agent_that_never_ends_does_not_keep_it(self, site: Callable[..., Site]) -> None:
        inside, go_on = threading.Event(), threading.Event()

        def hang(_: str, __: object) -> bool:
            inside.set()
            return go_on.wait(60)

        made = site(Drains(hang))
        assert inside.wait(10)
        began = time.monotonic()
        made.pool.stop(0.1)
        made.thread.join(10)
        assert not made.thread.is_alive()
        assert time.monotonic() - began < 4
        go_on.set()

    def test_bells_that_were_heard_and_not_answered_are_rung_for_others(self, tmp_path: Path) -> None:
        app = compose(f"sqlite:///{tmp_path}/a.db")
        pool = Pool(cast("Runtime", Drains()), app.doorbell, app.transport, ["desk"])
        pool.stop(0.1)
        assert len(list((tmp_path / "a.db.bells").glob("*.passdown.desk.msg"))) == 1
        app.close()


@agent("desk")
def helpful(pack: Any, ctx: Any) -> Done:
    """Be done."""
    return Done({"n": pack.inputs["n"]})


@pytest.mark.parametrize("transport", ["memory://", ""], ids=["memory", "folder"])
def test_sessions_go_through_it(tmp_path: Path, transport: str) -> None:
    app: App = compose(f"sqlite:///{tmp_path}/a.db", transport)
    assert isinstance(app.doorbell, KombuDoorbell)
    broker = Broker(app, "user:producer")
    broker.register(plan(role="desk"))
    waiting = [broker.submit("p", inputs={"n": n}) for n in range(10)]
    runtime = Runtime(
        DirectGateway(app.controller),
        agents=[helpful],
        options=Options(linger_seconds=app.transport.linger_s),
    )
    pool = Pool(runtime, app.doorbell, app.transport, ["desk"], concurrency=2)
    thread = threading.Thread(target=pool.run)
    thread.start()
    later = [broker.submit("p", inputs={"n": n}) for n in range(10, 20)]
    assert [one.result(30).output["n"] for one in waiting + later] == list(range(20))
    pool.stop(1.0)
    thread.join(10)
    broker.close()


def test_rule_01_no_thread_of_the_pool_reads_the_consumer_s_connection() -> None:
    """With Celery's default they set the prefetch count after a lost connection, and wait for the answer."""
    app: Any = module.celery_app(transport_of("sqlite:///a.db"), ["desk"])
    assert app.conf.worker_enable_prefetch_count_reduction is False
