"""Pools of worker processes over Redis: Passdown, Celery (prefork, Redis results) and Dramatiq (Redis results).

All over one Redis server that syncs its append-only file every second, two worker processes each, a trivial
agent, a pack of 2 KB and a return of 1 KB. Interleaved rounds, medians.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import redis
from bare import Bare
from figures import at_least, at_most, folder, median
from redis_server import redis_server

from passdown.broker import Broker, Submission
from passdown.broker.worker import WorkerSpec
from passdown.contracts.codec import encode
from passdown.contracts.plans import Next, Plan, Stage

ROUNDS = 3
STEPS = 5
WORKERS = 2
_HERE = Path(__file__).parent
_BIN = Path(sys.executable).parent
#: What makes a pack of 2 KB; the agents return the first 1,000 characters. Words, for what repeats takes no room.
_RANDOM = random.Random(1)
TEXT = " ".join("".join(_RANDOM.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(143))
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def one_stage() -> Plan:
    """Return the plan of a single handoff."""
    return Plan(name="one", start="only", stages={"only": Stage(role="clerk", goal=TEXT[:300])})


def chain() -> Plan:
    """Return a plan of five stages in a row."""
    stages = {
        f"s{n}": Stage(role="stepper", next=Next(to=f"s{n + 1}") if n + 1 < STEPS else Next())
        for n in range(STEPS)
    }
    return Plan(name="chain", start="s0", stages=stages)


class Passdown:
    """A producer, and worker processes on the same store."""

    def __init__(self, url: str) -> None:
        self.broker = Broker.connect(url, by="user:bench")
        for plan in (one_stage(), chain()):
            self.broker.register(plan)

    def bulk(self, count: int) -> None:
        """Submit so many handoffs, and wait until all returns are recorded."""
        work = [Submission({"x": n, "text": TEXT}) for n in range(count)]
        self._until_done(self.broker.submit_all("one", work)[-1].id)

    def chains(self, count: int) -> None:
        """Submit so many sessions of five steps, and wait for all."""
        self._until_done(self.broker.submit_all("chain", [Submission({"x": 0, "text": TEXT})] * count)[-1].id)

    def one(self) -> None:
        """Submit a handoff and wait for its result."""
        self.broker.submit("one", inputs={"x": 0, "text": TEXT}).result(30)

    def _until_done(self, last: str) -> None:
        """Wait until nothing waits or runs: every session has ended then, for none of them asks or fails."""
        self.broker.session(last).result(120)
        while any(row.ready or row.reserved or row.running for row in self.broker.queues()):
            time.sleep(0.02)


@contextmanager
def passdown(url: str) -> Iterator[Passdown]:
    """Run worker processes and a tick."""
    with workers(url, ["clerk", "stepper"], "bench_agents.py"):
        site = Passdown(url)
        try:
            yield site
        finally:
            site.broker.close()


@contextmanager
def workers(url: str, roles: list[str], module: str) -> Iterator[None]:
    """Run worker processes for some roles, with the agents of a module that lies here, and a tick."""
    # One slot in each process, as the peers' processes have: the agents only compute.
    spec = WorkerSpec(store=url, roles=roles, modules=[str(_HERE / module)], concurrency=1, log_level="error")
    with ExitStack() as running:
        for _ in range(WORKERS):
            running.enter_context(
                _process([sys.executable, "-m", "passdown.broker.worker", encode(spec).decode()])
            )
        running.enter_context(_process([_BIN / "passdown", "tick", "--store", url]))
        yield


@contextmanager
def _process(command: list[str | Path]) -> Iterator[None]:
    child = subprocess.Popen(command, cwd=_HERE, **_QUIET)
    try:
        yield
    finally:
        child.terminate()
        child.wait()


@contextmanager
def celery() -> Iterator[object]:
    """Run Celery's worker processes; yields the module of the peer's tasks."""
    import celery_peer  # noqa: PLC0415 - it reads the server's address when it is imported

    options = ["--pool", "prefork", "-c", str(WORKERS), "-l", "ERROR", "--without-gossip", "--without-mingle"]
    with _process([_BIN / "celery", "-A", "celery_peer", "worker", *options]):
        yield celery_peer


@contextmanager
def dramatiq() -> Iterator[object]:
    """Run Dramatiq's worker processes; yields the module of the peer's actors."""
    import dramatiq_peer  # noqa: PLC0415 - it reads the server's address when it is imported

    with _process([_BIN / "dramatiq", "dramatiq_peer", "--processes", str(WORKERS)]):
        yield dramatiq_peer


def celery_bulk(peer: "object", count: int) -> None:
    """Send so many tasks and wait for all results."""
    sent = [peer.handoff.delay({"x": n, "text": TEXT * 2}) for n in range(count)]
    for one in sent:
        one.get(timeout=120)


def celery_chains(peer: "object", count: int) -> None:
    """Send so many chains of five tasks and wait for all results."""
    from celery import chain as celery_chain  # noqa: PLC0415 - only where Celery is measured

    def steps() -> object:
        return celery_chain(peer.step.s({"x": 0, "text": TEXT}), *[peer.step.s() for _ in range(STEPS - 1)])

    for one in [steps().apply_async() for _ in range(count)]:
        one.get(timeout=120)


def dramatiq_bulk(peer: "object", count: int) -> None:
    """Send so many messages and wait for all results."""
    sent = [peer.handoff.send({"x": n, "text": TEXT * 2}) for n in range(count)]
    for one in sent:
        one.get_result(block=True, timeout=120_000)


def bytes_each(url: str, ours: Passdown, count: int = 500) -> float:
    """Return the memory that a finished handoff takes, over the bytes of its pack and its return."""
    with redis.Redis.from_url(url) as client:
        ours.bulk(10)
        before = client.info("memory")["used_memory"]
        ours.bulk(count)
        each = (client.info("memory")["used_memory"] - before) / count
    session = ours.broker.session(ours.broker.sessions(plan="one@1", limit=1)[0].session_id)
    returned = next(one for one in session.events() if type(one.event).__name__ == "Returned")
    sent = len(encode(session.pack(1, 1))) + len(encode(returned.event))
    print(f"a pack and its return: {sent} bytes; stored: {each:.0f}")
    return each / sent


def rate(act: Callable[[], None], count: int) -> float:
    """Return how many of `count` things that `act` does are done in a second."""
    began = time.perf_counter()
    act()
    return count / (time.perf_counter() - began)


def p50_ms(act: Callable[[], object], count: int) -> float:
    """Return the median of `count` times (milliseconds)."""
    times: list[float] = []
    for _ in range(count):
        began = time.perf_counter()
        act()
        times.append((time.perf_counter() - began) * 1000)
    return median(times)


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    bulk, chains, singles = (200, 20, 20) if quick else (5_000, 200, 200)
    rates: dict[str, list[float]] = {}
    with ExitStack() as running:
        path = running.enter_context(folder())
        url = running.enter_context(redis_server(path))
        os.environ["BENCH_REDIS"] = url
        ours = running.enter_context(passdown(f"{url}/0"))
        celery_peer = running.enter_context(celery())
        dramatiq_peer = running.enter_context(dramatiq())
        bare = Bare(f"{url}/5")
        measures: dict[str, Callable[[], float]] = {
            "bulk, passdown": lambda: rate(lambda: ours.bulk(bulk), bulk),
            "bulk, celery": lambda: rate(lambda: celery_bulk(celery_peer, bulk), bulk),
            "bulk, bare scripts": lambda: rate(lambda: bare.handoffs(bulk), bulk),
            "bulk, dramatiq": lambda: rate(lambda: dramatiq_bulk(dramatiq_peer, bulk), bulk),
            "steps, passdown": lambda: rate(lambda: ours.chains(chains), chains * STEPS),
            "steps, celery": lambda: rate(lambda: celery_chains(celery_peer, chains), chains * STEPS),
            "one (ms), passdown": lambda: p50_ms(ours.one, singles),
            "one (ms), celery": lambda: p50_ms(
                lambda: celery_peer.handoff.delay({"x": 0, "text": TEXT * 2}).get(timeout=30), singles
            ),
        }
        stored = bytes_each(f"{url}/0", ours)
        celery_bulk(celery_peer, 50)
        dramatiq_bulk(dramatiq_peer, 50)
        for _ in range(ROUNDS):
            for name, measure in measures.items():
                rates.setdefault(name, []).append(measure())
    found = {name: median(values) for name, values in rates.items()}
    for name, value in found.items():
        print(f"{name}: {value:.1f} (rounds: {', '.join(f'{one:.1f}' for one in rates[name])})")
    return [
        *at_most("Redis memory for a handoff / bytes of its pack and return", stored, 2.5),
        *at_least(
            "bulk, passdown / bare scripts", found["bulk, passdown"] / found["bulk, bare scripts"], 0.25
        ),
        *at_least("bulk, passdown / celery", found["bulk, passdown"] / found["bulk, celery"], 10.0),
        *at_least("bulk, passdown / dramatiq", found["bulk, passdown"] / found["bulk, dramatiq"], 2.5),
        *at_most(
            "one at a time, passdown / celery", found["one (ms), passdown"] / found["one (ms), celery"], 0.5
        ),
        *at_least("steps, passdown / celery", found["steps, passdown"] / found["steps, celery"], 3.0),
    ]
