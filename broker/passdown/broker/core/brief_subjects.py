"""What a session is about: identifiers found in its data, by the names of their fields and by pattern.

A plan says which (`Plan.subjects`). Where it says nothing, fields named like an id count (``id``, ``orderId``,
``order_ids``), under their own names. A text that is itself JSON is looked into as such: tools often answer so.
The work is linear in the data, as patterns are (`plan check` refuses others).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from passdown.broker.core.brief_text import identifier, name
from passdown.contracts.brief import BriefSubject, BriefSubjects, SubjectValue, Touch
from passdown.contracts.plans import Subject

#: How many values of one label are named, and how many labels where the plan names none.
MOST_VALUES, MOST_LABELS = 50, 12
#: How much of one text is searched (characters), how deep data may be, and how often JSON may stand in JSON.
_SEARCHED, _DEEPEST, _NESTED = 262_144, 100, 2
_ID_FIELD = re.compile(r"(?:[A-Za-z][A-Za-z0-9]{0,20}_){0,3}ids?|[a-z][A-Za-z0-9]{0,36}Ids?")
_TOUCHES: tuple[Touch, ...] = ("", "proposed", "write")
_JSON = ("{", "[")
#: Short texts recur (places, states, dates); what is in them is looked up once.
_SHORT, _REMEMBERED = 64, 4_096


@dataclass(slots=True)
class _Seen:
    event: int
    where: str
    written: bool
    touched: Touch = ""

    def rank(self) -> tuple[int, int]:
        """Touched ones first, then those that a write answered, then the others in order."""
        return (-2 * _TOUCHES.index(self.touched) if self.touched else -int(self.written), self.event)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands. ``written``: a write answered it; ``touched``: a write's arguments hold it."""

    event: int
    where: str
    touched: Touch = ""
    written: bool = False


