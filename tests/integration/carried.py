"""A site whose doorbells go over a real transport: a worker, a tick, and short sessions."""

import json
import subprocess
import time
from typing import Any

from passdown.broker.client import Broker, Session
from passdown.contracts.plans import Grant
from tests.integration.pools import spec_of
from tests.integration.site import PASSDOWN, Site, one_stage, wait_until

#: Within so many seconds a pool consumes again once its transport is back.
BACK_WITHIN_S = 5.0


class Carried:
    """A site on a transport. Its tick and its worker write their health into its folder."""

    def __init__(self, site: Site, url: str) -> None:
        self.site = site
        self.url = url
        self.broker = Broker.connect(site.store, transport=url, by="user:producer")
        self._ref = self.broker.register(
            one_stage("look", "searcher", tools=[Grant(tool="search.orders")], lease_seconds=10.0)
        )
        self._count = 0

    def worker(self, url: str = "", **more: Any) -> "subprocess.Popen[bytes]":
        """Start a worker, over `url` where that is named."""
        more = {"transport": url or self.url, "health_file": self.health_file("worker"), **more}
        return self.site.start("passdown.broker.worker", spec_of(self.site, "searcher", **more))

    def tick(self) -> "subprocess.Popen[bytes]":
        """Start a tick."""
        more = ("--transport", self.url, "--set", f"health_file={self.health_file('tick')}")
        return self.site.passdown(*more, "tick")

    def health_file(self, kind: str) -> str:
        """Return where a process says how it is."""
        return str(self.site.folder / f"{kind}.health")

    def health(self, kind: str, within: str = "5s") -> tuple[int, dict[str, Any]]:
        """Ask the command line about a process; returns its exit code, and what it said."""
        said = self.site.folder / f"{kind}.said"
        with said.open("wb") as out:
            asked = subprocess.run(
                [PASSDOWN, "health", self.health_file(kind), "--within", within, "--json"],
                stdout=out,
                check=False,
                timeout=30,
            )
        text = said.read_text()
        return asked.returncode, json.loads(text) if text else {}

    def submit(self, count: int = 1) -> list[Session]:
        """Open sessions."""
        begin, self._count = self._count, self._count + count
        return [
            self.broker.submit(self._ref, key=f"k{n}", inputs={"order": f"o{n}"})
            for n in range(begin, self._count)
        ]

    def done(self, sessions: list[Session], within_s: float = BACK_WITHIN_S) -> float:
        """Wait until all have ended well; returns how long that took (seconds)."""
        began = time.monotonic()
        wait_until(
            lambda: all(one.status() == "done" for one in sessions),
            f"all {len(sessions)} sessions are done\n{self.site.log()[-3000:]}",
            within_s,
        )
        return time.monotonic() - began

    def warm(self) -> None:
        """Start a tick, and wait until the worker works: before its first start nobody has registered its tools."""
        self.tick_process = self.tick()
        self.done(self.submit(), 30)
