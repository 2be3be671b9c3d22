from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passdown.broker.core.calendar import DAYS, after
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import Calendar

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
HOUR = 3600.0
#: 09:00-12:00 and 13:00-17:00, Monday to Friday.
OFFICE = Calendar(
    zone=BERLIN,
    hours={day: [(540, 720), (780, 1020)] for day in DAYS[:5]},
    holidays=["2026-12-25", "2026-12-28"],
)


def always(zone: str) -> Calendar:
    return Calendar(zone=zone, hours={day: [(0, 1440)] for day in DAYS})


def daily(zone: str, *spans: tuple[int, int]) -> Calendar:
    return Calendar(zone=zone, hours={day: list(spans) for day in DAYS})


def ms(local: str, zone: str = BERLIN) -> int:
    """Return the store milliseconds of a local time, or of one with its offset."""
    at = datetime.fromisoformat(local)
    return round((at if at.tzinfo else at.replace(tzinfo=ZoneInfo(zone))).timestamp() * 1000)


def said(at_ms: int, zone: str = BERLIN) -> str:
    return datetime.fromtimestamp(at_ms / 1000, ZoneInfo(zone)).isoformat()


def test_without_a_calendar_all_time_counts() -> None:
    assert after(None, 1_000, 90.5) == 91_500
    assert after(None, 1_000, 0) == 1_000


@pytest.mark.parametrize(
    ("start", "hours", "end"),
    [
        ("2026-12-01T09:30", 1, "2026-12-01T10:30"),
        ("2026-12-01T11:30", 1, "2026-12-01T13:30"),  # over lunch
        ("2026-12-01T16:30", 1, "2026-12-02T09:30"),  # over night
        ("2026-12-01T03:00", 1, "2026-12-01T10:00"),
        ("2026-12-01T12:30", 1, "2026-12-01T14:00"),
        ("2026-12-04T16:00", 2, "2026-12-07T10:00"),  # over the weekend
        ("2026-12-05T10:00", 1, "2026-12-07T10:00"),
        ("2026-12-24T16:00", 2, "2026-12-29T10:00"),  # over a holiday, a weekend, and a holiday
        ("2026-12-25T10:00", 1, "2026-12-29T10:00"),
        ("2026-12-01T16:00", 1, "2026-12-01T17:00"),  # used up at the end of a span: that instant
        ("2026-12-01T09:00", 3, "2026-12-01T12:00"),
        ("2026-12-01T09:00", 7, "2026-12-01T17:00"),
        ("2026-12-01T08:00", 0, "2026-12-01T09:00"),  # nothing to wait for: the next span
        ("2026-12-05T08:00", 0, "2026-12-07T09:00"),
        ("2026-12-01T10:00", 0, "2026-12-01T10:00"),
        ("2026-12-01T17:00", 0, "2026-12-01T17:00"),
        ("2026-12-01T17:00", 1, "2026-12-02T10:00"),
    ],
)
def test_only_working_hours_count(start: str, hours: float, end: str) -> None:
    assert said(after(OFFICE, ms(start), hours * HOUR)) == said(ms(end))


def test_milliseconds_are_kept() -> None:
    assert after(OFFICE, ms("2026-12-01T16:59") + 1, 60.001) == ms("2026-12-02T09:00") + 2


