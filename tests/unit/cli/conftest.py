"""Fixtures of the tests of the command line."""

import io
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import structlog

from passdown.broker.cli.root import run
from tests.unit.cli.desk import Desk
from tests.unit.cli.workshop import Workshop


class Said(NamedTuple):
    """What a command line left behind."""

    code: int
    out: str
    err: str


Cli = Callable[..., Said]


@pytest.fixture(autouse=True)
def logs() -> Iterator[None]:
    """A command sends its logs to its own standard error, which is gone after the test."""
    yield
    structlog.reset_defaults()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Run one command line in this process, in an empty environment and a folder of its own."""
    for name in ("PASSDOWN_STORE", "PASSDOWN_AS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)

    def call(*args: object, stdin: bytes = b"") -> Said:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        capfdbinary.readouterr()
        code = run([str(arg) for arg in args])
        sys.stdout.flush()
        said = capfdbinary.readouterr()
        return Said(code, said.out.decode(), said.err.decode())

    return call


@pytest.fixture
def at_desk(cli: Cli, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run command lines on the desk's store, as the producer."""
    monkeypatch.setenv("PASSDOWN_STORE", desk.url)
    monkeypatch.setenv("PASSDOWN_AS", "user:producer")
    return cli


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


@pytest.fixture
def in_workshop(cli: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run command lines on the workshop's store, as the producer."""
    monkeypatch.setenv("PASSDOWN_STORE", workshop.url)
    monkeypatch.setenv("PASSDOWN_AS", "user:producer")
    return cli
