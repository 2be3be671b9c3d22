"""Yes and no at one moment, two approvals at once, an action that changed, a write that fails after its approval.

With real agents and tools, on both stores; what happened outside is counted there.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.agents import Context, Done, NotDone, agent, tool
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.agents.tools import AnyTool
from passdown.broker.briefs import brief_of
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway
from passdown.broker.plans import Grant, Plan, Stage
from passdown.broker.session import Session
from passdown.contracts.errors import Conflict
from tests.servers.redis import RedisServer

ROUNDS = 10
ANN, BOB, CAT = "user:ann", "user:bob", "user:cat"


class Bank:
    """The world outside: what was paid, and how often it refuses first."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.refuses = 0


class Till:
    """A broker, a bank, and a pool that pays once a person has said yes."""

    def __init__(self, url: str, *, approvals: int = 1, amounts: tuple[int, ...] = (50,)) -> None:
        self.bank, self.url = Bank(), url
        self.broker = Broker.connect(url, transport="memory://", by="service:shop")
        runs: dict[str, int] = {}

        @tool("pay", effect=True, identity=["order"], dedupes=True)
        def pay(order: str, cents: int, *, key: str) -> dict[str, int]:
            if self.bank.refuses:
                self.bank.refuses -= 1
                raise NotDone("the bank is closed")
            self.bank.paid.append((key, cents))
            return {"cents": cents}

        @agent("cashier")
        async def cashier(pack: Any, ctx: Context) -> Done:
            run = runs[pack.session_id] = runs.get(pack.session_id, -1) + 1
            cents = amounts[min(run, len(amounts) - 1)]
            try:
                done = await ctx.call("pay", order="4711", cents=cents)
            except NotDone as error:
                return Done({"paid": 0, "why": str(error)})
            return Done({"paid": done["cents"]})

        tools: list[AnyTool] = [pay]
        self.broker.register_tools([one.spec for one in tools])
        grant = Grant(tool="pay", approve="approvers", approvals=approvals)
        stage = Stage(role="cashier", tools=[grant], risk="high")
        self.broker.register(Plan(name="p", start="pay", stages={"pay": stage}))
        gateway = DirectGateway(self.broker.app.controller)
        self._runtime = Runtime(gateway, agents=[cashier], tools=tools, options=Options(linger_seconds=0.0))
        self._runtime.start()
        self._others: list[Broker] = []

    def submit(self, key: str) -> Session:
        """Open a session, and let it come as far as its approval."""
        session = self.broker.submit("p", key=key)
        self.work()
        return session

    def work(self) -> None:
        self._runtime.drain("cashier")

    def person(self, name: str) -> Broker:
        """Return a connection of their own, as from another machine."""
        self._others.append(Broker.connect(self.url, transport="memory://", by=name))
        return self._others[-1]

    def close(self) -> None:
        self._runtime.stop(0)
        for one in (*self._others, self.broker):
            one.close()


def approving(person: Broker, session_id: str) -> Callable[[], None]:
    return lambda: person.inbox.resolve(session_id, 1, "approve")


def at_once(*acts: Callable[[], None]) -> list[Conflict | None]:
    """Do all of this at one moment; returns what each was told, None for one that got through."""
    start = threading.Barrier(len(acts))
    told: list[Conflict | None] = [None] * len(acts)

    def one(place: int, act: Callable[[], None]) -> None:
        start.wait()
        try:
            act()
        except Conflict as error:
            told[place] = error

    threads = [threading.Thread(target=one, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told


@pytest.fixture(params=["sqlite", "redis"])
def open_till(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Till]]:
    tills: list[Till] = []

    def opened(**how: Any) -> Till:
        url = f"sqlite:///{tmp_path / 'p.db'}"
        if request.param == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            url = server.url()
        tills.append(Till(url, **how))
        return tills[-1]

    yield opened
    for till in tills:
        till.close()


def test_rule_03_yes_and_no_at_one_moment_are_one_effect_or_none(open_till: Callable[..., Till]) -> None:
    till = open_till()
    ann, bob = till.person(ANN), till.person(BOB)
    for n in range(ROUNDS):
        session = till.submit(f"k-{n}")
        before = len(till.bank.paid)
        yes, no = at_once(
            lambda id_=session.id: ann.inbox.resolve(id_, 1, "approve"),
            lambda id_=session.id: bob.inbox.resolve(id_, 1, "deny"),
        )
        assert (yes is None) != (no is None)
        loser = yes or no
        assert loser is not None
        won = (ANN, "approve") if yes is None else (BOB, "deny")
        assert (loser.winner, loser.decided) == won, "whoever was second is told what holds"
        till.work()
        assert len(till.bank.paid) - before == (1 if yes is None else 0)


def test_rule_08_of_three_at_once_two_approve_and_it_runs_once(open_till: Callable[..., Till]) -> None:
    till = open_till(approvals=2)
    people = [till.person(name) for name in (ANN, BOB, CAT)]
    for n in range(ROUNDS):
        session = till.submit(f"k-{n}")
        left = [approving(one, session.id) for one in people]
        while left and session.state().ticket(1):  # who came second looks again
            told = at_once(*left)
            left = [act for act, error in zip(left, told, strict=True) if error is not None]
        till.work()
        (effect,) = session.state().effects
        assert effect.status == "done"
        assert effect.approval is not None
        assert len({effect.approval.by, *effect.approval.also}) == 2
    assert len(till.bank.paid) == len({key for key, _ in till.bank.paid}) == ROUNDS


def test_h28_an_approval_of_another_action_is_void(open_till: Callable[..., Till]) -> None:
    """Approved for 50, the agent comes back with 5,000: that is proposed anew, and nothing was paid."""
    till = open_till(amounts=(50, 5_000))
    session = till.submit("k")
    till.person(ANN).inbox.resolve(session.id, 1, "approve")
    till.work()
    assert till.bank.paid == []
    (ticket,) = session.state().tickets
    assert (ticket.ticket_no, ticket.kind, ticket.queue) == (2, "approval", "approvers")
    till.person(BOB).inbox.resolve(session.id, 2, "deny")
    till.work()
    assert till.bank.paid == []


def test_h29_approved_and_then_failed_is_seen_and_back_in_a_queue(open_till: Callable[..., Till]) -> None:
    till = open_till()
    till.bank.refuses = 1
    session = till.submit("k")
    till.person(ANN).inbox.resolve(session.id, 1, "approve")
    till.work()
    (ticket,) = session.state().tickets
    assert (ticket.kind, ticket.queue, session.status()) == ("unmet", "approvers", "waiting-human")
    assert ticket.why == "pay was approved by user:ann, and then failed: the bank is closed"
    (effect,) = brief_of(till.broker.app.controller, session.id, ticket.ticket_no).effects.shown
    assert effect.decision.startswith("approved by user:ann in ticket 1")
    assert effect.outcome.startswith("failed")
    till.person(BOB).inbox.resolve(session.id, ticket.ticket_no, "approve")
    till.work()
    assert (len(till.bank.paid), session.status()) == (1, "done")
