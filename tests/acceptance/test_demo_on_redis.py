"""The demos over servers: a Redis store with Redis' doorbells, and with RabbitMQ's; two worker processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.demos import Demo, airline, check_odd, check_outside, check_real, demo_at, fine
from tests.acceptance.recorded_oddities import write_oddities
from tests.servers.redis import RedisServer
from tests.soaking import scaled

#: The recorded runs that `make test` plays over each transport.
FEW = 12


@pytest.fixture(params=["redis", "rabbitmq"])
def demo(request: pytest.FixtureRequest, redis_server: RedisServer, tmp_path: Path) -> Iterator[Demo]:
    """A demo on a Redis store, whose doorbells Redis or RabbitMQ carries."""
    on_redis = request.param == "redis"
    transport = redis_server.url(1) if on_redis else request.getfixturevalue("rabbitmq_url")
    with demo_at(redis_server.url(), transport, tmp_path / "own") as made:
        yield made


def _play(demo: Demo, runs: int, *more: str, timeout_s: float = 110) -> None:
    path = airline()
    policy = str(path.with_name("policy.md"))
    fine(
        demo.run(
            "--recorded", str(path), "--policy", policy, "--first", str(runs), *more, timeout_s=timeout_s
        )
    )
    check_real(demo, json.loads(path.read_bytes())[:runs])
    demo.replays()


def test_real_recorded_runs_end_as_they_did(demo: Demo) -> None:
    _play(demo, FEW)


@pytest.mark.timeout(320)
def test_recorded_runs_with_every_oddity_under_chaos(redis_server: RedisServer, tmp_path: Path) -> None:
    with demo_at(redis_server.url(), redis_server.url(1), tmp_path / "own") as demo:
        fine(demo.run("--recorded", str(write_oddities(tmp_path)), "--chaos", "7", timeout_s=300))
        check_odd(demo)
        demo.replays()


def test_the_desk_shows_every_case_in_a_new_folder(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with demo_at(redis_server.url(), redis_server.url(1)) as demo:
        shown = fine(demo.run())
        (folder,) = tmp_path.glob("passdown-demo-*")
        assert f"passdown export --store {demo.store} --folder {folder}" in shown
        check_outside(Demo(demo.store, folder=folder).export())
        demo.replays()
        # The outside's journal is in that folder: without it a write could happen again.
        refused = demo.run()
        assert refused.returncode == 2
        assert "name theirs with --folder" in refused.stderr
        fine(Demo(demo.store, demo.transport, folder).run())


@pytest.mark.soak
@pytest.mark.timeout(1300)
@pytest.mark.parametrize("chaos", ["1", "2", "3"])
def test_all_real_recorded_runs_under_chaos(demo: Demo, chaos: str) -> None:
    """About a minute each for all 100."""
    _play(demo, scaled(100, at_least=20), "--chaos", chaos, timeout_s=1200)
