"""Whoever starts a pool for some roles has merges served, too, in whatever it runs agents."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.client import Session
from passdown.contracts.plans import FanOut, Plan, Stage
from tests.integration.proof import assert_sound
from tests.integration.site import Site, types, wait_until
from tests.servers.redis import RedisServer

MODULE = str(Path(__file__).with_name("summing.py"))
CELERY = str(Path(sys.executable).with_name("celery"))
NUMBERS = list(range(1, 8))
OUTPUTS = {
    "collect": {"results": [{"branch": str(n - 1), "outcome": "done", "output": {"n": n}} for n in NUMBERS]},
    "reduce:total": {"n": 28},
    "judge": {"n": 28},
}


def submit(site: Site, merge: str) -> Session:
    """Submit a session that fans out."""
    stages = {
        "fan": Stage(fan_out=FanOut(each="items", stage="one", merge=merge)),
        "one": Stage(role="counter"),
    }
    name = merge.replace(":", "-")
    site.broker.register(Plan(name=name, start="fan", stages=stages))
    return site.broker.submit(name, inputs={"items": NUMBERS})


def worker(site: Site, *argv: str) -> "subprocess.Popen[bytes]":
    return site.passdown("worker", "--module", MODULE, "--concurrency", "2", *argv)


@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_a_worker_of_some_roles_merges_as_well(site: Site, pool: str) -> None:
    site.tick()
    worker(site, "counter", "judge", "--pool", pool)
    sessions = {merge: submit(site, merge) for merge in OUTPUTS}
    for merge, session in sessions.items():
        assert session.result(timeout_s=60).output == OUTPUTS[merge], merge
        assert_sound(session)


def test_merges_may_be_left_to_another_worker(site: Site) -> None:
    site.tick()
    alone = worker(site, "counter", "--no-merge")
    session = submit(site, "collect")
    wait_until(lambda: types(session)[-2:] == ["Joined", "PackIssued"], "its merge waits", 60)
    site.kill(alone, signal.SIGTERM)
    assert session.status() == "queued"
    worker(site, "passdown.merge")
    assert session.result(timeout_s=60).output == OUTPUTS["collect"]


class TestCelery:
    """Started with Celery's own command."""

    @pytest.fixture
    def celery_site(
        self, tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Site]:
        made = Site(tmp_path, transport=redis_server.url())
        monkeypatch.setenv("PASSDOWN_STORE", made.store)
        monkeypatch.setenv("PASSDOWN_TRANSPORT", made.transport)
        monkeypatch.setenv("PASSDOWN_MODULES", MODULE)
        yield made
        made.close()

    @pytest.mark.parametrize("pool", ["threads", "prefork"])
    def test_our_application_merges(self, celery_site: Site, pool: str) -> None:
        celery_site.tick()
        # Celery warns of the superuser, whom tests may run as.
        environment = ("/usr/bin/env", "PYTHONWARNINGS=default", "PASSDOWN_ROLES=counter")
        app = ("-A", "passdown.broker.celeryapp", "worker", "--pool", pool, "--concurrency", "2")
        celery_site.run(*environment, CELERY, *app)
        for merge in ("collect", "reduce:total"):
            assert submit(celery_site, merge).result(timeout_s=60).output == OUTPUTS[merge]
