"""What is wrong with the calendars of a plan, and with what its stages count in them."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import date
from zoneinfo import ZoneInfo, available_timezones

from passdown.broker.core.calendar import DAYS
from passdown.broker.plans.check_numbers import spelled
from passdown.broker.plans.faults import Fault, closest, place, show, warning, within
from passdown.broker.plans.names import name_faults
from passdown.broker.plans.people import clock
from passdown.contracts.plans import Calendar, Plan, Stage

#: With these two no delay takes ten years: holidays that each take the only hours of a week, and the weeks after them.
MOST_HOLIDAYS = 400
MOST_WEEKS = 100
_MIDNIGHT = 24 * 60
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
#: Names that mean another zone on each machine.
_OF_THE_MACHINE = ("localtime", "Factory")


def calendar_faults(plan: Plan, unsure: AbstractSet[str]) -> Iterator[Fault]:
    """Yield the faults of calendars, and of stages that use them; nothing is said of what is `unsure`."""
    sound: set[str] = set()
    for name, calendar in plan.calendars.items():
        here = place("calendars", name)
        hours_known = not any(within(one, here) for one in unsure)
        found = [
            *name_faults(here, "calendar", name),
            *_zone_faults(place("calendars", name, "zone"), calendar.zone),
            *_hour_faults(name, calendar, hours_known=hours_known),
            *_holiday_faults(name, calendar),
        ]
        sound.update([] if found else [name])
        yield from found
    if not any(within(one, "calendars") for one in unsure):
        for name, stage in plan.stages.items():
            yield from _use_faults(plan, name, stage, sound)
    yield from _idle(plan, unsure)


def _idle(plan: Plan, unsure: AbstractSet[str]) -> Iterator[Fault]:
    used = {stage.people.calendar for stage in plan.stages.values() if stage.people.calendar}
    if unsure or not used.issubset(plan.calendars):
        return
    for name in plan.calendars:
        if name not in used:
            yield warning(
                place("calendars", name), "no stage counts in it", 'name it: people = { calendar = "…" }'
            )


def _zone_faults(where: str, zone: str) -> Iterator[Fault]:
    try:
        ZoneInfo(zone)
        known = zone not in _OF_THE_MACHINE
    except (ValueError, LookupError, OSError):
        known = False
    if not known:
        region = zone.partition("/")[0]
        zones = sorted(available_timezones().difference(_OF_THE_MACHINE))
        near = [one for one in zones if one.startswith(f"{region}/") or one.endswith(f"/{zone}")]
        mend = closest(zone, near) if near else 'write it like "Europe/Berlin", or "UTC"'
        yield Fault(where, f"{show(zone)} is no time zone", mend)


def _hour_faults(name: str, calendar: Calendar, *, hours_known: bool) -> Iterator[Fault]:
    for day, spans in calendar.hours.items():
        if day not in DAYS:
            yield Fault(place("calendars", name, "hours", day), f"{show(day)} is no day", closest(day, DAYS))
        last = 0
        for n, (first, end) in enumerate(spans):
            where, span = place("calendars", name, "hours", day, n), f"{clock(first)}-{clock(end)}"
            if not 0 <= first <= _MIDNIGHT or not 0 <= end <= _MIDNIGHT:
                yield Fault(where, f"{span} is out of range", "a day is from 00:00 to 24:00")
            elif end <= first:
                yield Fault(
                    where,
                    f"{span} does not end after it starts",
                    "past midnight it is two spans: until 24:00, and from 00:00 of the next day",
                )
            elif first < last:
                yield Fault(
                    where,
                    f"{span} starts before the span before it ends, at {clock(last)}",
                    "write the spans of a day in order, each after the other",
                )
            last = max(last, end)
    if hours_known and not any(calendar.hours.values()):
        yield Fault(
            place("calendars", name, "hours"),
            "there are no hours, and no time would ever pass",
            'name some: weekdays = ["09:00-17:00"]',
        )


def _holiday_faults(name: str, calendar: Calendar) -> Iterator[Fault]:
    for n, day in enumerate(calendar.holidays):
        where = place("calendars", name, "holidays", n)
        if not _is_date(day):
            yield Fault(where, f"{show(day)} is no day", 'write it as "2026-12-25"')
        elif day in calendar.holidays[:n]:
            yield Fault(where, "is there twice", "leave it out")
    if len(calendar.holidays) > MOST_HOLIDAYS:
        yield Fault(
            place("calendars", name, "holidays"),
            f"{len(calendar.holidays)} days; a calendar may have {MOST_HOLIDAYS}",
            "leave out those of years to come, and of weekends",
        )


def _is_date(day: str) -> bool:
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return _DATE.fullmatch(day) is not None  # the library reads dates of weeks, too


def _use_faults(plan: Plan, name: str, stage: Stage, sound: AbstractSet[str]) -> Iterator[Fault]:
    used = stage.people.calendar
    if not used:
        return
    if used not in plan.calendars:
        yield Fault(
            place("stages", name, "people", "calendar"),
            f"there is no calendar {show(used)}",
            closest(used, plan.calendars),
        )
    if used not in sound:
        return
    spans = [span for listed in plan.calendars[used].hours.values() for span in listed]
    most = MOST_WEEKS * sum(end - first for first, end in spans) * 60
    for where, delay in _delays(stage):
        if delay > most:
            yield Fault(
                place("stages", name, *where),
                f"{spelled(delay)} of the hours of {show(used)} take more than {MOST_WEEKS} weeks",
                f"at most {spelled(most)}, or let it count in other hours",
            )


def _delays(stage: Stage) -> Iterator[tuple[tuple[str | int, ...], float]]:
    """Yield where a stage names what counts in its calendar, and how long it is (seconds)."""
    if stage.people.due_seconds is not None:
        yield ("people", "due"), stage.people.due_seconds
    for n, level in enumerate(stage.escalation):
        yield ("escalation", n, "after"), level.after_seconds
    if stage.overdue is not None:
        yield ("overdue", "after"), stage.overdue.after_seconds
