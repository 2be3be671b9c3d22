"""The branches of a session, and theirs: found in a store by the logs of those who opened them (DESIGN §8)."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from passdown.broker.catalog import CatalogCache
from passdown.broker.logbook import events, read_logged
from passdown.broker.stores.base import Loaded, Store
from passdown.contracts.codec import Record, decode
from passdown.contracts.errors import ContractError, PlanError
from passdown.contracts.ids import branch_id
from passdown.contracts.join_events import BranchesOpened, FannedOut
from passdown.contracts.plans import PlanRef

#: What an event that says how many branches there may be has in its bytes.
_MARKS = (b'"FannedOut"', b'"BranchesOpened"')


class Fan(Record, frozen=True, kw_only=True):
    """A fan-out of a session: of its branches those before ``places`` may exist, and do once the session is over."""

    join_id: str
    places: int

    def ids(self) -> Iterator[str]:
        """Yield the ids of its branches, by place."""
        return (branch_id(self.join_id, place) for place in range(self.places))


class Member(NamedTuple):
    """A session of a tree, as it stood."""

    session_id: str
    loaded: Loaded


class _Pinned(msgspec.Struct, frozen=True):
    """What is read of a state: its plan."""

    plan: PlanRef


def fans_of(log: Iterable[bytes]) -> list[Fan]:
    """Return the fan-outs of a session by its log, in order. Raises ContractError."""
    places: dict[str, int] = {}
    for raw in log:
        if not any(mark in raw for mark in _MARKS):
            continue
        event = read_logged(raw).event
        if isinstance(event, FannedOut | BranchesOpened):
            places[event.join_id] = event.opening
    return [Fan(join_id=join_id, places=count) for join_id, count in places.items()]


class Branches:
    """Finds branches in a store. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._plans = CatalogCache(store)

    def fans(self, session_id: str, loaded: Loaded) -> list[Fan]:
        """Return the fan-outs of a session as it was loaded; its log is read only where its plan has any.

        Raises ContractError where state or log cannot be read.
        """
        if loaded.state is None or not self._may_fan_out(loaded.state):
            return []
        return fans_of(events(self._store, session_id, until=loaded.version))

    def _may_fan_out(self, state: bytes) -> bool:
        try:
            plan = self._plans.document(decode(state, _Pinned, what="state").plan)
        except PlanError:
            return True  # the log will say
        return any(stage.fan_out for stage in plan.stages.values())

    def tree(self, session_id: str) -> Iterator[Member]:
        """Yield a session, then each of its branches with theirs; those that are not there (yet) are left out.

        One of them at a time is in memory; fan-outs nest a few deep at most. Where a state or a log cannot be
        read that session is the last of its part: its branches are not known.
        """
        loaded = self._store.load(session_id)
        if loaded.state is None:
            return
        yield Member(session_id, loaded)
        try:
            fans = self.fans(session_id, loaded)
        except ContractError:
            return
        for fan in fans:
            for branch in fan.ids():
                yield from self.tree(branch)
