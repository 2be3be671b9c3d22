"""A Redis server that must not be trusted with a store is refused by every process, in one line that says what to do."""

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.fixtures import StartRedis
from tests.servers.redis import RedisServer
from tests.unit.cli.conftest import Cli

AGENTS = "from passdown.agents import Done, agent\n\n\n@agent('clerk')\ndef clerk(pack, ctx):\n    return Done({})\n"
PROCESSES = [
    ("tick",),
    ("worker", "clerk", "--module", "agents.py"),
    ("up", "--module", "agents.py"),
    ("submit", "refund"),
]


@pytest.fixture(autouse=True)
def agents(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)


def refused(cli: Cli, store: str, *command: str) -> str:
    said = cli(*command, "--store", store)
    lines = [line for line in said.err.splitlines() if line.startswith("passdown: ")]
    assert (said.code, said.out, len(lines)) == (2, "", 1), said
    return lines[0]


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
def test_fault_79_a_server_that_evicts_is_refused_by_every_process(
    cli: Cli, start_redis: StartRedis, policy: str
) -> None:
    server = start_redis(maxmemory_policy=policy)
    for command in PROCESSES:
        said = refused(cli, server.url(), *command)
        assert f"maxmemory-policy is {policy}" in said
        assert "set it to noeviction, or say unsafe=eviction in the address" in said
    assert not server.client().keys(), "nothing was made there"
    accepted = cli("list", "--store", f"{server.url()}?unsafe=eviction")
    assert (accepted.code, accepted.out) == (0, "")


def test_a_server_that_keeps_nothing_is_refused_by_every_process(cli: Cli, start_redis: StartRedis) -> None:
    server = start_redis(appendonly="no")
    for command in PROCESSES:
        said = refused(cli, server.url(), *command)
        assert "it keeps nothing over a restart" in said
        assert "set appendonly to yes" in said
    found = cli("doctor", "--store", f"{server.url()}?unsafe=persistence")
    assert found.code == 6
    assert "nothing is kept over a restart" in found.out


def test_the_doctor_shows_a_refused_server_in_red(cli: Cli, start_redis: StartRedis) -> None:
    server = start_redis(maxmemory_policy="allkeys-lru")
    said = cli("doctor", "--store", server.url())
    assert said.code == 6
    assert "set it to noeviction" in said.out
    said = cli("doctor", "--store", f"{server.url()}?unsafe=eviction")
    assert said.code == 6
    assert "keys are thrown away when memory is short" in said.out


def test_the_doctor_on_redis(cli: Cli, redis_server: RedisServer) -> None:
    said = cli("doctor", "--store", redis_server.url())
    assert said.code == 0, said.out
    assert "yellow  durability" in said.out
    assert "a crash of the server may take the last second (appendfsync everysec)" in said.out
    for what in ("store kind", "eviction", "memory", "replication", "scripts", "store speed", "transport"):
        assert f"green   {what}" in said.out
    assert "redis 7." in said.out


def _answer(name: str) -> str:
    return "+PONG\r\n" if name == "PING" else f"-ERR unknown command '{name}'\r\n"


class Old:
    """Knows PING and nothing else; HELLO came with Redis 6."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            with one:
                while data := one.recv(4096):
                    # Several commands may come at once, each as *N, $LENGTH, NAME …
                    words = data.split(b"\r\n")
                    names = [words[at + 2].decode() for at, word in enumerate(words) if word.startswith(b"*")]
                    one.sendall("".join(map(_answer, names)).encode())

    def close(self) -> None:
        self._socket.close()
        self._thread.join(5)


@pytest.fixture
def old() -> Iterator[Old]:
    made = Old()
    yield made
    made.close()


def test_fault_87_a_server_without_hello_is_told_which_option_helps(cli: Cli, old: Old) -> None:
    said = refused(cli, f"redis://127.0.0.1:{old.port}/0?protocol=3", "list")
    assert "it does not speak this version of its protocol; say protocol=2 in the address" in said


def test_a_server_that_lacks_commands_is_refused_and_not_taken_for_a_bug(cli: Cli, old: Old) -> None:
    said = refused(cli, f"redis://127.0.0.1:{old.port}/0", "list")
    assert "it lacks a command that Passdown needs: is it Redis 7.0 or newer, or Valkey, in full?" in said
