"""A store with a few agents that tests of the command line drive by hand, without any process."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from passdown.agents import (
    Absent,
    Agent,
    Done,
    Escalate,
    Found,
    NeedsInput,
    NotDone,
    Options,
    Pack,
    Question,
    Refused,
    Runtime,
    SyncContext,
    Tool,
    agent,
    tool,
)
from passdown.broker.app import App, Transport, open_store
from passdown.broker.cli.views.exports import export_lines
from passdown.broker.client import Broker, Session
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.tick import Tick
from passdown.contracts.plans import Backoff, Grant, Next, Plan, Returns, Stage

PRODUCER = "user:producer"
ROLES = ("analyst", "cashier", "desk", "helper")

_TEXT = {"type": "string"}
_NO_WAIT = Backoff(first_seconds=0.0)


def refund_plan() -> Plan:
    """Check, pay with an approval, tell."""
    return Plan(
        name="refund",
        start="check",
        stages={
            "check": Stage(
                role="analyst",
                inputs={
                    "type": "object",
                    "properties": {"orderId": _TEXT, "ask": {"type": "boolean"}},
                    "required": ["orderId"],
                },
                tools=[Grant(tool="orders.read")],
                returns=Returns(evidence="optional"),
                backoff=_NO_WAIT,
                next=Next(field="decision", cases={"approve": "pay", "deny": "tell"}),
            ),
            "pay": Stage(
                role="cashier",
                tools=[Grant(tool="refunds.create", approve="refund-approvers")],
                backoff=_NO_WAIT,
                next=Next(to="tell"),
            ),
            "tell": Stage(role="desk", tools=[Grant(tool="mail.send")], backoff=_NO_WAIT),
        },
    )


def help_plan(**more: Any) -> Plan:
    """One stage, in which the helper does what its input ``do`` says."""
    return Plan(name="help", start="only", stages={"only": Stage(role="helper", backoff=_NO_WAIT, **more)})


class Desk:
    """A store in a file, with its agents."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "desk.db"
        self.url = f"sqlite:///{self.path}"
        self.broker = broker_on(self.url)
        self.outside: dict[str, Any] = {}
        self.fail_next = ""
        #: How much longer addresses and results of mails are (bytes).
        self.big = 0
        self.on_help: Callable[[], object] = lambda: None
        #: What the helper asks.
        self.ask: list[Question] = []
        gateway = DirectGateway(self.broker.app.controller)
        self._runtime = Runtime(
            gateway, agents=self._agents(), tools=self._tools(), options=Options(linger_seconds=0)
        )
        self._runtime.start()
        self.broker.register(refund_plan())
        self.broker.register(help_plan(tools=[Grant(tool="mail.send")]))

    def _tools(self) -> list[Tool[..., Any]]:
        @tool("orders.read")
        def read_order(order_id: str) -> dict[str, Any]:
            """Read an order."""
            return {"orderId": order_id, "cents": 5000}

        def find(order_id: str, *, key: str) -> Found | Absent:
            return Found(self.outside[key]) if key in self.outside else Absent()

        @tool(
            "refunds.create",
            scope="refunds:write",
            effect=True,
            identity=["order_id"],
            verify=find,
            dedupes=True,
        )
        def create_refund(order_id: str, cents: int, *, key: str) -> dict[str, Any]:
            """Give money back."""
            self._stumble("refund")
            self.outside[key] = {"order": order_id, "cents": cents}
            return {"id": f"rf-{order_id}"}

        @tool("mail.send", effect=True)
        def send_mail(to: str, *, key: str) -> Any:
            self._stumble("mail")
            self.outside[key] = to
            return {"sent": len(self.outside) - 1, "text": "y" * self.big} if self.big else None

        return [read_order, create_refund, send_mail]

    def _agents(self) -> list[Agent]:
        @agent("analyst", version="7")
        def analyst(pack: Pack, ctx: SyncContext) -> Done | NeedsInput:
            if pack.inputs.get("ask") and not pack.answers:
                return NeedsInput([Question(id="reason", text="Why back?", schema=_TEXT)])
            order = ctx.call("orders.read", order_id=pack.inputs["orderId"])
            return Done({"decision": "approve", "cents": order["cents"]})

        @agent("cashier")
        def cashier(pack: Pack, ctx: SyncContext) -> Done:
            inputs = pack.inputs
            refund = ctx.call("refunds.create", order_id=inputs["orderId"], cents=inputs["cents"])
            return Done({"refundId": refund["id"]})

        @agent("desk")
        def desk(pack: Pack, ctx: SyncContext) -> Done:
            ctx.call("mail.send", to="ann@example.org")
            return Done({"told": True})

        return [analyst, cashier, desk, agent("helper")(self._help)]

    def _help(self, pack: Pack, ctx: SyncContext) -> Any:
        match pack.inputs.get("do"):
            case "call":
                self.on_help()
                return Done({})
            case "mails":
                for n in range(pack.inputs["count"]):
                    ctx.call("mail.send", to=f"{n}@example.org" + "x" * self.big)
                return Done({})
            case "ask" if not pack.answers:
                return NeedsInput(self.ask)
            case "refuse":
                return Refused("against the rules", policy="no-gifts")
            case "escalate" if not pack.feedback:
                return Escalate(
                    "two accounts match", recommended="use the newer one", risks=["wrong account"]
                )
            case "fail":
                raise RuntimeError("a \x1b[31mred\x1b[0m fault")
            case "checkpoint":
                ctx.checkpoint({"at": 1})
                return Done({"big": "x" * 5000})
            case _:
                return Done({"helped": pack.inputs})

    def _stumble(self, what: str) -> None:
        kind, self.fail_next = self.fail_next, ""
        if kind == f"{what} not done":
            raise NotDone("the bank is closed")
        if kind == f"{what} unknown":
            raise TimeoutError("no answer from the bank")
        self.fail_next = kind

    def submit(self, key: str, plan: str = "refund", **inputs: Any) -> Session:
        """Open a session as the producer."""
        return self.broker.submit(plan, task=f"Task of {key}", inputs=inputs, key=key)

    def work(self, *roles: str) -> None:
        """Let the agents of some roles (all of them) do what waits for them."""
        for role in roles or ROLES:
            self._runtime.drain(role)

    def tick(self) -> None:
        """Look once at what is due."""
        Tick(self.broker.app.controller).once()

    def paid(self, key: str = "paid") -> Session:
        """Return a session that ran to its end, its refund approved by Ann."""
        session = self.submit(key, orderId="4711")
        self.work()
        ann = Session(broker_on(self.url, "user:ann"), session.id)
        ann.resolve(1, "approve", version=1, note="fine")
        self.work()
        return session

    def fingerprint(self) -> bytes:
        """Return everything that a command could have changed."""
        catalog = self.broker.app.store.load("").catalog
        return b"".join(export_lines(self.broker, [{"catalog": catalog}]))

    def close(self) -> None:
        """Let go of everything."""
        self._runtime.stop(0)
        self.broker.close()


def broker_on(url: str, by: str = PRODUCER) -> Broker:
    """Return a broker without doorbells."""
    store, doorbell = open_store(url), SilentDoorbell()
    return Broker(App(store, Transport("", {}), doorbell, Controller(store, doorbell)), by)
