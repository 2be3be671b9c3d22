"""Tokens from outside: a store that several machines share, real processes, and what each of them may do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.site import wait_until
from tests.servers.redis import RedisServer

PASSDOWN = str(Path(sys.executable).with_name("passdown"))
AGENTS = """
from passdown.agents import Done, agent

@agent("helper")
def helper(pack, ctx):
    return Done({"helped": True})
"""


class Team:
    """A folder with agents, on a Redis server; everybody brings their own token file, or none."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder = folder
        (folder / "agents.py").write_text(AGENTS)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PASSDOWN_")}
        self._env = {**kept, "PASSDOWN_STORE": store, "PASSDOWN_TRANSPORT": f"filesystem://{folder}/bells"}
        self._started: list[subprocess.Popen[str]] = []

    def _environment(self, who: str) -> dict[str, str]:
        return {**self._env, **({"PASSDOWN_TOKEN_FILE": str(self.folder / who)} if who else {})}

    def run(self, who: str, *argv: str, code: int = 0) -> str:
        """Type a command; returns what it answered, or said where it failed."""
        done = subprocess.run(
            [PASSDOWN, *argv],
            cwd=self.folder,
            env=self._environment(who),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (argv, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done.stdout or done.stderr

    def start(self, who: str, *argv: str) -> Path:
        """Start a command and go on; returns where its words go."""
        path = self.folder / f"log-{len(self._started)}"
        with path.open("w") as log:
            self._started.append(
                subprocess.Popen(
                    [PASSDOWN, *argv],
                    cwd=self.folder,
                    env=self._environment(who),
                    stdout=log,
                    stderr=log,
                    text=True,
                )
            )
        return path

    def close(self) -> None:
        """End what was started."""
        for process in self._started:
            process.terminate()
        for process in self._started:
            process.wait(timeout=30)


@pytest.fixture
def team(tmp_path: Path, redis_server: RedisServer) -> Iterator[Team]:
    made = Team(tmp_path, redis_server.url())
    yield made
    made.close()


def test_rule_10_a_store_with_tokens_serves_only_who_brings_one(team: Team) -> None:
    """From the first token to work that is done, and what everybody else is told."""
    team.run("", "token", "create", "user:root", "--role", "operator", "--to", "root")
    team.run("root", "token", "create", "service:shop", "--role", "producer", "--to", "shop")
    narrowed = ("--scope", "pack.take=role:helper")
    team.run("root", "token", "create", "service:pool", "--role", "worker", *narrowed, "--to", "pool")

    worker = ("worker", "helper", "--module", "agents.py")
    assert "this store asks for a token" in team.run("", *worker, "--no-merge", code=5)
    assert "may not pack.take role:passdown.merge" in team.run("pool", *worker, code=5)

    log = team.start("pool", *worker, "--no-merge")
    wait_until(lambda: "worker.started" in log.read_text(), "the worker is up")
    session, said = team.run("shop", "delegate", "helper", "Help.", "--wait", "--timeout", "40s").splitlines()
    assert said == f'{session} is done: {{"helped":true}}'

    ticking = team.start("", "tick")
    wait_until(lambda: "tick.started" in ticking.read_text(), "the broker itself needs no token")
    assert "access.open" not in ticking.read_text()
