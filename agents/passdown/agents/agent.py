"""`@agent`: the function that does the work of a role, plain or ``async``: ``(pack, ctx) -> result``.

A plain function gets a `SyncContext` and runs in the drain's own thread, one at a time; an ``async def``
gets a `Context` and shares the process's event loop with hundreds of others, so it must not block.
"""

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import Any

from passdown.agents.context import Context, SyncContext
from passdown.agents.durations import seconds_of
from passdown.agents.results import AgentResult
from passdown.contracts.errors import ContractError
from passdown.contracts.gateway import AgentInfo
from passdown.contracts.pack import Pack
from passdown.contracts.plans import MERGER, REDUCER

AsyncAgent = Callable[[Pack, Context], Awaitable[AgentResult]]
SyncAgent = Callable[[Pack, SyncContext], AgentResult]

_ROLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,119}")


class Agent:
    """An agent: its function, its role, and what it says about itself in `Claimed` and `Returned`."""

    def __init__(
        self,
        fn: Callable[[Pack, Any], Any],
        role: str,
        *,
        version: str = "",
        model: str = "",
        time_limit_seconds: float | None = None,
    ) -> None:
        self.fn = fn
        self.role = role
        self.time_limit_seconds = time_limit_seconds
        self.is_async = awaits(fn)
        self.__doc__ = fn.__doc__
        self.__name__ = str(getattr(fn, "__name__", role))
        self.__module__ = fn.__module__
        self.info = AgentInfo(name=self.__name__, version=version, model=model)

    def __call__(self, pack: Pack, ctx: Any) -> Any:
        """Call the function itself; `passdown.agents.testing` has contexts for that."""
        return self.fn(pack, ctx)

    def __repr__(self) -> str:
        return f"<agent of {self.role} at {self.__module__}.{self.__name__}>"


def agent(
    role: str, *, version: str = "", model: str = "", time_limit: str | float | None = None
) -> Callable[[AsyncAgent | SyncAgent], Agent]:
    """Make an agent of a function.

    `version` and `model` are recorded with each claim and return. `time_limit` (``"10m"``, or seconds)
    bounds one run; where the stage has one as well, the smaller wins. An async agent is cancelled, a plain
    one cannot be: it is reported as failed, its lease is given up, and its thread is free again only when
    the function returns. Without a limit an agent that never returns keeps its lease until the stage's
    deadline.

    Raises ContractError where the role or the limit cannot be used.
    """
    if not _ROLE.fullmatch(role):
        raise ContractError(f"agent {role!r}", "a role is letters, digits and _ . / -")
    _require_free(role)
    limit = None if time_limit is None else seconds_of(time_limit, what=f"time_limit of agent {role!r}")

    def make(fn: AsyncAgent | SyncAgent) -> Agent:
        return Agent(fn, role, version=version, model=model, time_limit_seconds=limit)

    return make


def _require_free(role: str) -> None:
    """Raise ContractError for the roles of merges that are no agent's."""
    if role == MERGER:
        raise ContractError(
            f"agent {role!r}",
            "this role is Passdown's own, it merges by collect, first and vote; name another role as `merge`",
        )
    if role.startswith(REDUCER):
        raise ContractError(
            f"agent {role!r}", f"these roles are those of reducers: @reducer({role.removeprefix(REDUCER)!r})"
        )


def awaits(fn: Callable[..., Any]) -> bool:
    """Return whether what `fn` returns is to be awaited."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004
