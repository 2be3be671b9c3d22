"""Branches side by side, for the person who decides about a join that is short or in conflict."""

from collections.abc import Iterable
from typing import Any, cast

import msgspec

from passdown.broker.answers import no_session
from passdown.broker.controller import Controller
from passdown.broker.core.given import as_object
from passdown.broker.core.join import FINAL, Row
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.core.tickets import redirects
from passdown.broker.joins import reading
from passdown.broker.joins.showing import (
    Fan,
    JoinView,
    branch_view,
    fan_of,
    is_counted,
    join_view,
    namer,
    places,
)
from passdown.broker.logbook import read_logged
from passdown.broker.stores.base import Store
from passdown.contracts import events as ev
from passdown.contracts.codec import Wire, convert, encode
from passdown.contracts.errors import ContractError, NotFound
from passdown.contracts.pack import EffectStatus
from passdown.contracts.returns import EvidenceItem, Uncertainty

#: Branches that stand side by side, names that are told of each value, and values of each field.
SHOWN, _NAMED, _VALUES = 20, 8, 16
#: Events that are read at a time on the way back to a branch's last return.
_BACK = 200


class Said(Wire, frozen=True, kw_only=True):
    """A value, and which branches say it: ``count`` of them, the first by name. A long value is its digest."""

    value: Any
    branches: list[str]
    count: int


class FieldView(Wire, frozen=True, kw_only=True):
    """A field of the outputs and what is said in it.

    ``decides``: the contract wants it to agree, or votes on it; then all branches that count are in it, else those
    that are shown.
    """

    name: str
    decides: bool
    said: list[Said]


class EffectSide(Wire, frozen=True, kw_only=True):
    """A write outside that a branch did, or may have done."""

    effect_id: str
    tool: str
    status: EffectStatus
    args: dict[str, Any] | None = None


class Side(Wire, frozen=True, kw_only=True):
    """One branch: its output, what its agent gives as evidence and as its uncertainty, and the writes that it did.

    ``by`` is whoever gave the output: a worker, or the person who did its last stage.
    """

    place: int
    name: str
    session_id: str
    status: str
    counts: bool
    output: Any
    reason: str
    by: str = ""
    evidence: list[EvidenceItem] = []
    uncertainty: Uncertainty | None = None
    effects: list[EffectSide] = []
    waits: list[str] = []


class Comparison(Wire, frozen=True, kw_only=True):
    """The branches of the join that a ticket is about; ``more`` are not among ``sides``.

    ``agree`` and ``differ`` are the fields of their outputs; ``stages`` are those that `redirect` may name.
    """

    ticket: str
    kind: str
    version: int
    queue: str
    why: str
    opened_at: int
    actions: list[str]
    stages: list[str]
    join: JoinView
    agree: list[FieldView]
    differ: list[FieldView]
    sides: list[Side]
    more: int


def compare(controller: Controller, session_id: str, ticket_no: int) -> Comparison:
    """Return what a person decides on. Raises NotFound, and ContractError for a ticket that is about no join."""
    convert([session_id, ticket_no], tuple[str, int], what="ticket")
    held = controller.load(session_id)
    if held.state is None:
        raise no_session(session_id, held.removed)
    ticket = held.state.ticket(ticket_no)
    name = f"{session_id}/{ticket_no}"
    if ticket is None:
        raise NotFound("ticket", name, "it is decided" if ticket_no <= held.state.tickets_opened else "")
    if ticket.kind not in ("conflict", "short"):
        raise ContractError("ticket", f"{name} is about no join: it is of kind {ticket.kind}")
    return _compared(controller, fan_of(controller, session_id, ticket.about), ticket)


def _compared(controller: Controller, fan: Fan, ticket: Ticket) -> Comparison:
    store, state = controller.store, fan.parent
    tally = _Tally(fan)
    rows: list[tuple[int, Row | None]] = []
    for place, row in places(store, fan, 0, fan.join.branches):
        tally.add(row)
        if len(rows) < SHOWN or place in tally.first:
            rows.append((place, row))
    shown = sorted(sorted(rows, key=lambda one: one[0] not in tally.first)[:SHOWN], key=lambda one: one[0])
    names = namer(store, fan)
    sides = [_side(store, fan, place, row, names(place)) for place, row in shown]
    fields = _fields(tally, sides)
    plan = controller.catalog.document(state.plan)
    targets = redirects(plan, state)
    return Comparison(
        ticket=f"{state.session_id}/{ticket.ticket_no}",
        kind=ticket.kind,
        version=ticket.version,
        queue=ticket.queue,
        why=ticket.why,
        opened_at=ticket.opened_at,
        actions=list(ticket.actions),
        stages=targets,
        join=join_view(fan),
        agree=[one for one in fields if len(one.said) == 1],
        differ=[one for one in fields if len(one.said) > 1],
        sides=sides,
        more=fan.join.branches - len(sides),
    )