@pytest.mark.parametrize(
    ("calendar", "start", "hours", "end"),
    [
        # The clock of Berlin jumps from 02:00 to 03:00.
        (daily(BERLIN, (60, 240)), "2026-03-29T01:00+01:00", 2, "2026-03-29T04:00+02:00"),
        (daily(BERLIN, (120, 240)), "2026-03-29T00:00+01:00", 0, "2026-03-29T03:00+02:00"),
        (daily(BERLIN, (150, 240)), "2026-03-29T00:00+01:00", 0, "2026-03-29T03:00+02:00"),
        (daily(BERLIN, (60, 150)), "2026-03-29T01:00+01:00", 1, "2026-03-29T03:00+02:00"),
        (daily(BERLIN, (60, 150)), "2026-03-29T01:00+01:00", 1.5, "2026-03-30T01:30+02:00"),
        (daily(BERLIN, (130, 170)), "2026-03-28T03:00+01:00", 0, "2026-03-30T02:10+02:00"),
        (always(BERLIN), "2026-03-28T12:00+01:00", 24, "2026-03-29T13:00+02:00"),
        # It goes back from 03:00 to 02:00.
        (daily(BERLIN, (60, 240)), "2026-10-25T01:00+02:00", 4, "2026-10-25T04:00+01:00"),
        (daily(BERLIN, (60, 150)), "2026-10-25T00:00+02:00", 2.5, "2026-10-25T02:30+01:00"),
        (daily(BERLIN, (150, 240)), "2026-10-25T00:00+02:00", 0, "2026-10-25T02:30+02:00"),
        (daily(BERLIN, (60, 150), (150, 240)), "2026-10-25T01:00+02:00", 4, "2026-10-25T04:00+01:00"),
        (always(BERLIN), "2026-10-24T12:00+02:00", 24, "2026-10-25T11:00+01:00"),
        # New York: 2026-03-08 and 2026-11-01, at 02:00.
        (daily(NEW_YORK, (60, 240)), "2026-03-08T01:00-05:00", 2, "2026-03-08T04:00-04:00"),
        (daily(NEW_YORK, (60, 240)), "2026-11-01T01:00-04:00", 4, "2026-11-01T04:00-05:00"),
        # Lord Howe: half an hour, 2026-10-04 forward from 02:00, 2026-04-05 back to 01:30.
        (daily(LORD_HOWE, (60, 180)), "2026-10-04T01:00+10:30", 1.5, "2026-10-04T03:00+11:00"),
        (daily(LORD_HOWE, (135, 180)), "2026-10-04T00:00+10:30", 0, "2026-10-04T02:30+11:00"),
        (daily(LORD_HOWE, (60, 180)), "2026-04-05T01:00+11:00", 2.5, "2026-04-05T03:00+10:30"),
        # Havana went back at midnight, from 01:00: the day before ended with the first hour that came twice.
        (daily("America/Havana", (1380, 1440)), "2024-11-02T23:00-04:00", 2, "2024-11-03T00:00-05:00"),
        (daily("America/Havana", (1380, 1440)), "2024-11-03T00:30-04:00", 0.5, "2024-11-03T00:00-05:00"),
    ],
)  # fmt: skip
def test_changes_of_the_clock(calendar: Calendar, start: str, hours: float, end: str) -> None:
    assert said(after(calendar, ms(start), hours * HOUR), calendar.zone) == said(ms(end), calendar.zone)


def test_all_hours_of_all_days_are_all_time() -> None:
    for zone in (BERLIN, NEW_YORK, LORD_HOWE, "America/Havana", "Asia/Kathmandu"):
        assert after(always(zone), ms("2026-01-01T00:00"), 400 * 24 * HOUR) == after(
            None, ms("2026-01-01T00:00"), 400 * 24 * HOUR
        )


@pytest.mark.parametrize(
    "calendar",
    [
        Calendar(zone=BERLIN, hours={}),
        Calendar(zone=BERLIN, hours={"mon": []}),
        Calendar(
            zone=BERLIN,
            hours={"fri": [(0, 1440)]},
            holidays=[(datetime(2026, 1, 2) + timedelta(weeks=n)).date().isoformat() for n in range(700)],  # noqa: DTZ001
        ),
    ],
)
def test_hours_that_never_come_are_refused(calendar: Calendar) -> None:
    with pytest.raises(ContractError, match="no 60 seconds of working hours within ten years"):
        after(calendar, ms("2026-01-01T00:00"), 60)


def spans_of(cuts: list[int]) -> list[tuple[int, int]]:
    """Return the spans between the first and the second of some half hours, the third and the fourth, …"""
    rising = sorted(cuts)
    return [(first * 30, end * 30) for first, end in zip(rising[::2], rising[1::2], strict=False)]


SPANS: st.SearchStrategy[list[tuple[int, int]]] = st.lists(
    st.integers(0, 48), unique=True, max_size=6
).map(spans_of)  # fmt: skip
CALENDARS: st.SearchStrategy[Calendar] = st.builds(
    Calendar,
    zone=st.sampled_from([BERLIN, NEW_YORK, LORD_HOWE, "America/Havana", "UTC"]),
    hours=st.fixed_dictionaries(dict.fromkeys(DAYS, SPANS) | {"wed": st.just([(540, 1020)])}),
    holidays=st.lists(st.sampled_from(["2026-03-30", "2026-10-26", "2024-11-04"]), unique=True),
)
#: Around changes of the clock, to the half hour and to the millisecond.
STARTS = st.sampled_from(
    ["2026-03-08T00:00", "2026-03-29T00:00", "2026-04-04T15:00", "2026-10-24T22:00", "2024-11-03T06:00"]
).flatmap(
    lambda around: st.one_of(
        st.integers(-96, 96).map(lambda halves: halves * 1_800_000),
        st.integers(-172_800_000, 172_800_000),
    ).map(lambda offset: ms(around) + offset)
)
DELAYS = st.one_of(
    st.integers(0, 80).map(lambda halves: halves * 1_800_000), st.integers(0, 100_000_000)
).map(lambda delay: delay / 1000)


@settings(max_examples=200)
@given(CALENDARS, STARTS, DELAYS, DELAYS)
def test_delays_add_up_and_later_is_never_sooner(calendar: Calendar, start: int, x: float, y: float) -> None:
    once = after(calendar, start, x)
    assert after(calendar, start, x + y) == after(calendar, once, y)
    assert once >= after(None, start, x)
    assert after(calendar, start + round(y * 1000), x) >= once
