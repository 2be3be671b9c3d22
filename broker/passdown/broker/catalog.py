"""Plans and tool specifications, as `decide` is given them: cached, and looked up again when something was registered.

Documents are kept by digest and never change, so they are cached for good (bounded); which of them is
current under a name changes with each registration, which the store counts (``catalog`` in its answers).
"""

import threading
from collections import OrderedDict
from dataclasses import replace
from typing import TypeVar

from passdown.broker.core.given import Given
from passdown.broker.core.state import State
from passdown.broker.stores.base import Catalog, FindCatalog, FindDocument, Store
from passdown.contracts.codec import Record, decode
from passdown.contracts.errors import NotFound, PlanError
from passdown.contracts.plans import Plan, PlanRef
from passdown.contracts.tools import ToolSpec

_CACHED = 1024

R = TypeVar("R", bound=Record)


class CatalogCache:
    """Reads plans and tools through a cache. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._documents: OrderedDict[str, Record] = OrderedDict()
        self._current = Catalog(version=-1, plans={}, tools={})
        self._givens: dict[str, Given] = {}
        self._givens_of = -1

    def given(self, state: State | None, plan: PlanRef, version: int) -> Given:
        """Return what a decision about `state` needs. `version` is the catalog's, as the store last told it.

        Raises PlanError where the pinned plan is gone.
        """
        current = self.current(version)
        if self._givens_of != current.version:
            self._givens, self._givens_of = {}, current.version
        given = self._givens.get(plan.digest)
        if given is None:
            given = self._givens[plan.digest] = self._given(plan, current)
        pinned = self._pinned(state)
        return replace(given, pinned=pinned) if pinned else given

    def _given(self, plan: PlanRef, current: Catalog) -> Given:
        pinned = self._plan(plan)
        newest_digest = current.plans.get(_newest(current, plan.name), plan.digest)
        newest = None if newest_digest == plan.digest else self._document(newest_digest, Plan)
        names = {grant.tool for stage in pinned.stages.values() for grant in stage.tools}
        registered = {
            name: (digest, self._document(digest, ToolSpec))
            for name, digest in current.tools.items()
            if name in names
        }
        return Given(pinned, newest, registered)

    def current(self, version: int) -> Catalog:
        """Return the names that are current, at least as new as `version`."""
        if self._current.version < version:
            found = self._store.find(FindCatalog())
            assert isinstance(found, Catalog)  # noqa: S101 - the store's contract
            self._current = found
        return self._current

    def plan(self, name: str, version: int) -> PlanRef:
        """Return the reference of ``name`` (its newest version) or ``name@version``; raises NotFound."""
        current = self.current(version)
        full = name if "@" in name else _newest(current, name)
        digest = current.plans.get(full)
        if digest is None:
            raise NotFound("plan", name, f"registered are: {', '.join(sorted(current.plans)) or 'none'}")
        base, _, number = full.rpartition("@")
        return PlanRef(name=base, version=int(number), digest=digest)

    def document(self, ref: PlanRef) -> Plan:
        """Return a plan by its reference; raises PlanError where it is gone."""
        return self._plan(ref)

    def _plan(self, ref: PlanRef) -> Plan:
        try:
            return self._document(ref.digest, Plan)
        except NotFound as error:
            raise PlanError(
                str(ref), [f"its document {ref.digest[:12]} is gone from the store: register it"]
            ) from error

    def _pinned(self, state: State | None) -> dict[str, ToolSpec]:
        if state is None:
            return {}
        wanted = set(state.issued.tools.values()) if state.issued else set[str]()
        wanted |= {effect.tool_digest for effect in state.effects if effect.status in ("unknown", "proposed")}
        return {digest: self._document(digest, ToolSpec) for digest in sorted(wanted)}

    def _document(self, digest: str, kind: type[R]) -> R:
        with self._lock:
            found = self._documents.get(digest)
        if found is None:
            raw = self._store.find(FindDocument(digest=digest))
            if not isinstance(raw, bytes):
                raise NotFound("document", digest[:12])
            found = decode(raw, kind, what=kind.__name__)
            with self._lock:
                self._documents[digest] = found
                while len(self._documents) > _CACHED:
                    self._documents.popitem(last=False)
        if not isinstance(found, kind):
            raise NotFound(kind.__name__, digest[:12])
        return found


def _newest(current: Catalog, name: str) -> str:
    versions = [int(full.rpartition("@")[2]) for full in current.plans if full.rpartition("@")[0] == name]
    return f"{name}@{max(versions)}" if versions else name