class Finder:
    """Finds subjects in one value after the other."""

    def __init__(self, subjects: dict[str, Subject]) -> None:
        self._subjects = subjects
        self._labels: dict[str, list[str]] = {}
        for label, one in subjects.items():
            for field in one.fields:
                self._labels.setdefault(field, []).append(label)
        self._keys: dict[str, tuple[list[str], list[tuple[str, str]]]] = {}
        self._patterns = list(_compiled(subjects))
        self._any = _any_of(self._patterns)
        self._found: dict[str, dict[str, _Seen]] = {label: {} for label in subjects}
        self._odd: dict[str, int] = {}
        self._short: dict[str, list[tuple[str, str]]] = {}
        self._unsearched = 0

    def look(self, value: Any, place: Place) -> None:
        """Note the subjects in JSON data that stands at a place."""
        for label, found in self.named(value):
            seen = self._found.setdefault(label, {}).get(found)
            if seen is None:
                seen = self._found[label][found] = _Seen(place.event, place.where, place.written)
            seen.written = seen.written or place.written
            if _TOUCHES.index(place.touched) > _TOUCHES.index(seen.touched):
                seen.touched = place.touched

    def named(self, value: Any) -> list[tuple[str, str]]:
        """Return each subject in JSON data: its label and the identifier."""
        found: list[tuple[str, str]] = []
        self._walk(value, 0, 0, found)
        return found

    def _walk(self, value: Any, depth: int, nested: int, found: list[tuple[str, str]]) -> None:
        # Decoded JSON has exactly these types; this runs on every value of a log.
        kind = cast("type[object]", type(value))
        if kind is str:
            self._text(value, nested, found)
        elif kind is not dict and kind is not list:
            return
        elif depth >= _DEEPEST:
            self._unsearched += 1
        elif kind is dict:
            self._object(value, depth, nested, found)
        else:
            for below in cast("list[Any]", value):
                self._walk(below, depth + 1, nested, found)

    def _object(self, value: dict[str, Any], depth: int, nested: int, found: list[tuple[str, str]]) -> None:
        keys, short = self._keys, self._short
        for key, below in value.items():
            labels, named = keys.get(key) or self._key(key)
            if labels:
                self._fields(labels, below, found)
            if named:
                found += named
            kind = cast("type[object]", type(below))
            if kind is str:
                hits = short.get(below)
                if hits is None:
                    self._text(below, nested, found)
                elif hits:
                    found += hits
            elif kind is dict or kind is list:
                self._walk(below, depth + 1, nested, found)

    def _key(self, key: str) -> tuple[list[str], list[tuple[str, str]]]:
        """Return the labels of a field, and what its name itself names; fields recur, so that is looked up once."""
        labels = self._labels.get(key, [])
        if not self._subjects and len(key) <= _SHORT and _ID_FIELD.fullmatch(key):
            labels = [key]
        known = labels, self._matches(key) if self._patterns else []
        if len(self._keys) < _REMEMBERED:
            self._keys[key] = known
        return known

    def _fields(self, labels: list[str], value: Any, found: list[tuple[str, str]]) -> None:
        for one in cast("list[Any]", value) if isinstance(value, list) else [value]:
            named = identifier(one)
            if named is not None:
                found += [(label, named) for label in labels]
            elif isinstance(one, str) and one:
                for label in labels:
                    self._odd[label] = self._odd.get(label, 0) + 1

    def _text(self, text: str, nested: int, found: list[tuple[str, str]]) -> None:
        if text[:1] in _JSON and nested < _NESTED and len(text) <= _SEARCHED:
            try:
                inside = msgspec.json.decode(text)
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
                inside = None
            if inside is not None:
                self._walk(inside, 0, nested + 1, found)
                return
        if self._patterns:
            found += self._matches(text)

    def _matches(self, text: str) -> list[tuple[str, str]]:
        if len(text) > _SHORT:
            self._unsearched += len(text) > _SEARCHED
            return self._search(text[:_SEARCHED])
        found = self._short.get(text)
        if found is None:
            found = self._search(text)
            if len(self._short) < _REMEMBERED:
                self._short[text] = found
        return found

    def _search(self, text: str) -> list[tuple[str, str]]:
        if self._any is not None and self._any.search(text) is None:
            return []
        return [
            (label, found)
            for label, pattern in self._patterns
            for match in pattern.finditer(text)
            if (found := identifier(match[0])) is not None
        ]

    def subjects(self, unkept: int) -> BriefSubjects:
        """Return what was found; `unkept` results are not in the log."""
        labels = list(self._found)
        return BriefSubjects(
            labels=[self._subject(label) for label in labels[: self._most_labels()]],
            unkept=unkept,
            unsearched=self._unsearched,
            more_labels=max(0, len(labels) - self._most_labels()),
        )

    def _most_labels(self) -> int:
        return len(self._subjects) or MOST_LABELS

    def _subject(self, label: str) -> BriefSubject:
        found = self._found[label]
        first = sorted(found, key=lambda value: found[value].rank())
        return BriefSubject(
            label=name(label),
            values=[
                SubjectValue(
                    value=value,
                    event=found[value].event,
                    where=found[value].where,
                    touched=found[value].touched,
                )
                for value in first[:MOST_VALUES]
            ],
            left_out=max(0, len(first) - MOST_VALUES),
            odd=self._odd.get(label, 0),
        )


def _compiled(subjects: dict[str, Subject]) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield each pattern; one that does not compile is of no registered plan, and finds nothing."""
    for label, one in subjects.items():
        if one.pattern:
            try:
                yield label, re.compile(one.pattern)
            except re.error:
                continue


def _any_of(patterns: list[tuple[str, re.Pattern[str]]]) -> re.Pattern[str] | None:
    """Return one pattern that finds whether any of them finds something; most texts have nothing.

    None where they cannot be put together: a group may be referred to by its number.
    """
    if any(pattern.groups for _, pattern in patterns):
        return None
    try:
        return re.compile("|".join(f"(?:{pattern.pattern})" for _, pattern in patterns))
    except re.error:
        return None
