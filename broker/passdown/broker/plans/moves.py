"""`next` as authors write it → the moves as they are stored.

Four forms: a stage; ``{ field = …, value = stage, … }``; ``{ suggest = [stages] }``; and
``{ done = stage, refused = stage, … }``, whose results other than `done` are the stage's ``on_…``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from passdown.broker.plans.faults import Fault, closest, place, show
from passdown.contracts.plans import Next

#: What may stand in a map from result to stage, and the field of a stage that it means.
ON_RESULT = {"refused": "on_refused", "denied": "on_denied", "failed": "on_failed"}
_ELSEWHERE = {
    "needs-input": "name whom to ask as `ask`",
    "escalate": "name the path as `escalation`",
}


@dataclass(slots=True)
class Moves:
    """What `next` said; ``on`` holds moves by result; ``renamed`` the place that each stored place was written at."""

    next: Next = field(default_factory=Next)
    on: dict[str, str] = field(default_factory=dict[str, str])
    faults: list[Fault] = field(default_factory=list[Fault])
    renamed: dict[str, str] = field(default_factory=dict[str, str])


def moves_of(stage: str, written: str | Mapping[str, str | Sequence[str]] | None) -> Moves:
    """Return the moves that a stage's `next` says."""
    if written is None:
        return Moves()
    if isinstance(written, str):
        return Moves(Next(to=written))
    if "field" in written:
        return _by_field(stage, written)
    return _by_result(stage, written)


def _by_field(stage: str, written: Mapping[str, str | Sequence[str]]) -> Moves:
    moves = Moves()
    named = written["field"]
    cases: dict[str, str] = {}
    for value, target in written.items():
        if value != "field" and _is_stage(moves, place("stages", stage, "next", value), target):
            cases[value] = cast(str, target)
    if not isinstance(named, str):
        moves.faults.append(
            Fault(place("stages", stage, "next", "field"), f"expected a field's name, got {show(named)}")
        )
    else:
        moves.next = Next(field=named, cases=cases)
    return moves


def _by_result(stage: str, written: Mapping[str, str | Sequence[str]]) -> Moves:
    moves = Moves()
    here = place("stages", stage, "next")
    to: str | None = None
    suggest: list[str] = []
    for key, target in written.items():
        where = place("stages", stage, "next", key)
        if key == "suggest":
            suggest = _suggestions(moves, where, target)
        elif key in _ELSEWHERE:
            moves.faults.append(Fault(where, f"{show(key)} leads to no stage", _ELSEWHERE[key]))
        elif key != "done" and key not in ON_RESULT:
            mend = f"{closest(key, ['done', *ON_RESULT])} (by a field of the output, it needs `field`)"
            moves.faults.append(Fault(where, f"{show(key)} is no result", mend))
        elif _is_stage(moves, where, target):
            if key == "done":
                to = cast(str, target)
                moves.renamed[here] = where
            else:
                moves.on[ON_RESULT[key]] = cast(str, target)
                moves.renamed[place("stages", stage, ON_RESULT[key])] = where
    if not written:
        moves.faults.append(Fault(here, "an empty table says nothing", "leave `next` out to end the session"))
    moves.next = Next(to=to, suggest=suggest)
    return moves


def _suggestions(moves: Moves, where: str, target: str | Sequence[str]) -> list[str]:
    listed = cast("list[object]", list(target)) if isinstance(target, list | tuple) else []
    names = [one for one in listed if isinstance(one, str)]
    if not names or len(names) < len(listed):
        moves.faults.append(
            Fault(where, f"expected a list of stages, got {show(target)}", 'write suggest = ["a", "b"]')
        )
    return names


def _is_stage(moves: Moves, where: str, target: object) -> bool:
    if isinstance(target, str):
        return True
    moves.faults.append(Fault(where, f"expected a stage, got {show(target)}"))
    return False