class _Tally:
    """What all branches that count say in the fields that decide; ``first`` are the places that first said a value."""

    def __init__(self, fan: Fan) -> None:
        self._fan = fan
        self._voted = fan.contract.vote_on if fan.contract.merge == "vote" else []
        self.whole = fan.contract.merge == "vote" and not self._voted
        self.said: dict[str, dict[str, tuple[int, list[str]]]] = {
            name: {} for name in dict.fromkeys((*fan.contract.conflict, *self._voted))
        }
        self._votes: set[str] = set()
        self.first: set[int] = set()

    def add(self, row: Row | None) -> None:
        if row is None or row.outcome != "done" or not row.about.gave or not is_counted(self._fan, row):
            return
        for name, value in self._values(row).items():
            known = self.said[name]
            if value not in known:
                self._note_first(row.place, len(known))
            if value in known or len(known) < _VALUES:
                count, named = known.get(value, (0, []))
                known[value] = (count + 1, [*named, row.branch] if len(named) < _NAMED else named)
        if row.about.vote not in self._votes:
            self._note_first(row.place, len(self._votes))
            self._votes.add(row.about.vote)

    def _note_first(self, place: int, known: int) -> None:
        if known < _VALUES:
            self.first.add(place)

    def _values(self, row: Row) -> dict[str, str]:
        found = dict(row.about.agree)
        voted = _json(row.about.vote) if self._voted else None
        if isinstance(voted, list):
            values = cast("list[Any]", voted)
            found |= {name: encode(one).decode() for name, one in zip(self._voted, values, strict=False)}
        elif self._voted:  # a long vote stands there as its digest
            found |= {name: row.about.vote for name in self._voted if name not in found}
        return found


def _json(text: str) -> Any:
    """Return what stands in a row: JSON, or a digest, which is text."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _fields(tally: _Tally, sides: list[Side]) -> list[FieldView]:
    """Return the fields that decide, then all others of the outputs that are shown."""
    found = [
        FieldView(
            name=name,
            decides=True,
            said=[
                Said(value=_json(value), branches=names, count=count)
                for value, (count, names) in sorted(said.items(), key=lambda one: -one[1][0])
            ],
        )
        for name, said in tally.said.items()
        if said
    ]
    outputs = {side.name: as_object(side.output) for side in sides if side.output is not None}
    names = dict.fromkeys(name for output in outputs.values() for name in output)
    for name in names:
        if name not in tally.said:
            said = _said((branch, output.get(name)) for branch, output in outputs.items())
            found.append(FieldView(name=name, decides=tally.whole, said=said))
    return found


def _said(pairs: Iterable[tuple[str, Any]]) -> list[Said]:
    found: dict[bytes, Said] = {}
    for branch, value in pairs:
        key = encode(value)
        known = found.get(key, Said(value=value, branches=[], count=0))
        names = [*known.branches, branch] if len(known.branches) < _NAMED else known.branches
        found[key] = Said(value=value, branches=names, count=known.count + 1)
    return sorted(found.values(), key=lambda one: -one.count)


def _side(store: Store, fan: Fan, place: int, row: Row | None, name: str) -> Side:
    state = None if place >= fan.join.opening else reading.branch_state(store, fan.join.join_id, place)
    view = branch_view(fan, place, row, state, lambda _: name)
    ended = row is not None and row.outcome in FINAL
    by, last = _last_given(store, state) if state else ("", None)
    return Side(
        place=place,
        name=view.name,
        session_id=view.session_id,
        status=view.status,
        counts=view.counts,
        output=state.outcome.output if ended and state and state.outcome else None,
        reason=view.reason,
        by=by,
        evidence=last.body.evidence if last else [],
        uncertainty=last.body.uncertainty if last else None,
        effects=_effects(state) if state else [],
        waits=[one.what for one in view.waits],
    )


def _effects(state: State) -> list[EffectSide]:
    return [
        EffectSide(effect_id=one.effect_id, tool=one.tool, status=one.status, args=one.edited or one.args)
        for one in state.effects
        if one.status in ("done", "intended", "unknown")
    ]


def _last_given(store: Store, state: State) -> tuple[str, ev.Returned | None]:
    """Return who gave the branch's output, and the last return; that is none where a person gave it."""
    upto = state.seq
    while upto > 0:
        after = max(0, upto - _BACK)
        for raw in reversed(store.events(state.session_id, after=after, limit=upto - after)):
            logged = read_logged(raw)
            match logged.event:
                case ev.TicketResolved(resolution="complete"):
                    return logged.by, None
                case ev.Returned() as returned:
                    return logged.by, returned
                case _:
                    pass
        upto = after
    return "", None
