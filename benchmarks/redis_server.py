"""A private Redis server for a benchmark: append-only file, synced every second, nothing evicted."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

_START_WITHIN_S = 10.0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a server in a folder of its own; yields its address without a database number."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise SystemExit("this benchmark needs redis-server (Debian's package of that name)")
    port = _free_port()
    settings = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
        "--save",
        "",
        "--maxmemory-policy",
        "noeviction",
    ]
    place = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder)]
    server = subprocess.Popen([binary, *place, *settings], stdout=subprocess.DEVNULL)
    try:
        _wait(port)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait(port: int) -> None:
    ends = time.monotonic() + _START_WITHIN_S
    with redis.Redis(port=port) as client:
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.02)
            else:
                return
