"""When a session counts as settled, and when as wrongly at rest."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from passdown.broker.client import Broker
from passdown.broker.demo.watching import Watch
from passdown.broker.stores.queries import SessionRow, TicketRow


@dataclass
class FakeBroker:
    """One session in a status, with tickets on queues."""

    status: str = "queued"
    version: int = 1
    queues: list[str] = field(default_factory=list[str])
    kind: str = "k"

    def sessions(self, *, limit: int, before: str | None) -> list[SessionRow]:
        assert limit
        row = SessionRow(
            session_id="s",
            task_id="t",
            task_name="",
            key="k",
            plan="p@1",
            stage="x",
            status=self.status,
            version=self.version,
            opened_at=0,
            updated_at=0,
        )
        return [] if before else [row]

    def tickets(self, *, session_id: str) -> list[TicketRow]:
        return [
            TicketRow(
                session_id=session_id,
                ticket_no=n,
                version=1,
                kind=self.kind,
                queue=queue,
                why="",
                opened_at=0,
            )
            for n, queue in enumerate(self.queues, 1)
        ]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def watch(broker: FakeBroker, expected: str, clock: Clock | None = None) -> Watch:
    return Watch(
        cast(Broker, broker),
        {"s": expected},
        frozenset({"customers", "tier2"}),
        "tier2",
        clock=clock or Clock(),
    )


@pytest.mark.parametrize(
    ("expected", "status", "queues", "settled", "wrong"),
    [
        ("done", "running", [], False, False),
        ("done", "done", [], True, False),
        ("done", "failed", [], True, True),
        ("done", "waiting-human", ["tier2"], False, False),
        ("done", "waiting-human", ["operators"], True, True),
        ("done", "waiting-human", [], False, False),
        ("waiting-human", "waiting-human", ["tier2"], True, False),
        ("waiting-human", "waiting-human", ["customers"], False, False),
        ("waiting-human", "done", [], True, True),
    ],
)
def test_settled_or_not(expected: str, status: str, queues: list[str], settled: bool, wrong: bool) -> None:
    looking = watch(FakeBroker(status, queues=queues), expected)
    looking.look()
    assert (looking.complete, bool(looking.wrong)) == (settled, wrong)


def test_nothing_moves_when_no_version_does() -> None:
    broker, clock = FakeBroker(), Clock()
    looking = watch(broker, "done", clock)
    looking.look()
    clock.now += 30
    looking.look()
    assert looking.idle_seconds() == 30
    broker.version = 2
    looking.look()
    assert looking.idle_seconds() == 0


def test_a_session_does_not_end_with_the_question_whether_an_effect_happened() -> None:
    looking = watch(FakeBroker("waiting-human", queues=["tier2"], kind="effect"), "waiting-human")
    looking.look()
    assert not looking.complete
