"""A hundred people race for a thousand tickets, in processes that are killed: each is decided once, by who held it."""

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from passdown.broker.access.directory import Person
from passdown.broker.client import Broker, Submission
from passdown.broker.core.evolve import fold
from passdown.broker.plans import HumanStage, Plan
from passdown.broker.session import Session
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.errors import Conflict
from tests.integration.shift import QUEUE
from tests.integration.site import PASSDOWN, ROOT
from tests.servers.redis import RedisServer

#: Nobody is rung for: all the work is people's. So nothing of a transport is left where a tick is killed, either.
TRANSPORT = "memory://"


class Size(NamedTuple):
    """How many of each, and within how many seconds it must be over."""

    people: int
    tickets: int
    processes: int
    kills: int
    within_s: float


SMALL = Size(people=12, tickets=50, processes=3, kills=3, within_s=60.0)
WHOLE = Size(people=100, tickets=1_000, processes=5, kills=15, within_s=600.0)
TEAM = [f"user:p{n:03}" for n in range(WHOLE.people)]


class Shift:
    """A store with open tickets, and the processes of people and of the tick, which are killed and started again."""

    def __init__(self, store: str, folder: Path, size: Size) -> None:
        self.store, self.size = store, size
        self.journal = folder / "journal.jsonl"
        self._chance = random.Random(4711)
        self._running: list[tuple[list[str], subprocess.Popen[bytes]]] = []
        self.broker = Broker.connect(store, transport=TRANSPORT, by="service:shop")
        self.broker.register(Plan(name="p", start="ask", stages={"ask": HumanStage(queue=QUEUE, next="end")}))
        for name in TEAM[: size.people]:
            self.broker.directory.set_person(Person(name=name, roles=["human"], groups=[QUEUE]))
        work = [Submission({"n": n}, key=f"k-{n}") for n in range(size.tickets)]
        self.sessions = self.broker.submit_all("p", work)

    def run(self) -> None:
        """Let everybody work until all is decided."""
        self._start([PASSDOWN, "tick", "--store", self.store, "--transport", TRANSPORT])
        for n in range(self.size.processes):
            self._start(self._people(n))
        ends, kills = time.monotonic() + self.size.within_s, 0
        while waiting := len(self.broker.tickets(queue=QUEUE, limit=1000)):
            assert time.monotonic() < ends, f"{waiting} tickets are left"
            # So that kills are spread over the work, whatever the machine.
            if kills < self.size.kills * (1 - waiting / self.size.tickets):
                self._kill_one()
                kills += 1
            time.sleep(0.02)
        for command, process in self._running:
            if command[0] != PASSDOWN:
                assert process.wait(30) == 0, command

    def _people(self, n: int) -> list[str]:
        seed = str(self._chance.random())
        names = TEAM[n : self.size.people : self.size.processes]
        return [sys.executable, "-m", "tests.integration.shift", self.store, str(self.journal), seed, *names]

    def _start(self, command: list[str]) -> None:
        self._running.append((command, subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)))

    def _kill_one(self) -> None:
        command, process = self._running.pop(self._chance.randrange(len(self._running)))
        process.kill()
        process.wait()
        self._start(command)

    def close(self) -> None:
        """End what runs."""
        for _, process in self._running:
            process.kill()
            process.wait()
        self.broker.close()

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.journal.read_text().splitlines()]


class Decision(NamedTuple):
    """Who decided a session's ticket, what they said, and all who ever held it."""

    by: str
    value: dict[str, Any]
    holders: set[str]


def decision_of(session: Session) -> Decision:
    """Return what the log says; each ticket was decided once, by whoever held it then, or while nobody did."""
    log = list(session.events())
    holder, holders = "", set[str]()
    decided: list[Decision] = []
    for logged in log:
        match logged.event:
            case ev.TicketClaimed(taken_from=before):
                assert before in ("", holder)
                holder = logged.by
                holders.add(holder)
            case ev.TicketReleased(holder=before):
                assert before == holder
                holder = ""
            case ev.TicketResolved(value=value):
                assert holder in ("", logged.by), "rule 8: somebody else held it"
                decided.append(Decision(logged.by, value, holders))
            case _:
                pass
    assert len(decided) == 1
    state = fold(log)
    assert state is not None
    assert encode(state) == encode(session.state())
    return decided[0]


@pytest.fixture(params=["sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'p.db'}"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url()


def prove(shift: Shift) -> None:
    """Compare what everybody was told with what the logs say."""
    decided = {session.id: decision_of(session) for session in shift.sessions}
    lines = shift.lines()
    tried = {(one["session"], one["by"], one["nonce"]) for one in lines if one["what"] == "tries"}
    for session in shift.sessions:
        one = decided[session.id]
        outcome = session.state().outcome
        assert outcome is not None
        assert outcome.output == one.value, "the answer that counts is the winner's"
        assert (session.id, one.by, one.value["nonce"]) in tried
        assert one.value["by"] == one.by
    for line in lines:
        one = decided[line["session"]] if "session" in line else None
        match line["what"]:
            case "won":
                assert one is not None
                assert (line["by"], line["nonce"]) == (one.by, one.value["nonce"]), (
                    "no accepted answer is lost"
                )
            case "lost":
                assert one is not None
                assert line["decided"], line
                if line["decided"] == "complete":
                    assert line["winner"] == one.by, "whoever lost is told who won"
                else:
                    assert line["winner"] in one.holders | {""}
            case "leak" | "broke":
                pytest.fail(f"somebody saw another's draft, or broke off: {line}")
            case _:
                pass
    prove_latecomers(shift, decided)


def prove_latecomers(shift: Shift, decided: dict[str, Decision]) -> None:
    """Whoever comes when all is over is told of each ticket who won, and changes nothing."""
    late = Broker(shift.broker.app, by=TEAM[0]).inbox
    for session in shift.sessions:
        before = session.state().seq
        with pytest.raises(Conflict) as told:
            late.resolve(session.id, 1, "complete", {"by": TEAM[0], "nonce": "late"})
        assert (told.value.winner, told.value.decided) == (decided[session.id].by, "complete")
        assert session.state().seq == before


def race(address: str, folder: Path, size: Size) -> None:
    shift = Shift(address, folder, size)
    try:
        shift.run()
        prove(shift)
    finally:
        shift.close()


def test_rule_08_people_race_for_tickets_and_each_is_decided_once(address: str, tmp_path: Path) -> None:
    race(address, tmp_path, SMALL)


@pytest.mark.soak
def test_rule_08_a_hundred_people_race_for_a_thousand_tickets(address: str, tmp_path: Path) -> None:
    race(address, tmp_path, WHOLE)
