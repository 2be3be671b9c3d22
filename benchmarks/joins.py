"""Fan-outs and joins: Passdown, Celery's chord, Dramatiq's group with a completion callback, LangGraph's `Send`.

The branches are trivial, the join collects what they gave. Passdown, Celery (Redis results) and Dramatiq (Redis
results; its callback fetches them) have two worker processes each, over one Redis server that syncs its append-only
file every second; so has Passdown on SQLite (``synchronous=FULL``). LangGraph (SQLite saver, `sync`) runs in this
process, as its users would have it. Interleaved rounds, medians.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import redis
from figures import at_least, at_most, folder, median
from graphs import joins_in
from pools import celery, dramatiq, workers
from redis_server import redis_server

from passdown.broker import Broker, Session, Submission
from passdown.contracts.plans import MERGER, FanOut, Plan, Stage

ROUNDS = 5
BRANCHES = 20
_WITHIN_S = 600
_LOOK_S = 0.01

Run = Callable[[int, int], None]


def fan() -> Plan:
    """Return the plan: a branch for each item, and all that they gave as the outcome."""
    fan_out = FanOut(each="items", stage="judge", most=100_000)
    return Plan(
        name="fan", start="split", stages={"split": Stage(fan_out=fan_out), "judge": Stage(role="judge")}
    )


def items(count: int) -> list[dict[str, int]]:
    """Return what branches are given."""
    return [{"x": n} for n in range(count)]


class Passdown:
    """A producer of joins; its workers run elsewhere."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        broker.register(fan())

    def joins(self, count: int, branches: int) -> None:
        """Submit so many sessions, and wait until each has its outcome."""
        work = [Submission({"items": items(branches)}) for _ in range(count)]
        for session in reversed(self._broker.submit_all("fan", work)):
            _require(_outcome(session)["results"], branches)

    def group(self, branches: int) -> None:
        """Run one session whose list is too long for its inputs, and wait for its outcome."""
        session = self._broker.submit("fan", lists={"items": items(branches)})
        results = _outcome(session)["results"]
        # Over the budget of a return the merge refers to what it would have collected.
        if isinstance(results, list):
            _require(results, branches)
        elif results["branches"] != branches:
            raise AssertionError("a join lacks branches")


def _outcome(session: Session) -> Any:
    """Wait until a session has ended: `result` looks each quarter of a second in the end, which is much of what is measured."""
    ends = time.monotonic() + _WITHIN_S
    while not (state := session.state()).over and time.monotonic() < ends:
        time.sleep(_LOOK_S)
    if state.outcome is None:
        raise AssertionError(f"after {_WITHIN_S} s it is {state.shown_status}")
    return state.outcome.output


def _require(results: Any, branches: int) -> None:
    if len(results) != branches:
        raise AssertionError(f"a join of {branches} branches gave {len(results)}")


def celery_joins(peer: Any) -> Run:
    """Return what sends so many chords and waits for all results."""
    from celery import chord  # noqa: PLC0415 - only where Celery is measured

    def run(count: int, branches: int) -> None:
        sent = [chord([peer.judge.s(one) for one in items(branches)])(peer.gather.s()) for _ in range(count)]
        for one in sent:
            _require(one.get(timeout=_WITHIN_S)["results"], branches)

    return run


def dramatiq_joins(peer: Any) -> Run:
    """Return what sends so many groups and waits for the results of their callbacks."""
    from dramatiq import group  # noqa: PLC0415 - only where Dramatiq is measured

    def run(count: int, branches: int) -> None:
        ends: list[Any] = []
        for _ in range(count):
            sent = [peer.judge.message(one) for one in items(branches)]
            ends.append(peer.gather.message([one.asdict() for one in sent]))
            group_of = group(sent)
            group_of.add_completion_callback(ends[-1])
            group_of.run()
        for one in ends:
            _require(one.get_result(block=True, timeout=_WITHIN_S * 1000)["results"], branches)

    return run


def seconds(act: Callable[[], None]) -> float:
    """Return how long `act` takes."""
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def measured(measures: dict[str, Callable[[], float]], rounds: int, unit: str) -> dict[str, float]:
    """Return the median of each over interleaved rounds, and print them."""
    found: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            found[name].append(measure())
    for name, values in found.items():
        print(f"{name}: {median(values):.4g} {unit} (rounds: {', '.join(f'{one:.4g}' for one in values)})")
    return {name: median(values) for name, values in found.items()}


