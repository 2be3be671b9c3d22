from datetime import date, timedelta
from typing import Any

import pytest

from passdown.broker.core.calendar import after
from passdown.broker.plans import check_plan, compile_plan
from passdown.broker.plans.check_calendars import MOST_HOLIDAYS, MOST_WEEKS
from passdown.contracts import plans as stored
from tests.unit.plans.samples import said


def plan(calendars: dict[str, Any], **stage: Any) -> dict[str, Any]:
    stages = {"a": {"role": "r", "people": {"calendar": "c"}, **stage}}
    return {"name": "p", "start": "a", "calendars": calendars, "stages": stages}


def calendar(**fields: Any) -> dict[str, Any]:
    return plan({"c": {"zone": "Europe/Berlin", "weekdays": ["09:00-17:00"], **fields}})


def weeks_on(day: date, count: int) -> list[str]:
    return [(day + timedelta(weeks=n)).isoformat() for n in range(count)]


@pytest.mark.parametrize(
    ("authored", "fault"),
    [
        (
            plan({"C 1": {"zone": "UTC", "weekdays": ["09:00-17:00"]}}, people={"calendar": "C 1"}),
            "calendars.\"C 1\": 'C 1' is no name for a calendar; use lower-case words",
        ),
        (
            plan({"office": {"zone": "UTC", "weekdays": ["09:00-17:00"]}}, people={"calendar": "ofice"}),
            "stages.a.people.calendar: there is no calendar 'ofice'; did you mean 'office'?",
        ),
        (plan({}), "stages.a.people.calendar: there is no calendar 'c'; there are none"),
        (calendar(zone="Europe/Berln"), "calendars.c.zone: 'Europe/Berln' is no time zone; did you mean 'Europe/Berlin'?"),
        (calendar(zone="Berlin"), "calendars.c.zone: 'Berlin' is no time zone; did you mean 'Europe/Berlin'?"),
        (calendar(zone=""), "calendars.c.zone: '' is no time zone; write it like \"Europe/Berlin\", or \"UTC\""),
        (calendar(zone="Europe"), "calendars.c.zone: 'Europe' is no time zone; did you mean 'Europe/R"),
        (calendar(zone="localtime"), "calendars.c.zone: 'localtime' is no time zone;"),
        (calendar(zone="../etc/passwd"), "calendars.c.zone: '../etc/passwd' is no time zone;"),
        (calendar(zone="\ud800"), "calendars.c.zone: '\\ud800' is no time zone;"),
        (calendar(zone="x" * 70_000), "calendars.c.zone: 'xxx"),
        (calendar(hours={"monday": ["09:00-17:00"]}), "calendars.c.hours.monday: 'monday' is no day; did you mean 'mon'?"),
        (
            calendar(hours={"sat": ["09:00-24:01"]}),
            "calendars.c.hours.sat[0]: 09:00-24:01 is out of range; a day is from 00:00 to 24:00",
        ),
        (calendar(hours={"sat": ["25:00-26:00"]}), "calendars.c.hours.sat[0]: 25:00-26:00 is out of range;"),
        (
            calendar(hours={"sat": ["22:00-06:00"]}),
            ("calendars.c.hours.sat[0]: 22:00-06:00 does not end after it starts;"
            " past midnight it is two spans: until 24:00, and from 00:00 of the next day"),
        ),
        (calendar(hours={"sat": ["09:00-09:00"]}), "calendars.c.hours.sat[0]: 09:00-09:00 does not end after it starts;"),
        (
            calendar(hours={"sat": ["09:00-12:00", "11:59-13:00"]}),
            ("calendars.c.hours.sat[1]: 11:59-13:00 starts before the span before it ends, at 12:00;"
            " write the spans of a day in order, each after the other"),
        ),
        (
            calendar(hours={"sat": ["13:00-17:00", "09:00-12:00"]}),
            "calendars.c.hours.sat[1]: 09:00-12:00 starts before the span before it ends, at 17:00;",
        ),
        (calendar(weekdays=["17:00-09:00"]), "calendars.c.weekdays[0]: 17:00-09:00 does not end after it starts;"),
        (
            calendar(weekdays=[]),
            'calendars.c.hours: there are no hours, and no time would ever pass; name some: weekdays = ["09:00-17:00"]',
        ),
        (calendar(weekdays=[], hours={"mon": []}), "calendars.c.hours: there are no hours, and no time would ever pass;"),
        (calendar(holidays=["2026-13-01"]), "calendars.c.holidays[0]: '2026-13-01' is no day; write it as \"2026-12-25\""),
        (calendar(holidays=["2026-02-29"]), "calendars.c.holidays[0]: '2026-02-29' is no day;"),
        (calendar(holidays=["20261225"]), "calendars.c.holidays[0]: '20261225' is no day;"),
        (calendar(holidays=["2026-W52-5"]), "calendars.c.holidays[0]: '2026-W52-5' is no day;"),
        (calendar(holidays=["2026-12-25"] * 2), "calendars.c.holidays[1]: is there twice; leave it out"),
        (
            calendar(holidays=weeks_on(date(2026, 1, 1), MOST_HOLIDAYS + 1)),
            "calendars.c.holidays: 401 days; a calendar may have 400; leave out those of years to come, and of weekends",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_a_calendar(authored: dict[str, Any], fault: str) -> None:
    found = said(authored)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_no_calendar_is_idle_where_not_all_is_known() -> None:
    unread = plan({"c": {"zone": "UTC", "weekdays": ["09:00-17:00"]}}, people={"calendar": 5})
    assert said(unread) == ["stages.a.people.calendar: expected a string, got 5"]


def test_a_calendar_that_nothing_counts_in_is_only_said() -> None:
    unused = plan({"c": {"zone": "UTC", "weekdays": ["09:00-17:00"]}}, people={})
    assert said(unused) == ['~ calendars.c: no stage counts in it; name it: people = { calendar = "…" }']


@pytest.mark.parametrize("where", ["people.due", "escalation[1].after", "overdue.after"])
def test_a_delay_ends_within_years(where: str) -> None:
    def told(delay: str) -> list[str]:
        stage: dict[str, Any] = {
            "people.due": {"people": {"calendar": "c", "due": delay}},
            "escalation[1].after": {"escalation": ["x", {"queue": "q", "after": delay}]},
            "overdue.after": {"overdue": {"after": delay, "to": "fail"}},
        }[where]
        return said(plan({"c": {"zone": "UTC", "weekdays": ["09:00-17:00"]}}, **stage))

    assert told("4001h") == [
        (f"stages.a.{where}: 166d17h of the hours of 'c' take more than 100 weeks; at most 166d16h,"
        " or let it count in other hours")
    ]  # fmt: skip
    assert told("4000h") == []


def test_what_a_plan_may_say_never_takes_ten_years() -> None:
    holidays = weeks_on(date(2026, 3, 29), MOST_HOLIDAYS)
    hours = {"zone": "Europe/Berlin", "hours": {"sun": ["02:00-03:00"]}, "holidays": holidays}
    due = f"{MOST_WEEKS}h"
    found = compile_plan(plan({"c": hours}, people={"calendar": "c", "due": due}))
    began = round(1000 * 86_400 * (date(2026, 3, 29) - date(1970, 1, 1)).days)
    ended = after(found.calendars["c"], began, found.stages["a"].people.due_seconds or 0)
    assert ended - began < 1000 * 86_400 * 3_650


def test_a_stored_plan_is_checked_alike() -> None:
    odd = stored.Plan(
        name="p",
        start="a",
        calendars={"c": stored.Calendar(zone="UTC", hours={"mon": [(-5, 60), (2000, 3000)]})},
        stages={"a": stored.Stage(role="r", people=stored.People(calendar="c"))},
    )
    assert [fault.place for fault in check_plan(odd)] == [
        "calendars.c.hours.mon[0]",
        "calendars.c.hours.mon[1]",
    ]
