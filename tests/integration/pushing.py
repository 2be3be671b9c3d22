"""What the tests of push delivery share: a tick on a real transport, and workers that know nothing of our Python."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import amqp

from passdown.broker.client import Broker, Session
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.plans import Backoff, Plan
from tests.integration.site import Site, one_stage, wait_until

ROLE = "translator"
FOREIGN = Path(__file__).parent / "foreign"
JSON = "application/json"


class Push:
    """A site whose tick pushes over a transport."""

    def __init__(self, site: Site, url: str) -> None:
        self.site = site
        self.url = url
        self.broker = Broker.connect(site.store, transport=url, by="user:producer")
        self._connections: list[amqp.Connection] = []

    def tick(self, *more: str) -> subprocess.Popen[bytes]:
        """Start a tick."""
        return self.site.passdown("--transport", self.url, *more, "tick")

    def over_amqp(self, behaviour: str = "honest") -> subprocess.Popen[bytes]:
        """Start a worker over AMQP."""
        address, vhost = server_of(self.url)
        return self.site.run(sys.executable, str(FOREIGN / "over_amqp.py"), address, vhost, ROLE, behaviour)

    def over_redis(self) -> subprocess.Popen[bytes]:
        """Start a worker over Redis."""
        return self.site.run(sys.executable, str(FOREIGN / "over_redis.py"), self.url, ROLE)

    def submit(self, count: int = 1, **more: Any) -> list[Session]:
        """Open sessions of a plan whose only stage is pushed."""
        ref = self.broker.register(pushed_plan(**more))
        return [self.broker.submit(ref, key=f"{ref.digest[:6]}-{n}", inputs={"n": n}) for n in range(count)]

    def quarantined(self) -> list[QuarantineRow]:
        """Return what is in quarantine."""
        found = self.broker.app.store.find(FindQuarantine(limit=1000))
        return [row for row in found if isinstance(row, QuarantineRow)] if isinstance(found, list) else []

    def channel(self) -> amqp.Channel:
        """Return a channel of a connection of its own, once there is a pack on the queue of the role."""
        found: list[Any] = []

        def there() -> bool:
            address, vhost = server_of(self.url)
            connection = amqp.Connection(address, virtual_host=vhost, confirm_publish=True)
            connection.connect()
            self._connections.append(connection)
            found.append(connection.channel())
            try:
                declared = found[-1].queue_declare(f"passdown.push.{ROLE}", passive=True)
                return bool(declared.message_count)
            except amqp.AMQPError:
                return False  # there is no queue yet, or it is being made

        wait_until(there, "a pack on the queue of the role")
        channel: amqp.Channel = found[-1]
        return channel

    def close(self) -> None:
        """Let go."""
        for connection in self._connections:
            connection.collect()
        self.broker.close()


def pushed_plan(**more: Any) -> Plan:
    """Return a plan of one stage, which is pushed."""
    fields = {"lease_seconds": 60.0, "backoff": Backoff(first_seconds=0.05), "delivery": "push", **more}
    return one_stage("translate", ROLE, **fields)


def server_of(url: str) -> tuple[str, str]:
    """Return the server and the virtual host in an AMQP address."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}", unquote(parts.path.removeprefix("/")) or "/"


def fetch(channel: amqp.Channel, count: int, timeout_s: float = 30.0) -> list[dict[str, Any]]:
    """Fetch pushed packs as a foreign worker does."""
    got: list[dict[str, Any]] = []

    def more() -> bool:
        message = channel.basic_get(f"passdown.push.{ROLE}", no_ack=True)
        if message is not None:
            got.append(json.loads(message.body))
        return len(got) >= count

    wait_until(more, f"{count} packs on the queue", timeout_s)
    return got


def answer(message: dict[str, Any], **more: Any) -> bytes:
    """Return what a foreign worker gives back."""
    pack = message["pack"]
    bound = {name: pack[name] for name in ("sessionId", "step", "attempt", "stage")}
    given = {"spec": "passdown.return/1", "result": "done", "nextStep": None, **bound}
    keys = {"claimId": message["claimId"], "packDigest": pack["digest"]}
    return json.dumps({**given, **keys, "output": {}, **more}).encode()


def all_in(sessions: list[Session], status: str) -> bool:
    """Whether all sessions have a status."""
    return all(session.status() == status for session in sessions)
