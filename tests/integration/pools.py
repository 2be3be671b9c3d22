"""Workers of every kind of pool, for tests that start them on a site."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from msgspec.structs import replace

from passdown.broker.client import Session
from passdown.broker.pool import Kind
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import decode, encode
from tests.integration.site import Site, wait_until

ROUGH = str(Path(__file__).with_name("rough.py"))


def spec_of(site: Site, *roles: str, pool: Kind = "threads", **more: Any) -> str:
    """Return the specification of a worker with the agents of the site and the rough ones."""
    spec = decode(site.spec(list(roles)).encode(), WorkerSpec)
    changed = replace(spec, modules=[site.desk, ROUGH], pool=pool, **more)
    return encode(changed).decode()


def worker(site: Site, *roles: str, **more: Any) -> "subprocess.Popen[bytes]":
    """Start a worker without anybody who watches it."""
    return site.start("passdown.broker.worker", spec_of(site, *roles, **more))


def watched(site: Site, *argv: str) -> "subprocess.Popen[bytes]":
    """Start a worker as people do, with somebody who watches it."""
    return site.passdown("worker", "--module", site.desk, "--module", ROUGH, *argv)


def family(process: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    """Return all processes below one."""
    return psutil.Process(process.pid).children(recursive=True)


def gone(one: psutil.Process) -> bool:
    """Whether a process has ended."""
    return not one.is_running() or one.status() == psutil.STATUS_ZOMBIE


def submit(site: Site, plan: str, **inputs: Any) -> Session:
    """Submit a session whose agent says in the site's folder that it began."""
    return site.broker.submit(plan, inputs={"folder": str(site.folder), **inputs})


def runs_in(site: Site, session: Session, attempt: int = 1) -> int:
    """Wait until an attempt runs, and return the process in which it does."""
    said = site.folder / f"{session.id}-{attempt}"
    wait_until(lambda: said.exists() and said.read_text(), f"attempt {attempt} runs", 60)
    return int(said.read_text())


def let_go(site: Site) -> Callable[[], None]:
    """Return what lets agents that wait for a file go on."""
    return (site.folder / "go-on").touch
