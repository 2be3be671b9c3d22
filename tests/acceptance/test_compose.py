"""`compose.yaml` says what can be started: its commands are started here by hand, on servers of the test's own."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from passdown.broker.client import Broker
from passdown.broker.settings import ROWS
from tests.integration.site import wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "refund"
PASSDOWN = str(Path(sys.executable).with_name("passdown"))
SECRET = "s3cret-of-tests"
GRACE_S = 45

Service = dict[str, Any]


def compose() -> dict[str, Any]:
    """Return the file with its variables put in, as Compose does."""
    text = (ROOT / "compose.yaml").read_text()
    env = {**_example(), "REDIS_PASSWORD": SECRET, "RABBITMQ_PASSWORD": SECRET}

    def value(found: re.Match[str]) -> str:
        name, how, rest = found.groups()
        return env[name] if how == ":?" else env.get(name, rest)

    return cast("dict[str, Any]", yaml.safe_load(re.sub(r"\$\{(\w+)(:[-?])?([^}]*)\}", value, text)))


def _example() -> dict[str, str]:
    lines = (ROOT / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def services() -> dict[str, Service]:
    return cast("dict[str, Service]", compose()["services"])


def ours() -> dict[str, Service]:
    return {name: one for name, one in services().items() if "build" in one}


def test_there_are_a_store_a_transport_a_tick_and_two_pools() -> None:
    commands = [" ".join(one["command"][:2]) for one in ours().values()]
    assert sorted(commands) == ["passdown tick", "passdown worker", "passdown worker"]
    assert services().keys() - ours().keys() == {"redis", "rabbitmq"}


def test_every_service_is_watched_and_started_again() -> None:
    for name, one in services().items():
        assert one["restart"] == "unless-stopped", name
        assert one["healthcheck"]["test"][0] == "CMD", name
    for name, one in ours().items():
        waits = {other: how["condition"] for other, how in one["depends_on"].items()}
        assert waits == {"redis": "service_healthy", "rabbitmq": "service_healthy"}, name


def test_redis_keeps_everything_and_evicts_nothing() -> None:
    command = services()["redis"]["command"]
    settings = dict(zip(command[1::2], command[2::2], strict=True))
    assert settings["--maxmemory-policy"] == "noeviction"
    assert settings["--appendonly"] == "yes"
    assert settings["--appendfsync"] == "always"


def test_every_variable_is_a_setting_and_every_secret_is_in_the_example() -> None:
    known = {row.env for row in ROWS.values()}
    for one in ours().values():
        assert {name for name in one["environment"] if name.startswith("PASSDOWN_")} <= known
    asked = set(re.findall(r"\$\{(\w+):\?", (ROOT / "compose.yaml").read_text()))
    assert asked <= _example().keys()


def test_every_volume_is_declared() -> None:
    named = {
        volume.partition(":")[0]
        for one in services().values()
        for volume in one.get("volumes", [])
        if not volume.startswith(".")
    }
    assert named == compose()["volumes"].keys()


class Composed:
    """The processes of `compose.yaml`, with its hosts, folders and the command put where they are here."""

    def __init__(self, folder: Path, redis: RedisServer, rabbitmq: RabbitServer) -> None:
        self.folder = folder
        self.store, self.transport = redis.url(0), rabbitmq.url()
        self._places = {
            f"redis://:{SECRET}@redis:6379/0": self.store,
            f"amqp://passdown:{SECRET}@rabbitmq:5672//": self.transport,
            "/outside": str(folder / "outside"),
        }
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, service: str, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command as in the service's container."""
        return subprocess.run(
            self._words(service, command),
            env=self._environment(service),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def up(self) -> None:
        for name, one in ours().items():
            with (self.folder / f"{name}.log").open("wb") as log:
                self._started[name] = subprocess.Popen(
                    self._words(name, one["command"]),
                    env=self._environment(name),
                    cwd=self.folder,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def down(self) -> dict[str, int]:
        """Stop everything as Compose does; returns the exit statuses."""
        for process in self._started.values():
            process.send_signal(signal.SIGTERM)
        return {name: process.wait(GRACE_S) for name, process in self._started.items()}

    def kill(self) -> None:
        for process in self._started.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _words(self, service: str, command: list[str]) -> list[str]:
        return [self._here(service, word) for word in command]

    def _here(self, service: str, word: str) -> str:
        word = PASSDOWN if word == "passdown" else word
        word = word.replace("/run/passdown", str(self.folder / service)).replace("/srv/refund", str(EXAMPLE))
        return self._places.get(word, word)

    def _environment(self, service: str) -> dict[str, str]:
        (self.folder / service).mkdir(exist_ok=True)
        said = {name: self._here(service, value) for name, value in ours()[service]["environment"].items()}
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PASSDOWN_")}
        return {**kept, **said}


@pytest.fixture
def composed(
    tmp_path: Path, start_redis: Callable[..., RedisServer], shared_rabbitmq: RabbitServer
) -> Iterator[Composed]:
    words = services()["redis"]["command"][1:]
    settings = {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    made = Composed(tmp_path, start_redis(**settings), shared_rabbitmq)
    yield made
    made.kill()


def test_its_commands_carry_a_refund_to_its_end(composed: Composed) -> None:
    composed.up()
    for name, one in ours().items():
        check = one["healthcheck"]["test"][1:]
        wait_until(
            lambda name=name, check=check: composed.run(name, check).returncode == 0, f"{name} is healthy"
        )

    lines = [
        line.removeprefix("#   docker compose run --rm tick ")
        for line in (ROOT / "compose.yaml").read_text().splitlines()
        if "docker compose run --rm tick passdown" in line and " token " not in line
    ]
    assert [line.split()[1] for line in lines] == ["plan", "submit"]
    for line in lines:
        done = composed.run("tick", shlex.split(line))
        assert done.returncode == 0, done.stderr

    with Broker.connect(composed.store, transport=composed.transport, by="user:ann") as broker:
        (row,) = broker.sessions()
        session = broker.session(row.session_id)
        wait_until(lambda: session.status() == "waiting-human", "it waits for a person")
        (ticket,) = broker.tickets(session_id=session.id)
        session.resolve(ticket.ticket_no, "approve", version=ticket.version)
        assert session.result(30).result == "done"
        assert {effect.status for effect in session.state().effects} == {"done"}

    assert composed.down() == dict.fromkeys(ours(), 0)


def test_a_process_that_is_dead_is_said_to_be(composed: Composed) -> None:
    composed.up()
    check = ours()["analysts"]["healthcheck"]["test"][1:]
    wait_until(lambda: composed.run("analysts", check).returncode == 0, "it is healthy")
    composed.kill()
    quick = ["1s" if word == "30s" else word for word in check]
    wait_until(lambda: composed.run("analysts", quick).returncode == 6, "it is said to be dead")
