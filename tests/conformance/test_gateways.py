"""The gateway over the controller and the one in memory pass the same suite."""

from collections.abc import Iterator
from typing import Any

import pytest

from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.testing import make_pack, pack_tool
from passdown.agents.tools import AnyTool
from passdown.broker import Broker
from passdown.broker.app import App, Transport
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.sqlite import SqliteStore
from passdown.broker.tick import TICK, Tick
from passdown.contracts import commands as cmd
from passdown.contracts.gateway import Claim, Gateway
from passdown.contracts.plans import Backoff, Grant, Permit, Plan, Returns, Stage
from tests.conformance.building import Clock
from tests.conformance.gateway_suite import GRANTED, PERMITTED, ROLE, Driver, GatewaySuite
from tests.conformance.gateway_suite_many import ManySuite


class MemoryDriver:
    def __init__(self) -> None:
        self.broker = MemoryGateway()
        self.gateway: Gateway = self.broker

    def open(self, *tools: AnyTool, approve: bool = False, permit: bool = False) -> str:
        self.gateway.register_tools([one.spec for one in tools])
        grants = [
            pack_tool(one, narrowed=GRANTED, permit=PERMITTED)
            if permit and one.spec.effect
            else pack_tool(one, approve=approve and one.spec.effect)
            for one in tools
        ]
        return self.broker.submit(
            make_pack(ROLE, session_id=f"s0-{len(self.broker.sessions)}", tools=grants)
        ).name

    def lose(self, claim: Claim) -> None:
        self.broker.lose(claim.session_id)

    def wait(self) -> None:
        pass

    def cancel(self, session_id: str) -> None:
        self.broker.cancel(session_id)

    def approve(self, session_id: str, effect_id: str, edited: dict[str, Any] | None = None) -> None:
        self.broker.approve(session_id, effect_id, edited=edited)

    def deny(self, session_id: str, effect_id: str) -> None:
        self.broker.deny(session_id, effect_id)

    def say(self, session_id: str, effect_id: str, *, done: bool, result: Any = None) -> None:
        self.broker.say(session_id, effect_id, done=done, result=result)

    def answer(self, session_id: str, question: str, value: Any) -> None:
        self.broker.answer(session_id, question, value)

    def status(self, session_id: str) -> str:
        return self.broker.sessions[session_id].status


class DirectDriver:
    def __init__(self) -> None:
        self.clock = Clock()
        store = SqliteStore(":memory:", clock=self.clock)
        doorbell = SilentDoorbell()
        self.app = App(store, Transport("", {}), doorbell, Controller(store, doorbell))
        self.gateway: Gateway = DirectGateway(self.app.controller)
        self.producer = Broker(self.app, by="service:shop")
        self.person = Broker(self.app, by="user:ann")
        self.opened = 0

    def open(self, *tools: AnyTool, approve: bool = False, permit: bool = False) -> str:
        self.gateway.register_tools([one.spec for one in tools])
        effects = [one.name for one in tools if one.spec.effect]
        grants = [
            Grant(
                tool=one.name,
                approve="desk" if approve and one.name in effects else None,
                params=GRANTED if permit and one.name in effects else {},
            )
            for one in tools
        ]
        permits = [Permit(tool=one, queue="desk", params=PERMITTED) for one in effects if permit]
        stage = Stage(
            role=ROLE,
            tools=grants,
            permits=permits,
            recovery="continue",
            returns=Returns(evidence="optional"),
            backoff=Backoff(first_seconds=0.001, most_seconds=0.001),
        )
        self.opened += 1
        plan = Plan(name=f"suite-{self.opened}", start="work", stages={"work": stage})
        return self.producer.submit(self.producer.register(plan)).id

    def lose(self, claim: Claim) -> None:
        due = cmd.Due(kind="lease", subject=claim.fence.claim_id, due_at=0)
        self.app.controller.run(claim.session_id, due, TICK)
        self.wait()

    def wait(self) -> None:
        self.clock.forward(50)
        Tick(self.app.controller).once()

    def cancel(self, session_id: str) -> None:
        self.producer.session(session_id).cancel("called off")

    def approve(self, session_id: str, effect_id: str, edited: dict[str, Any] | None = None) -> None:
        self.resolve(session_id, effect_id, "edit" if edited else "approve", edited)

    def deny(self, session_id: str, effect_id: str) -> None:
        self.resolve(session_id, effect_id, "deny")

    def say(self, session_id: str, effect_id: str, *, done: bool, result: Any = None) -> None:
        self.resolve(session_id, effect_id, "done" if done else "not-done", result if done else None)

    def resolve(self, session_id: str, about: str, resolution: Any, value: Any = None) -> None:
        tickets = self.person.tickets(session_id=session_id)
        (ticket,) = [one for one in tickets if one.about == about]
        self.person.session(session_id).resolve(ticket.ticket_no, resolution, value, version=ticket.version)

    def answer(self, session_id: str, question: str, value: Any) -> None:
        self.producer.session(session_id).answer(question, value)

    def status(self, session_id: str) -> str:
        return self.producer.session(session_id).status()


class TestInMemory(GatewaySuite, ManySuite):
    @pytest.fixture
    def driver(self) -> Driver:
        return MemoryDriver()


class TestOverTheController(GatewaySuite, ManySuite):
    @pytest.fixture
    def driver(self) -> Iterator[Driver]:
        driver = DirectDriver()
        yield driver
        driver.app.close()