def compare_joins(contenders: dict[str, Run], count: int, rounds: int) -> dict[str, float]:
    """Return joins of 20 branches per second."""

    def rate(run: Run) -> Callable[[], float]:
        return lambda: count / seconds(lambda: run(count, BRANCHES))

    return measured({name: rate(run) for name, run in contenders.items()}, rounds, "joins/s")


def stored_bytes(client: "redis.Redis[bytes]", act: Callable[[], None]) -> float:
    """Return by how much the server's memory grows while `act` runs."""
    before = client.info("memory")["used_memory"]
    act()
    return client.info("memory")["used_memory"] - before


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    return [*over_redis(quick), *on_sqlite(quick)]


def over_redis(quick: bool) -> list[str]:
    """Measure against peers with worker processes, and how time and memory grow with a group."""
    count, few, many, rounds = (10, 100, 300, 1) if quick else (100, 2_000, 20_000, ROUNDS)
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        url = stack.enter_context(redis_server(path))
        os.environ["BENCH_REDIS"] = url
        stack.enter_context(workers(f"{url}/0", ["judge", MERGER], "join_agents.py"))
        ours = Passdown(stack.enter_context(Broker.connect(f"{url}/0", by="user:bench")))
        client = stack.enter_context(redis.Redis.from_url(url))
        joins = {
            "passdown": ours.joins,
            "celery": celery_joins(stack.enter_context(celery())),
            "dramatiq": dramatiq_joins(stack.enter_context(dramatiq())),
            "langgraph": joins_in(path),
        }
        for run_some in joins.values():
            run_some(10, BRANCHES)
        print(f"{count} joins of {BRANCHES} branches")
        found = compare_joins(joins, count, rounds)
        print(f"one group of {few}")
        groups = {
            "group, passdown": lambda: seconds(lambda: ours.group(few)),
            "group, celery": lambda: seconds(lambda: joins["celery"](1, few)),
        }
        grouped = measured(groups, min(rounds, 3), "s")
        print(f"a group of {few}, and one of {many}")
        missed = growth(ours, client, few, many, min(rounds, 3))
    return [
        *at_least("joins, passdown / celery", found["passdown"] / found["celery"], 12.0),
        *at_least("joins, passdown / dramatiq", found["passdown"] / found["dramatiq"], 3.0),
        *at_least("joins, passdown / langgraph", found["passdown"] / found["langgraph"], 2.0),
        *at_most(
            f"a group of {few}, passdown / celery", grouped["group, passdown"] / grouped["group, celery"], 0.1
        ),
        *missed,
    ]


def growth(ours: Passdown, client: "redis.Redis[bytes]", few: int, many: int, rounds: int) -> list[str]:
    """Measure what a branch of a large group costs over what one of a smaller group does."""
    sizes: dict[int, float] = {}

    def each_ms(branches: int) -> float:
        def group() -> None:
            nonlocal took
            took = seconds(lambda: ours.group(branches))

        took = 0.0
        sizes[branches] = stored_bytes(client, group) / branches
        return 1000 * took / branches

    times = measured(
        {"few": lambda: each_ms(few), "many": lambda: each_ms(many)}, rounds, "ms for each branch"
    )
    print(f"bytes in Redis for each branch: {sizes[few]:.0f} of {few}, {sizes[many]:.0f} of {many}")
    return [
        *at_most(f"time for each branch, {many} / {few}", times["many"] / times["few"], 1.3),
        *at_most(f"Redis memory for each branch, {many} / {few}", sizes[many] / sizes[few], 1.1),
    ]


def on_sqlite(quick: bool) -> list[str]:
    """Measure against LangGraph, both on SQLite."""
    count, rounds = (10, 1) if quick else (100, ROUNDS)
    with ExitStack() as stack:
        path = stack.enter_context(folder())
        url = f"sqlite:///{path / 'bench.db'}"
        ours = Passdown(stack.enter_context(Broker.connect(url, by="user:bench")))
        stack.enter_context(workers(url, ["judge", MERGER], "join_agents.py"))
        contenders: dict[str, Run] = {"passdown, sqlite": ours.joins, "langgraph": joins_in(path)}
        for run_some in contenders.values():
            run_some(5, BRANCHES)
        print(f"{count} joins of {BRANCHES} branches on SQLite")
        found = compare_joins(contenders, count, rounds)
    return at_least("on SQLite, passdown / langgraph", found["passdown, sqlite"] / found["langgraph"], 1.5)
