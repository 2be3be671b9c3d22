"""What a worker process runs. It knows no pool: whatever pool there is calls `drain(role)` in its slots.

Make one `Runtime` per process, after it was forked, `start` it, and `stop` it at the end::

    runtime = Runtime(gateway, agents=registry.agents.values(), tools=registry.tools.values())
    runtime.start()
    more = runtime.drain("analyst")  # from any number of threads
    runtime.stop(grace_seconds=30)
"""

import threading
from collections.abc import Callable, Iterable
from typing import Self

import structlog

from passdown.agents.agent import Agent
from passdown.agents.drain import AsyncDrain, PlainDrain, Ring, Turn
from passdown.agents.gate import Gate
from passdown.agents.limits import Stuck, TimeLimits, nobody, unguarded
from passdown.agents.merging import MERGE_AGENT
from passdown.agents.options import Options
from passdown.agents.port import Hooks, Port, no_hooks
from passdown.agents.reducers import AnyReducer
from passdown.agents.registry import Registry
from passdown.agents.renewer import Renewer
from passdown.agents.runner import Runner
from passdown.agents.threads import Threads
from passdown.agents.tools import AnyTool
from passdown.contracts.errors import Unavailable
from passdown.contracts.gateway import Gateway

_log = structlog.get_logger("passdown.agents")


class Runtime:
    """The agents and tools of one process, behind one gateway. Thread-safe; no exception escapes `drain`.

    It also does the merges that are Passdown's own (the role `passdown.contracts.plans.MERGER`).
    """

    def __init__(
        self,
        gateway: Gateway,
        *,
        agents: Iterable[Agent | AnyReducer] = (),
        tools: Iterable[AnyTool] = (),
        options: Options | None = None,
        hooks: Hooks = no_hooks,
        on_stuck: Callable[[Stuck], None] = nobody,
        guard: Callable[[float | None], None] = unguarded,
    ) -> None:
        """Make a runtime; `on_stuck` and `guard` are for whoever owns the process (`TimeLimits`)."""
        self.options = options or Options()
        self.registry = Registry([MERGE_AGENT, *agents, *tools])
        self.port = Port(gateway, hooks=hooks, patience_seconds=self.options.patience_seconds)
        self.threads = Threads(gateway=self.options.gateway_threads, tools=self.options.tool_threads)
        self.gate = Gate()
        self.renewer = Renewer(gateway)
        self.limits = TimeLimits(
            self.options.cancel_grace_seconds, self.threads.gateway.submit, on_stuck, guard
        )
        self.runner = Runner(self.registry, self.port, self.threads, self.renewer, self.limits, self.options)
        self._stopping = threading.Event()
        self._told: Callable[[], bool] = self._stopping.is_set
        #: Set at the end of `stop`: what still runs is no longer waited for.
        self.closed = False

    def start(self) -> None:
        """Publish the tools' specifications. Raises what the gateway raises; nothing runs then."""
        specs = [one.spec for one in self.registry.tools.values()]
        if specs:
            self.port.retried(lambda: self.port.gateway.register_tools(specs))

    def drain(self, role: str, ring: Ring | None = None) -> bool:
        """Take packs of `role` as slots are free, run them, and go on until the queue is empty or the turn over.

        Returns whether packs remained, so that the caller rings on. `ring` is called with the role, at most
        once and as soon as that is known, so that idle slots need not wait for the end of this turn.

        Plain agents run one at a time in the calling thread, async ones up to ``async_slots`` at once. It
        never raises: where the store stays away it is logged, the drain ends, and leases bring packs back.
        """
        agent = self.registry.agents.get(role)
        is_async = agent is not None and agent.is_async
        takes = self.options.turn_takes
        turn = Turn(self, role, ring, takes and (2 * self.options.async_slots if is_async else takes))
        drain = AsyncDrain(self, turn) if is_async else PlainDrain(self, turn)
        try:
            return turn.open and drain.run()
        except Unavailable as error:
            _log.warning("a drain ends: no store", action="drain-ended", role=role, error=str(error))
        except Exception:  # noqa: BLE001  (a pool must not end for it)
            _log.exception("a drain ends", action="drain-failed", role=role)
        return False

    def stop(self, grace_seconds: float = 30.0) -> None:
        """Take nothing any more, wait for what runs, and hand back what does not end within the grace."""
        self.close()
        if not self.gate.wait_empty(grace_seconds):
            self.release_all("the worker shuts down")
            # Async agents wind up now; plain ones cannot be ended and go on until the process does.
            self.threads.loop.wait_idle(2 * self.options.cancel_grace_seconds)
        self.limits.stop()
        self.renewer.stop()
        self.threads.loop.stop()
        self.closed = True

    def close(self) -> None:
        """Take nothing any more; what runs goes on. `stop` does the rest."""
        self._stopping.set()

    def release_all(self, why: str) -> None:
        """Hand back all that is held, counting no failure; agents that were at it are told."""
        self.runner.hurry.set()
        held = self.renewer.held()
        _log.warning("claims are released unfinished", action="released", claims=len(held))
        for claim in held:
            self.runner.release(claim, why)

    @property
    def stopping(self) -> bool:
        """Whether the runtime was told to stop."""
        return self._stopping.is_set() or self._told()

    def heed(self, told: Callable[[], bool]) -> None:
        """Take nothing new as soon as `told` says so, too: whoever stops this runtime may be another process."""
        self._told = told

    @property
    def idle(self) -> bool:
        """Whether nothing runs: after `stop` a plain agent may still, and gives its return when it ends."""
        return not self.gate.inside

    def pause(self, seconds: float) -> None:
        """Wait `seconds`, or until the runtime is stopped."""
        self._stopping.wait(seconds)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
