"""Pulling the next ticket and claiming it: from a queue of a hundred thousand against one of ten, on both stores."""

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from figures import at_most, folder, median
from redis_server import redis_server

from passdown.broker import Broker, HumanStage, Plan, Submission
from passdown.broker.access.directory import Person
from passdown.broker.plans import People

FEW, MANY = 10, 100_000
#: Tickets of a queue are told apart by a skill, so that they lie in so many lanes.
LANES = 5
PULLS = 400
_AT_ONCE = 1000
_MOST = 3.0


def _desk(url: str, tickets: int) -> Broker:
    """Return ann's connection to a store with so many open tickets, all of which she may take."""
    with Broker.connect(url, by="service:shop") as shop:
        shop.register(
            Plan(
                name="desk",
                start="ask",
                stages={"ask": HumanStage(queue="desk", people=People(skills=["{inputs.skill}"]))},
            )
        )
        for start in range(0, tickets, _AT_ONCE):
            many = range(start, min(start + _AT_ONCE, tickets))
            shop.submit_all("desk", [Submission({"skill": f"s{n % LANES}"}, key=f"k-{n}") for n in many])
        skills = [f"s{n}" for n in range(LANES)]
        person = Person(name="user:ann", roles=["human"], groups=["desk"], skills=skills)
        shop.directory.set_person(person)
    return Broker.connect(url, by="user:ann")


def _pull(broker: Broker) -> float:
    """Return how long it took to get the next ticket (milliseconds); it is given back."""
    inbox = broker.inbox
    began = time.perf_counter()
    ticket = inbox.next(queue="desk")
    took = (time.perf_counter() - began) * 1000
    if ticket is None:
        raise AssertionError("there are tickets")
    inbox.release(ticket.session_id, ticket.ticket_no)
    return took


@contextmanager
def _two(urls: tuple[str, str], many: int) -> Generator[tuple[Broker, Broker]]:
    with ExitStack() as stack:
        yield stack.enter_context(_desk(urls[0], FEW)), stack.enter_context(_desk(urls[1], many))


def _compare(name: str, urls: tuple[str, str], *, quick: bool) -> list[str]:
    many, pulls = (2_000, 50) if quick else (MANY, PULLS)
    with _two(urls, many) as (few, lots):
        for broker in (few, lots):
            _pull(broker)
        took: tuple[list[float], list[float]] = ([], [])
        for _ in range(pulls):  # in turn, so that both meet the same machine
            took[0].append(_pull(few))
            took[1].append(_pull(lots))
    p99 = [sorted(one)[int(len(one) * 0.99) - 1] for one in took]
    print(
        f"{name}: median {median(took[0]):.2f} and {median(took[1]):.2f} ms, p99 {p99[0]:.2f} and {p99[1]:.2f} ms"
    )
    return at_most(f"{name}: p99 of {many:,} tickets against {FEW}", p99[1] / p99[0], _MOST)


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    with folder() as place:
        missed = _compare("sqlite", (_file(place, "few"), _file(place, "many")), quick=quick)
        with redis_server(place) as url:
            missed += _compare("redis", (f"{url}/0", f"{url}/1"), quick=quick)
    return missed


def _file(place: Path, name: str) -> str:
    return f"sqlite:///{place / name}.db"
