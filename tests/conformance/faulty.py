"""A store that fails when told to: before it wrote, after it wrote, or by a conflict that is none.

::

    store = FaultyStore(inner, Script("after", None, "before"))  # the first three calls, then none fails
    store = FaultyStore(inner, Chance(seed=7, rate=0.2))  # one call in five, the same ones each time

A caller that retries by command id must end where it would have ended without faults.
"""

import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Literal, TypeVar

from passdown.broker.stores import base, queries
from passdown.contracts.errors import Unavailable

T = TypeVar("T")

#: "before": Unavailable, and nothing was written. "after": Unavailable, and all was written, the reply is lost.
#: "stale": every commit of the call is answered with a conflict, although nothing moved; a take with it is done.
Fault = Literal["before", "after", "stale"]
#: Asked with the method's name before each call that reaches the store.
FaultPlan = Callable[[str], Fault | None]


class Script:
    """Gives these faults to the calls in turn (None: the call goes well), and none after that.

    With ``only`` other methods go well and use up nothing.
    """

    def __init__(self, *faults: Fault | None, only: Collection[str] = ()) -> None:
        self._faults = deque(faults)
        self._only = only

    def __call__(self, method: str) -> Fault | None:
        if not self._faults or (self._only and method not in self._only):
            return None
        return self._faults.popleft()


class Chance:
    """Gives one of ``faults`` to a share of ``rate`` of the calls; one seed always gives the same ones."""

    def __init__(
        self, *, seed: int, rate: float, faults: tuple[Fault, ...] = ("before", "after", "stale")
    ) -> None:
        self._random = random.Random(seed)
        self._rate = rate
        self._faults = faults

    def __call__(self, method: str) -> Fault | None:
        return self._random.choice(self._faults) if self._random.random() < self._rate else None


class FaultyStore:
    """`inner` with the faults of `plan`. ``given`` lists the faults so far, as (method, fault)."""

    def __init__(self, inner: base.Store, plan: FaultPlan) -> None:
        self.inner = inner
        self.plan = plan
        self.given: list[tuple[str, Fault]] = []

    @property
    def shards(self) -> int:
        return self.inner.shards

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> base.Loaded:
        return self._call("load", lambda: self.inner.load(session_id, command_id, command_digest))

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        def conflict() -> tuple[list[base.Outcome], base.Taken | None]:
            stale = [base.Stale(version=self.inner.load(one.session_id).version) for one in commits]
            return [*stale], self.inner.commit([], take)[1]

        return self._call("commit", lambda: self.inner.commit(commits, take), conflict)

    def take(self, request: base.TakeRequest) -> base.Taken:
        return self._call("take", lambda: self.inner.take(request))

    def hand_back(self, back: base.HandBack) -> None:
        self._call("hand_back", lambda: self.inner.hand_back(back))

    def renew(self, renewals: list[base.Renewal]) -> list[base.Verdict]:
        return self._call("renew", lambda: self.inner.renew(renewals))

    def due(self, request: base.DueRequest) -> base.Dues:
        return self._call("due", lambda: self.inner.due(request))

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        return self._call("events", lambda: self.inner.events(session_id, after, limit))

    def find(self, query: queries.Query) -> queries.Found:
        return self._call("find", lambda: self.inner.find(query))

    def put(self, what: base.Put) -> None:
        self._call("put", lambda: self.inner.put(what))

    def close(self) -> None:
        self.inner.close()

    def _call(self, method: str, act: Callable[[], T], conflict: Callable[[], T] | None = None) -> T:
        fault = self.plan(method)
        if fault is None or (fault == "stale" and conflict is None):
            return act()
        self.given.append((method, fault))
        if fault == "stale" and conflict is not None:
            return conflict()
        if fault == "after":
            act()
            raise Unavailable("the faulty store", f"the reply to {method} was lost")
        raise Unavailable("the faulty store", f"{method} was refused before anything was written")
