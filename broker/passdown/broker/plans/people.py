r"""The parts of a plan that are about people, as authors write them: who may take a ticket, by when, what they may permit.

    calendars={"office": Calendar(zone="Europe/Berlin", weekdays=["09:00-17:00"], hours={"fri": ["09:00-14:00"]})},
    subjects={"account": "user_id", "reservation": Subject(pattern=r"\b[A-Z0-9]{6}\b")},
    stages={
        "ask": HumanStage(
            queue="approvers",
            people=People(candidates=["group:leads"], skills=["{inputs.language}"], due="4h", calendar="office"),
            overdue=Overdue(after="8h", to="fail"),
        ),
    }

Each is turned into its stored form here, but for schemas and what depends on the rest of the plan.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, cast

from pydantic import Discriminator, PlainValidator, Tag
from pydantic_core import PydanticCustomError

from passdown.broker.core.calendar import DAYS
from passdown.broker.plans import wording
from passdown.broker.plans.durations import Duration, seconds
from passdown.broker.plans.faults import show
from passdown.broker.plans.shape import Authored, Flag
from passdown.contracts import plans as stored

#: The days that ``weekdays`` stands for.
WEEKDAYS = DAYS[:5]

_SPAN = re.compile(r"([0-9]{2}):([0-5][0-9])-([0-9]{2}):([0-5][0-9])")
_SPAN_MEND = 'write from when to when, as in "09:00-17:30"'


def _span(value: Any) -> str:
    if not isinstance(value, str) or _SPAN.fullmatch(value) is None:
        raise _wrong(f"{show(value)} is no span of hours", _SPAN_MEND)
    return value


def _day(value: Any) -> str | date:
    if isinstance(value, str) or (isinstance(value, date) and not isinstance(value, datetime)):
        return value
    raise _wrong(f"{show(value)} is no day", 'write it as "2026-12-25"')


def _fields(value: Any) -> str | Sequence[str]:
    if isinstance(value, str):
        return value
    listed = cast("Sequence[object]", value)
    if not all(isinstance(one, str) for one in listed):
        raise _wrong("not all of these are names of fields", 'write ["user_id", "userId"]')
    return cast("Sequence[str]", value)


def _fields_or_table(value: Any) -> str:
    return wording.NAME_TAG if isinstance(value, str | list | tuple) else wording.TABLE_TAG


def _wrong(problem: str, mend: str) -> PydanticCustomError:
    return PydanticCustomError("passdown", "{problem}", {"problem": problem, "mend": mend})


Span = Annotated[str, PlainValidator(_span)]
Day = Annotated[str | date, PlainValidator(_day)]


class People(Authored):
    """Who may take the tickets of a stage, and how long they have.

    ``candidates`` are users, groups and services (``user:ann``, ``group:legal``); none: whoever serves the queue. All
    ``skills`` are needed; ``{inputs.language}`` in one is filled in as in a goal. ``exclude_initiator``: not even a
    question is answered by whoever submitted the session. ``lease`` is how long a claim lasts without being
    extended; ``due`` is what tickets are sorted by. ``due``, and all of escalation, counts in the hours of ``calendar``.
    """

    candidates: Sequence[str] = ()
    skills: Sequence[str] = ()
    exclude_initiator: Flag = False
    lease: Duration = "15m"
    due: Duration | None = None
    calendar: str = ""


class Overdue(Authored):
    """What follows where nobody resolved a ticket, ``after`` it was opened: it leads ``to`` a stage, or ``fail``."""

    after: Duration
    to: str


class Calendar(Authored):
    """Working hours of a time zone, such as ``Europe/Berlin``; other delays count in them where a stage says so.

    ``hours``: a day (``mon`` … ``sun``) → spans (``09:00-12:30``), up to ``24:00``. ``weekdays`` are those of each day
    from Monday to Friday that ``hours`` does not name. ``holidays`` are days (``2026-12-25``) without hours.
    """

    zone: str
    weekdays: Sequence[Span] = ()
    hours: Mapping[str, Sequence[Span]] = {}
    holidays: Sequence[Day] = ()


class Subject(Authored):
    """What a session is about, for the brief: values of ``fields``, and what ``pattern`` finds in text."""

    fields: Sequence[str] = ()
    pattern: str = ""


AnySubject = Annotated[
    Annotated[str | Sequence[str], PlainValidator(_fields), Tag(wording.NAME_TAG)]
    | Annotated[Subject, Tag(wording.TABLE_TAG)],
    Discriminator(_fields_or_table),
]


def people_of(people: People) -> stored.People:
    """Return who may take tickets, as it is stored."""
    return stored.People(
        candidates=list(people.candidates),
        skills=list(people.skills),
        exclude_initiator=people.exclude_initiator,
        lease_seconds=seconds(people.lease),
        due_seconds=None if people.due is None else seconds(people.due),
        calendar=people.calendar,
    )


def overdue_of(overdue: Overdue | None) -> stored.Overdue | None:
    """Return what ends a path of escalation, as it is stored."""
    return None if overdue is None else stored.Overdue(after_seconds=seconds(overdue.after), to=overdue.to)


def calendar_of(calendar: Calendar) -> stored.Calendar:
    """Return a calendar as it is stored."""
    spans = {name: calendar.weekdays for name in WEEKDAYS if calendar.weekdays} | dict(calendar.hours)
    return stored.Calendar(
        zone=calendar.zone,
        hours={name: [minutes_of(span) for span in listed] for name, listed in spans.items()},
        holidays=[day.isoformat() if isinstance(day, date) else day for day in calendar.holidays],
    )


def subject_of(subject: str | Sequence[str] | Subject) -> stored.Subject:
    """Return a subject as it is stored: names alone are those of fields."""
    if isinstance(subject, Subject):
        return stored.Subject(fields=list(subject.fields), pattern=subject.pattern)
    return stored.Subject(fields=[subject] if isinstance(subject, str) else list(subject))


def minutes_of(span: str) -> tuple[int, int]:
    """Return a span of hours as minutes since midnight; whether there are such hours is looked at later."""
    found = _SPAN.fullmatch(span)
    assert found is not None, "it was looked at where it was written"  # noqa: S101
    first, minutes, end, more = (int(part) for part in found.groups())
    return first * 60 + minutes, end * 60 + more


def clock(minutes: int) -> str:
    """Return minutes since midnight as a clock shows them."""
    hours, rest = divmod(minutes, 60)
    return f"{hours:02}:{rest:02}"
