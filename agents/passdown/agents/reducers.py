"""`@reducer`: a function that merges the branches of a fan-out one by one (DESIGN §8, ``merge = "reduce:NAME"``).

::

    @reducer("total")
    def total(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
        cents = so_far["cents"] if so_far else 0
        return {"cents": cents + branch.output["cents"]}

It is called for each branch that counts, in the order of their places, with what it returned for the one
before (None for the first); what it returns for the last is the output of the merge. Where no branch counts
it is not called, and the output is ``{}``. Branches come page by page, so that a reducer which keeps little
takes little memory, however many there are. Like an agent it is run again when its worker is lost.
"""

import contextlib
import functools
import inspect
import re
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Generic, TypeVar, cast

from passdown.agents.agent import Agent, awaits
from passdown.agents.context import Context, SyncContext
from passdown.agents.durations import seconds_of
from passdown.agents.jsonable import as_json
from passdown.agents.results import Broken, Done, fits_return
from passdown.contracts.errors import ContractError
from passdown.contracts.gateway import BranchResult
from passdown.contracts.pack import Pack
from passdown.contracts.plans import REDUCER

#: What a reducer returns: a dict, or, where it is ``async``, what a dict is awaited of.
R = TypeVar("R", bound=dict[str, Any] | Awaitable[dict[str, Any]])
Fold = Callable[[dict[str, Any] | None, BranchResult], R]

#: As plans name functions, with `REDUCER` before it at most as long as a role.
_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*")
_LONGEST = 100 - len(REDUCER)


class Reducer(Generic[R]):
    """A reducer: its function, which is called as before, and the ``agent`` that runs it over branches."""

    def __init__(
        self, fold: Fold[R], name: str, *, version: str = "", time_limit_seconds: float | None = None
    ) -> None:
        self.fold = fold
        self.name = name
        run = _run_async if awaits(fold) else _run_plain
        self.agent = Agent(
            run(cast("Any", fold), name),
            f"{REDUCER}{name}",
            version=version,
            time_limit_seconds=time_limit_seconds,
        )
        self.__doc__ = fold.__doc__
        self.__name__ = self.agent.__name__
        self.__module__ = fold.__module__

    def __call__(self, so_far: dict[str, Any] | None, branch: BranchResult) -> R:
        """Call the function itself."""
        return self.fold(so_far, branch)

    def __repr__(self) -> str:
        return f"<reducer {self.name} at {self.__module__}.{self.__name__}>"


AnyReducer = Reducer[Any]


def reducer(
    name: str, *, version: str = "", time_limit: str | float | None = None
) -> Callable[[Fold[R]], Reducer[R]]:
    """Make a reducer of a plain or ``async`` function, for joins with ``merge = "reduce:NAME"``.

    `version` and `time_limit` are those of `agent`; the limit bounds one run over all branches. What the
    function raises is a failed attempt, and so is what it returns that is no dict, no JSON, or over budget.

    Raises ContractError where the name or the limit cannot be used.
    """
    what = f"reducer {name!r}"
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise ContractError(
            what, f"a name is lower-case words joined by - _ or . (at most {_LONGEST} characters)"
        )
    limit = None if time_limit is None else seconds_of(time_limit, what=f"time_limit of {what}")

    def make(fold: Fold[R]) -> Reducer[R]:
        return Reducer(fold, name, version=version, time_limit_seconds=limit)

    return make


def _run_plain(fold: Callable[..., Any], name: str) -> Callable[[Pack, Any], Any]:
    @functools.wraps(fold)
    def run(_pack: Pack, ctx: SyncContext) -> Done:
        so_far: dict[str, Any] | None = None
        for branch in ctx.branches():
            with _at(name, branch):
                found = fold(so_far, branch)
            so_far = _state(name, branch, found)
        return _result(name, so_far)

    return run


def _run_async(fold: Callable[..., Any], name: str) -> Callable[[Pack, Any], Any]:
    @functools.wraps(fold)
    async def run(_pack: Pack, ctx: Context) -> Done:
        so_far: dict[str, Any] | None = None
        async for branch in ctx.branches():
            with _at(name, branch):
                found = await fold(so_far, branch)
            so_far = _state(name, branch, found)
        return _result(name, so_far)

    return run


@contextlib.contextmanager
def _at(name: str, branch: BranchResult) -> Generator[None]:
    """Have what is raised say where that was."""
    try:
        yield
    except Exception as error:
        error.add_note(f"reducer {name!r} was at branch {branch.branch!r}")
        raise


def _state(name: str, branch: BranchResult, found: object) -> dict[str, Any]:
    if isinstance(found, dict):
        return cast("dict[str, Any]", found)
    if inspect.iscoroutine(found):
        found.close()
    given = type(found).__name__
    raise Broken(
        ContractError(f"reducer {name!r}", f"at branch {branch.branch!r} it returned {given}, not a dict")
    )


def _result(name: str, so_far: dict[str, Any] | None) -> Done:
    what = f"the result of reducer {name!r}"
    try:
        output = as_json(so_far or {}, what=what)
        fits_return(output, what=what)
    except ContractError as error:
        raise Broken(error) from error
    return Done(output)
