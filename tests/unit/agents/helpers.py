"""What the tests of `passdown.agents` share."""

import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

from passdown.agents import Agent, Options, Runtime
from passdown.agents.claim import ActiveClaim
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.port import Hooks, Port, no_hooks
from passdown.agents.tools import AnyTool
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import AgentInfo, Gateway
from passdown.contracts.pack import Pack

#: Short waits, so that what is tested to end does so soon.
QUICK = Options(
    linger_seconds=0,
    poll_seconds=0.02,
    cancel_grace_seconds=0.5,
    verify_seconds=0.2,
    patience_seconds=2,
    solo_wait_seconds=0.05,
    hand_back_seconds=60,
)


def wait_until(condition: Callable[[], object], what: str, seconds: float = 10.0) -> None:
    """Wait until `condition` holds."""
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, f"not within {seconds} s: {what}"
        time.sleep(0.002)


class Flaky:
    """A gateway whose calls fail as planned: ``before`` they act, or ``after`` (the reply is lost)."""

    def __init__(self, gateway: Gateway, plan: Mapping[str, list[Literal["before", "after"]]]) -> None:
        self.inner = gateway
        self.plan = {name: list(faults) for name, faults in plan.items()}
        self.asked: list[str] = []
        self._lock = threading.Lock()

    @property
    def gateway(self) -> Gateway:
        return cast(Gateway, self)

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.inner, name)

        def act(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                self.asked.append(name)
                faults = self.plan.get(name)
                fault = faults.pop(0) if faults else ""
            if fault == "before":
                raise Unavailable("store", "as planned, before")
            reply = verb(*args, **kwargs)
            if fault == "after":
                raise Unavailable("store", "as planned, after")
            return reply

        return act


def runtime_of(
    gateway: Gateway,
    *agents: Agent,
    tools: tuple[AnyTool, ...] = (),
    options: Options = QUICK,
    hooks: Hooks = no_hooks,
) -> Runtime:
    return Runtime(gateway, agents=agents, tools=tools, options=options, hooks=hooks)


def claimed(
    pack: Pack, *tools: AnyTool, gateway: MemoryGateway | None = None, port: Port | None = None
) -> tuple[ActiveClaim, Session]:
    """Return a claim that is held on a gateway in memory."""
    broker = gateway or MemoryGateway()
    session = broker.submit(pack)
    broker.register_tools([one.spec for one in tools])
    held = broker.claim(pack, uuid.uuid4().hex, AgentInfo(name="test"))
    return ActiveClaim(pack, held, {one.name: one for one in tools}, port or Port(broker)), session
