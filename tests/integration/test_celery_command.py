"""Workers that are started with Celery's own command, on a real Redis as its broker."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kombu
import pytest

from tests.integration.pools import ROUGH, family, gone, runs_in, submit
from tests.integration.proof import assert_once, assert_sound
from tests.integration.site import Site, one_stage, refund_plan, types, wait_until
from tests.servers.redis import RedisServer

CELERY = str(Path(sys.executable).with_name("celery"))
POOLS = pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])


class CelerySite(Site):
    """A site whose doorbells go over a Redis server, to workers of Celery's command."""

    def __init__(self, folder: Path, transport: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, transport=transport)
        for name, value in {
            "PASSDOWN_STORE": self.store,
            "PASSDOWN_TRANSPORT": transport,
            "PASSDOWN_MODULES": f"{self.desk},{ROUGH}",
            "PASSDOWN_WORKER_GRACE": "500ms",
            "THEIR_BROKER": transport.partition("?")[0],
        }.items():
            monkeypatch.setenv(name, value)

    def celery(self, app: str, *argv: str) -> "subprocess.Popen[bytes]":
        """Start a worker; Celery warns of the superuser, whom tests may run as."""
        environment = ("/usr/bin/env", "PYTHONWARNINGS=default")
        return self.run(*environment, CELERY, "-A", app, "worker", "--concurrency", "2", *argv)


@pytest.fixture
def site(tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[CelerySite]:
    made = CelerySite(tmp_path, redis_server.url(), monkeypatch)
    yield made
    made.close()


@pytest.fixture
def theirs(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[CelerySite]:
    """A site whose doorbells lie where an application of others looks: without a prefix."""
    made = CelerySite(tmp_path, f"{redis_server.url()}?prefix=", monkeypatch)
    yield made
    made.close()


@POOLS
def test_our_application_under_celerys_command(site: CelerySite, pool: str) -> None:
    site.broker.register(refund_plan())
    site.tick()
    worker = site.celery("passdown.broker.celeryapp", "--pool", pool)
    sessions = [site.broker.submit("refund", inputs={"order": f"o{n}"}) for n in range(10)]

    for session in sessions:
        assert session.result(timeout_s=60).result == "done"
        assert_once(session, site.outside)
        assert_sound(session)
    site.kill(worker, signal.SIGTERM)
    assert worker.returncode == 0


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_rule_01_told_to_stop_it_hands_back_and_ends(site: CelerySite, pool: str) -> None:
    site.broker.register(one_stage("p", "stubborn", lease_seconds=600.0))
    site.tick()
    worker = site.celery("passdown.broker.celeryapp", "--pool", pool, "-Q", "passdown.stubborn")
    session = submit(site, "p")
    runs_in(site, session)
    below = family(worker)
    site.kill(worker, signal.SIGTERM)

    assert worker.returncode == 0
    wait_until(lambda: all(map(gone, below)), "nothing of it is left")
    assert "ClaimReleased" in types(session)
    assert session.state().failures == 0


def test_a_worker_serves_the_queues_that_it_is_told(site: CelerySite) -> None:
    site.broker.register(one_stage("good", "quick"))
    site.broker.register(one_stage("other", "stubborn"))
    site.tick()
    site.celery("passdown.broker.celeryapp", "--pool", "threads", "-Q", "passdown.quick")
    other, good = submit(site, "other"), submit(site, "good")
    assert good.result(timeout_s=60).result == "done"
    assert other.status() == "queued"


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_an_application_of_others_serves_our_roles_beside_its_tasks(theirs: CelerySite, pool: str) -> None:
    theirs.broker.register(refund_plan())
    theirs.broker.register(one_stage("p", "stubborn", lease_seconds=600.0))
    theirs.tick()
    worker = theirs.celery("tests.integration.guest_app", "--pool", pool)
    session = theirs.broker.submit("refund", inputs={"order": "o"})
    assert session.result(timeout_s=60).result == "done"
    assert_once(session, theirs.outside)

    touched = theirs.folder / "touched"
    task: dict[str, Any] = {"task": "theirs.touch", "id": "1", "args": [str(touched)], "kwargs": {}}
    with kombu.Connection(os.environ["THEIR_BROKER"]) as connection:
        kombu.Producer(connection).publish(task, routing_key="celery", declare=[kombu.Queue("celery")])
    wait_until(touched.exists, "their own task runs")

    stuck = submit(theirs, "p")
    runs_in(theirs, stuck)
    worker.send_signal(signal.SIGTERM)
    wait_until(lambda: "ClaimReleased" in types(stuck), "it hands back what it holds", 30)
    (theirs.folder / "go-on").touch()
    assert worker.wait(30) == 0
    assert "guest.other_broker" not in theirs.log()


def test_doorbells_that_come_in_elsewhere_are_said(site: CelerySite) -> None:
    """The doorbells have a prefix, and the queues of that application have none."""
    site.celery("tests.integration.guest_app", "--pool", "threads")
    wait_until(lambda: "guest.other_broker" in site.log(), "it is said", 30)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PASSDOWN_MODULES", "", "it needs its agents"),
        ("PASSDOWN_MODULES", "no_such_module", "no_such_module cannot be imported"),
        ("PASSDOWN_ROLES", "nobody", "no agent for nobody"),
    ],
)
def test_rule_11_what_cannot_work_is_said_at_once(
    site: CelerySite, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, said: str
) -> None:
    monkeypatch.setenv(variable, value)
    worker = site.celery("passdown.broker.celeryapp", "--pool", "threads")
    assert worker.wait(60) != 0
    assert said in site.log()


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_rule_10_without_the_token_that_is_needed_it_ends(
    site: CelerySite, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    monkeypatch.setenv("PASSDOWN_ACCESS", "tokens")
    worker = site.celery("passdown.broker.celeryapp", "--pool", pool)
    assert worker.wait(60) != 0
    assert "this store asks for a token" in site.log()
