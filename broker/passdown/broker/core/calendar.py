"""Working hours: when so much working time has passed.

Hours are local times of a zone; the work in them is counted in real time. Where the clock jumps forward, a local time
that is left out stands for the instant of the jump. Where it goes back, one that comes twice is the first of the two
as the start of a span and the second as its end, so that the span lasts as much longer. Nothing counts twice.

The rules of zones come with the machine, or else with the package tzdata; nothing else is read here.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from passdown.contracts.errors import ContractError
from passdown.contracts.plans import Calendar

#: The days of a calendar's `hours`, as `date.weekday` counts them.
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
#: So many days are looked at (ten years); the check of plans sees to it that no delay takes longer.
_MOST_DAYS = 3_653
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ONE_MS = timedelta(milliseconds=1)


def after(calendar: Calendar | None, start_ms: int, seconds: float) -> int:
    """Return the instant (store milliseconds) at which `seconds` of working time have passed since `start_ms`.

    Without a calendar all time counts. Outside hours, time counts from the next span on: 0 seconds lead to its start.
    The end of a span is still within it, so that what is used up there is not put off to the next morning.
    Raises ContractError where that takes more than ten years, which no calendar of a checked plan does.
    """
    left = round(seconds * 1000)
    if calendar is None:
        return start_ms + left
    for begin, end in _spans(calendar, start_ms):
        if end < start_ms:
            continue
        at = max(begin, start_ms)
        if left <= end - at:
            return at + left
        left -= end - at
    raise ContractError("calendar", f"there are no {seconds:g} seconds of working hours within ten years")


def _spans(calendar: Calendar, start_ms: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of hours as milliseconds, in order and without overlaps, from before `start_ms` on."""
    zone = ZoneInfo(calendar.zone)
    holidays = frozenset(calendar.holidays)
    hours = [calendar.hours.get(name, []) for name in DAYS]
    day = (_EPOCH + start_ms * _ONE_MS).astimezone(zone).date() - timedelta(days=1)
    last = 0  # a span that ends in an hour which comes twice may reach into the one after it
    for _ in range(_MOST_DAYS):
        spans = hours[day.weekday()]
        if spans and day.isoformat() not in holidays:
            for first, end in spans:
                begin_ms, end_ms = max(last, _instant(zone, day, first, 0)), _instant(zone, day, end, 1)
                if begin_ms < end_ms:
                    yield begin_ms, end_ms
                    last = end_ms
        day += timedelta(days=1)


@lru_cache(maxsize=4096)
def _instant(zone: ZoneInfo, day: date, minutes: int, fold: int) -> int:
    """Return when it is so many minutes past midnight; of a time that comes twice, `fold` says which is meant."""
    wall = datetime.combine(day, time()) + timedelta(minutes=minutes)
    at = wall.replace(tzinfo=zone, fold=fold).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) != wall:
        at = _jump(zone, wall)
    return (at - _EPOCH) // _ONE_MS


def _jump(zone: ZoneInfo, wall: datetime) -> datetime:
    """Return when the clock jumped over a local time; it lies between the two that its offsets make of it."""
    early, late = sorted(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    before = early.astimezone(zone).utcoffset()

    def jumped(second: int) -> bool:
        return (early + timedelta(seconds=second)).astimezone(zone).utcoffset() != before

    return early + timedelta(
        seconds=bisect_left(range(int((late - early).total_seconds())), True, key=jumped)
    )
