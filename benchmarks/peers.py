"""Sessions of five trivial steps on SQLite: Passdown, LangGraph (SQLite saver, `sync`) and DBOS, interleaved.

Each runs them as its own users would: the peers call one after the other in this process; Passdown's are
submitted and run by its pool. ``one by one`` waits for each before the next is submitted.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from dbos import DBOS
from figures import at_least, folder, median
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from site_ import Running, chain, running

ROUNDS = 5
STEPS = 5


class Count(TypedDict):
    """The state that travels through the graph."""

    x: int


def langgraph(path: Path) -> Callable[[int], None]:
    """Return what runs so many sessions in LangGraph."""
    graph = StateGraph(Count)
    for n in range(STEPS):
        graph.add_node(f"s{n}", lambda state: {"x": state["x"] + 1})
    graph.add_edge(START, "s0")
    for n in range(STEPS - 1):
        graph.add_edge(f"s{n}", f"s{n + 1}")
    graph.add_edge(f"s{STEPS - 1}", END)
    saver = SqliteSaver(sqlite3.connect(path / "langgraph.db", check_same_thread=False))
    saver.setup()
    compiled = graph.compile(checkpointer=saver)
    made = 0

    def sessions(count: int) -> None:
        nonlocal made
        for _ in range(count):
            made += 1
            compiled.invoke({"x": 0}, {"configurable": {"thread_id": str(made)}}, durability="sync")

    return sessions


def dbos(path: Path) -> tuple[Callable[[int], None], Callable[[], None]]:
    """Return what runs so many workflows in DBOS, and what ends it."""
    logging.getLogger("dbos").setLevel(logging.ERROR)
    DBOS(
        config={"name": "bench", "system_database_url": f"sqlite:///{path / 'dbos.db'}", "log_level": "ERROR"}
    )

    @DBOS.step()
    def step(x: int) -> int:
        return x + 1

    @DBOS.workflow()
    def workflow(x: int) -> int:
        for _ in range(STEPS):
            x = step(x)
        return x

    DBOS.launch()

    def sessions(count: int) -> None:
        for _ in range(count):
            workflow(0)

    return sessions, DBOS.destroy


def one_by_one(site: Running, count: int) -> None:
    """Submit a session and wait for it, so many times."""
    for _ in range(count):
        site.broker.submit(f"chain{STEPS}", inputs={"x": 0}).result(60)


def in_bulk(site: Running, count: int) -> None:
    """Submit so many sessions and wait for all."""
    sessions = [site.broker.submit(f"chain{STEPS}", inputs={"x": 0}) for _ in range(count)]
    for session in sessions:
        session.result(120)


def rate(act: Callable[[int], None], count: int) -> float:
    """Return steps per second."""
    began = time.perf_counter()
    act(count)
    return STEPS * count / (time.perf_counter() - began)


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    count = 20 if quick else 100
    with folder() as path, running(path) as site:
        site.broker.register(chain(STEPS))
        graph = langgraph(path)
        workflows, end = dbos(path)
        contenders: dict[str, Callable[[int], None]] = {
            "passdown": lambda n: in_bulk(site, n),
            "passdown, one by one": lambda n: one_by_one(site, n),
            "langgraph": graph,
            "dbos": workflows,
        }
        rates: dict[str, list[float]] = {name: [] for name in contenders}
        for act in contenders.values():
            act(3)
        for _ in range(ROUNDS):
            for name, act in contenders.items():
                rates[name].append(rate(act, count))
        end()
    found = {name: median(values) for name, values in rates.items()}
    for name, value in found.items():
        print(f"{name}: {value:.0f} steps/s (rounds: {', '.join(f'{one:.0f}' for one in rates[name])})")
    missed = at_least("passdown / dbos", found["passdown"] / found["dbos"], 3.0)
    missed += at_least("passdown / langgraph", found["passdown"] / found["langgraph"], 1.5)
    for peer in ("dbos", "langgraph"):
        print(f"one by one / {peer}: {found['passdown, one by one'] / found[peer]:.2f}")
    return missed
