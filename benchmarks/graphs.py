"""Branches and their join in LangGraph: `Send` for each item, a reducer, and a node behind them (SQLite saver, `sync`)."""

import operator
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

Item = dict[str, int]


class Fan(TypedDict):
    """The state of a graph: what is sent to branches, what they gave, and what became of that."""

    items: list[Item]
    results: Annotated[list[Item], operator.add]
    joined: list[Item]


def joins_in(path: Path) -> Callable[[int, int], None]:
    """Return what runs so many joins of so many branches, one after the other."""
    graph = StateGraph(Fan)
    graph.add_node("judge", lambda item: {"results": [{"x": item["x"] + 1}]})
    graph.add_node("gather", lambda state: {"joined": state["results"]})
    graph.add_conditional_edges(
        START, lambda state: [Send("judge", one) for one in state["items"]], ["judge"]
    )
    graph.add_edge("judge", "gather")
    graph.add_edge("gather", END)
    saver = SqliteSaver(sqlite3.connect(path / "langgraph.db", check_same_thread=False))
    saver.setup()
    compiled = graph.compile(checkpointer=saver)
    made = 0

    def run(count: int, branches: int) -> None:
        nonlocal made
        for _ in range(count):
            made += 1
            given = {"items": [{"x": n} for n in range(branches)], "results": []}
            config = {"configurable": {"thread_id": str(made)}}
            ended = compiled.invoke(given, config, durability="sync")
            if len(ended["joined"]) != branches:
                raise AssertionError("a join lacks branches")

    return run
