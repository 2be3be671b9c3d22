"""A till that pays once a person has said yes: a broker, a real agent and tool, and a bank outside that is counted."""

import time
from typing import Any

from passdown.agents import Context, Done, NotDone, agent, tool
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.agents.tools import AnyTool
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway
from passdown.broker.plans import Grant, Plan, Stage
from passdown.broker.session import Session
from passdown.broker.tick import Tick

ANN, BOB, CAT = "user:ann", "user:bob", "user:cat"


class Bank:
    """The world outside: what was paid, and how often it refuses first."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.refuses = 0


class Till:
    """A broker, a bank, and a pool that pays once a person has said yes."""

    def __init__(
        self, url: str, *, approvals: int = 1, amounts: tuple[int, ...] = (50,), **stage_more: Any
    ) -> None:
        """`amounts` are what the agent wants to pay, run by run; `stage_more` is of its stage."""
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
        stage = Stage(role="cashier", tools=[grant], risk="high", **stage_more)
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

    def tick(self) -> None:
        """Act on what is due by now."""
        Tick(self.broker.app.controller).once()

    def now_ms(self) -> float:
        """Return the time by which the stores go (milliseconds)."""
        return time.time() * 1000

    def person(self, name: str) -> Broker:
        """Return a connection of their own, as from another machine."""
        self._others.append(Broker.connect(self.url, transport="memory://", by=name))
        return self._others[-1]

    def close(self) -> None:
        self._runtime.stop(0)
        for one in (*self._others, self.broker):
            one.close()
