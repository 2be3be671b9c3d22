"""People in processes of their own who act at one moment: ``python -m tests.integration.voters``, an act a line.

Such a process prepares an act, says so, waits for the moment, acts, and says what it was told. It keeps its connections.
"""

import json
import subprocess
import sys
import time
from typing import Any, NamedTuple

from passdown.broker.client import Broker
from passdown.broker.tick import Tick
from passdown.contracts.errors import Conflict
from tests.integration.site import ROOT

#: How long before the moment everybody is told of it (seconds).
_AHEAD_S = 0.003


class Act(NamedTuple):
    """What one of them does: a resolution of a ticket, `take-over`, `cancel`, or `tick`, which acts on what is due."""

    by: str
    verb: str
    session_id: str
    value: dict[str, Any] | None = None
    #: The version of the ticket as they saw it; None: as it is when they act.
    version: int | None = None
    #: How long after the moment this is done (seconds).
    late_s: float = 0.0


class Told(NamedTuple):
    """What came of an act: who was first (`nobody` where nothing is decided), and what they did; empty for what got through."""

    winner: str = ""
    decided: str = ""

    @property
    def through(self) -> bool:
        return not self.winner


class Voters:
    """So many processes, started once; their acts are about ticket 1 of a session."""

    def __init__(self, count: int) -> None:
        command = [sys.executable, "-m", "tests.integration.voters"]
        self._processes = [
            subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]

    def at_once(self, store: str, *acts: Act) -> list[Told]:
        """Have each act done by a process of its own, all at one moment; returns what each was told."""
        pairs = list(zip(self._processes, acts, strict=False))
        assert len(pairs) == len(acts), "there are too few processes"
        for process, act in pairs:
            self._say(process, [store, *act])
        for process, _ in pairs:
            assert self._hear(process) == "ready"
        moment = time.monotonic() + _AHEAD_S
        for process, _ in pairs:
            self._say(process, moment)
        return [Told(*self._hear(process)) for process, _ in pairs]

    def _say(self, process: subprocess.Popen[str], what: Any) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(what) + "\n")
        process.stdin.flush()

    def _hear(self, process: subprocess.Popen[str]) -> Any:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the process of a voter ended: see its traceback"
        return json.loads(line)

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.communicate()


def _do(broker: Broker, act: Act) -> Told:
    inbox = broker.inbox
    try:
        match act.verb:
            case "tick":
                Tick(broker.app.controller).once()
            case "cancel":
                broker.session(act.session_id).cancel("the customer withdrew")
            case "take-over":
                inbox.take_over(act.session_id, 1, "it takes long")
            case verb:
                inbox.resolve(act.session_id, 1, verb, act.value, version=act.version)  # pyright: ignore[reportArgumentType]
    except Conflict as error:
        return Told(error.winner or "nobody", error.decided)
    return Told()


def _say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Act as told until there is nobody left who tells."""
    brokers: dict[tuple[str, str], Broker] = {}
    for line in sys.stdin:
        store, *fields = json.loads(line)
        act = Act(*fields)
        if (store, act.by) not in brokers:
            brokers[store, act.by] = Broker.connect(store, transport="memory://", by=act.by)
        broker = brokers[store, act.by]
        broker.session(act.session_id).status()  # so that what is connected lazily is by now
        _say("ready")
        moment = json.loads(sys.stdin.readline()) + act.late_s
        while time.monotonic() < moment:
            pass
        _say(_do(broker, act))
    for broker in brokers.values():
        broker.close()


if __name__ == "__main__":
    main()
