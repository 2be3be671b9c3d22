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
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import Catalog, FindCatalog, FindDocument
from passdown.contracts.codec import Record, decode
from passdown.contracts.errors import NotFound, PlanError
from passdown.contracts.plans import Plan, PlanRef
from passdown.contracts.tools import ToolSpec

_CACHED = 1024

R = TypeVar("R", bound=Record)


class _Names:
    """What is current at one count of registrations, and what decisions were given then, by the plan's digest."""

    def __init__(self, catalog: Catalog) -> None:
        self.version = catalog.version
        self.plans = catalog.plans
        self.tools = catalog.tools
        self.newest: dict[str, int] = {}
        for full in catalog.plans:
            name, _, number = full.rpartition("@")
            self.newest[name] = max(int(number), self.newest.get(name, 0))
        self.givens: dict[str, Given] = {}

    def plan(self, name: str) -> tuple[str, int, str | None]:
        """Return base name, version and digest (None: not registered) of ``name`` or ``name@version``."""
        base, at, number = name.rpartition("@")
        if not at:
            base, number = name, str(self.newest.get(name, 0))
        digest = self.plans.get(f"{base}@{number}")
        return base, int(number) if digest else 0, digest


class CatalogCache:
    """Reads plans and tools through a cache. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._documents: OrderedDict[str, Record] = OrderedDict()
        self._names = _Names(Catalog(version=-1, plans={}, tools={}))
        #: What the store last said about registrations.
        self._heard = -1

    def heard(self, version: int) -> None:
        """Note the count of registrations that the store told just now: decisions from here on know of them."""
        self._heard = max(self._heard, version)

    def given(self, state: State | None, plan: PlanRef, version: int) -> tuple[Given, int]:
        """Return what a decision about `state` needs, and how many registrations that knows of.

        `version` counts them as the store told with `state`. Raises PlanError where the pinned plan is gone.
        """
        names = self._at_least(version)
        given = names.givens.get(plan.digest)
        if given is None:
            given = self._given(plan, names)
            if len(names.givens) >= _CACHED:
                names.givens.clear()
            names.givens[plan.digest] = given
        pinned = self._pinned(state)
        return (replace(given, pinned=pinned) if pinned else given), names.version

    def _given(self, plan: PlanRef, names: _Names) -> Given:
        pinned = self.document(plan)
        _, _, newest_digest = names.plan(plan.name)
        newest = None if newest_digest in (None, plan.digest) else self._document(newest_digest or "", Plan)
        granted = {one.tool for stage in pinned.stages.values() for one in (*stage.tools, *stage.permits)}
        registered = {
            name: (names.tools[name], self._document(names.tools[name], ToolSpec))
            for name in sorted(granted)
            if name in names.tools
        }
        return Given(pinned, newest, registered)

    def _at_least(self, version: int) -> _Names:
        """Return the current names, at least as new as `version` and as what was heard since."""
        names = self._names
        if names.version < max(version, self._heard):
            found = self._store.find(FindCatalog())
            assert isinstance(found, Catalog)  # noqa: S101 - the store's contract
            with self._lock:
                if found.version > self._names.version:
                    self._names = _Names(found)
                names = self._names
        return names

    def plan(self, name: str, version: int) -> PlanRef:
        """Return the reference of ``name`` (its newest version) or ``name@version``; `version` counts registrations.

        Raises NotFound.
        """
        names = self._at_least(version)
        base, number, digest = names.plan(name)
        if digest is None:
            raise NotFound("plan", name, f"registered are: {_listed(names)}")
        return PlanRef(name=base, version=number, digest=digest)

    def versions(self, name: str, version: int) -> list[PlanRef]:
        """Return every registered version of ``name``, or the one of ``name@version``, the newest first.

        `version` counts registrations.
        """
        found: list[PlanRef] = []
        for known, digest in self._at_least(version).plans.items():
            base, _, number = known.rpartition("@")
            if name in (base, known):
                found.append(PlanRef(name=base, version=int(number), digest=digest))
        return sorted(found, key=lambda ref: -ref.version)

    def document(self, ref: PlanRef) -> Plan:
        """Return a plan by its reference; raises PlanError where it is gone."""
        try:
            return self._document(ref.digest, Plan)
        except NotFound as error:
            raise PlanError(
                str(ref), [f"its document {ref.digest[:12]} is gone from the store: register it"]
            ) from error

    def _pinned(self, state: State | None) -> dict[str, ToolSpec]:
        if state is None or not (state.effects or (state.issued and state.issued.tools)):
            return {}
        wanted = set(state.issued.tools.values()) if state.issued else set[str]()
        asked = {ticket.about for ticket in state.tickets if ticket.kind == "unmet"}
        wanted |= {
            effect.tool_digest
            for effect in state.effects
            if effect.status in ("unknown", "proposed") or effect.effect_id in asked
        }
        return {digest: self._document(digest, ToolSpec) for digest in sorted(wanted)}

    def _document(self, digest: str, kind: type[R]) -> R:
        with self._lock:
            found = self._documents.get(digest)
            if found is not None:
                self._documents.move_to_end(digest)
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


_LISTED = 20


def _listed(names: _Names) -> str:
    known = sorted(names.plans)
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"{', '.join(known[:_LISTED]) or 'none'}{more}"
