"""Real recorded runs that were handed over to people: what each brief must name, counted from the record itself.

The runs are replayed in one process, without chaos; what is expected is read from the file here, by none of our code.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from passdown.agents import Options, Runtime
from passdown.broker.app import App, Transport, open_store
from passdown.broker.briefs import brief_of
from passdown.broker.client import Broker
from passdown.broker.controller import Controller
from passdown.broker.core.brief_render import render
from passdown.broker.demo import recorded
from passdown.broker.demo.place import Place
from passdown.broker.demo.replayed import ROLE, replay, tools_of
from passdown.broker.demo.trajectory import read_runs
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.contracts.brief import Brief
from tests.acceptance.demos import Json, airline

_MOST_ROUNDS = 100


class Expected(NamedTuple):
    """What the record of one run says."""

    accounts: set[str]
    reservations: set[str]
    touched: set[str]
    written: list[tuple[str, Json, str]]
    last_error: str | None


def calls_of(run: Json) -> Iterator[tuple[str, Json, str]]:
    """Yield each call of a run but the transfer: tool, arguments, result."""
    traj: list[Json] = run["traj"]
    following: list[Json] = [*traj[1:], {}]
    for message, after in zip(traj, following, strict=True):
        for call in cast("list[Json]", message.get("tool_calls") or []):
            name: str = call["function"]["name"]
            if name != "transfer_to_human_agents":
                yield name, json.loads(call["function"]["arguments"]), after["content"]


def fields(value: Any, name: str) -> Iterator[str]:
    """Yield every value of a field, at any depth."""
    if isinstance(value, dict):
        for key, below in cast("Json", value).items():
            if key == name:
                yield from cast("list[str]", below) if isinstance(below, list) else [below]
            yield from fields(below, name)
    elif isinstance(value, list):
        for below in cast("list[Any]", value):
            yield from fields(below, name)


def every(runs: list[Json], *names: str) -> set[str]:
    """Return what these fields hold anywhere in the file: all that there is of a kind."""
    found: set[str] = set()
    for run in runs:
        for _, args, result in calls_of(run):
            whole = json.loads(result) if result.startswith("{") else None
            for name in names:
                found |= {*fields(args, name), *fields(whole, name)}
    return found


def named(known: set[str], texts: list[str]) -> set[str]:
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return known & words


def expected(run: Json, accounts: set[str], reservations: set[str]) -> Expected:
    calls = list(calls_of(run))
    said = [message["content"] or "" for message in run["traj"] if message["role"] == "user"]
    texts = [*said, *(json.dumps(args) for _, args, _ in calls), *(result for _, _, result in calls)]
    writes = [one for one in calls if one[0].startswith(("book_", "cancel_", "update_", "send_"))]
    errors = [result for _, _, result in calls if result.startswith("Error")]
    return Expected(
        accounts=named(accounts, texts),
        reservations=named(reservations, texts),
        touched=named(reservations, [json.dumps(args) for _, args, _ in writes]),
        written=[one for one in writes if not one[2].startswith("Error")],
        last_error=errors[-1] if errors else None,
    )


def transferred(run: Json) -> bool:
    return '"transfer_to_human_agents"' in json.dumps(run["traj"])


@pytest.fixture(scope="module")
def whole_file() -> list[Json]:
    return json.loads(airline().read_bytes())


@pytest.fixture(scope="module")
def briefs(whole_file: list[Json], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Brief]:
    """Return the brief of each handed over run, by the key of its session."""
    folder = tmp_path_factory.mktemp("recorded")
    file = folder / "runs.json"
    file.write_text(json.dumps([run for run in whole_file if transferred(run)]))
    at = Place("", folder)
    at.runs.mkdir()
    store, doorbell = open_store("sqlite:///:memory:"), SilentDoorbell()
    broker = Broker(App(store, Transport("", {}), doorbell, Controller(store, doorbell)), recorded.CUSTOMER)
    try:
        return dict(replayed(file, at, broker))
    finally:
        broker.close()


def replayed(file: Path, at: Place, broker: Broker) -> Iterator[tuple[str, Brief]]:
    runs = read_runs(file)
    recorded._submit(at, broker, runs, [], None)  # pyright: ignore[reportPrivateUsage]  (without its processes)
    names = {call.tool: call.writes for run in runs for call in run.calls()}
    runtime = Runtime(
        DirectGateway(broker.app.controller),
        agents=[replay],
        tools=tools_of(at, names),
        options=Options(linger_seconds=0),
    )
    runtime.start()
    answer = recorded.customer(broker, runs)
    for _ in range(_MOST_ROUNDS):
        runtime.drain(ROLE)
        waiting = broker.tickets(queue=recorded.CUSTOMERS, limit=1000)
        for ticket in waiting:
            answer(ticket)
        if not waiting:
            break
    runtime.stop(0)
    for run in runs:
        (ticket,) = broker.session(run.session_id).state().tickets
        assert (ticket.kind, ticket.queue) == ("escalation", recorded.PEOPLE)
        yield run.key, brief_of(broker.app.controller, run.session_id, ticket.ticket_no)


@pytest.fixture(scope="module")
def compared(whole_file: list[Json], briefs: dict[str, Brief]) -> list[tuple[Expected, Brief]]:
    accounts, reservations = (
        every(whole_file, "user_id"),
        every(whole_file, "reservation_id", "reservations"),
    )
    assert (len(accounts), len(reservations)) == (22, 105)
    runs = [run for run in whole_file if transferred(run)]
    assert len(runs) == len(briefs) == 29
    return [
        (expected(run, accounts, reservations), briefs[f"recorded:{run['task_id']}:{run['trial']}"])
        for run in runs
    ]


def values(brief: Brief, label: str) -> dict[str, str]:
    (subject,) = [one for one in brief.subjects.labels if one.label == label]
    assert (subject.left_out, subject.odd) == (0, 0)
    return {one.value: one.touched for one in subject.values}


def test_every_account_and_reservation_is_named_and_nothing_else(
    compared: list[tuple[Expected, Brief]],
) -> None:
    for want, brief in compared:
        assert set(values(brief, "account")) == want.accounts
        assert set(values(brief, "reservation")) == want.reservations, (
            "none missing, none that is no reservation"
        )
        text = render(brief)
        for label, found in (("account", want.accounts), ("reservation", want.reservations)):
            assert (f"- {label}: not established" in text) == (not found)
            assert all(f"  - {one} (first seen: event " in text for one in found)
    assert sum(not want.accounts for want, _ in compared) == 1, (
        "one run was handed over before anybody was named"
    )


def test_what_a_write_touched_is_marked_and_stands_first(compared: list[tuple[Expected, Brief]]) -> None:
    for want, brief in compared:
        found = values(brief, "reservation")
        assert {one for one, touched in found.items() if touched == "write"} == want.touched
        assert set(list(found)[: len(want.touched)]) == want.touched
    assert sum(bool(want.touched) for want, _ in compared) > 3


def test_every_write_stands_there_with_its_result(compared: list[tuple[Expected, Brief]]) -> None:
    for want, brief in compared:
        done = [one for one in brief.effects.shown if one.status == "done"]
        shown = [(one.tool, json.loads(one.args.text), one.result and one.result.text) for one in done]
        assert shown == [(tool, args, result) for tool, args, result in want.written]
        assert all(result in render(brief) for _, _, result in want.written)
    assert sum(len(want.written) for want, _ in compared) > 10


def test_the_last_error_and_the_constraints_stand_there(compared: list[tuple[Expected, Brief]]) -> None:
    for want, brief in compared:
        assert (brief.last_error and brief.last_error.text) == want.last_error
        assert brief.constraints == recorded.CONSTRAINTS
        assert all(f"- {one}\n" in render(brief) for one in recorded.CONSTRAINTS)
    assert sum(want.last_error is not None for want, _ in compared) == 3
