"""How values are written for people: times, durations, sizes, JSON, and text of others made harmless."""

from datetime import datetime
from typing import Any

from passdown.broker.plans.durations import spell
from passdown.contracts.codec import encode

#: How much of a value stands in a line (characters).
VALUE_SHOWN = 160


def clean(text: str) -> str:
    """Return the text of others as one line that cannot steer a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _visible(char) for char in text)


def _visible(char: str) -> str:
    return " " if char in "\n\r\t\u2028\u2029" else char.encode("unicode_escape").decode()


def line(text: str, limit: int = 300) -> str:
    """Return the first line of a text of others, and that there is more."""
    first, _, rest = text.strip().partition("\n")
    return cut(clean(first), limit) + (" …" if rest.strip() and len(first) <= limit else "")


def brief(value: Any, limit: int = VALUE_SHOWN) -> str:
    """Return JSON data on one line, cut where it is long."""
    return cut(clean(encode(value).decode()), limit)


def cut(text: str, limit: int = VALUE_SHOWN) -> str:
    """Return a text, cut where it is long."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def when(at: int) -> str:
    """Return a time of the store (milliseconds since the epoch) in local time."""
    return f"{datetime.fromtimestamp(at / 1000).astimezone():%Y-%m-%d %H:%M:%S}"


def clock(at: int) -> str:
    """Return the time of day of a time of the store, with milliseconds, in local time."""
    return f"{datetime.fromtimestamp(at / 1000).astimezone():%H:%M:%S}.{at % 1000:03d}"


def day(at: int) -> str:
    """Return the date of a time of the store, in local time."""
    return f"{datetime.fromtimestamp(at / 1000).astimezone():%Y-%m-%d}"


def iso(at: int) -> str:
    """Return a time of the store as ISO 8601 with its offset."""
    return datetime.fromtimestamp(at / 1000).astimezone().isoformat(timespec="milliseconds")


def span(milliseconds: int) -> str:
    """Return a duration in at most two units: ``3m20s``, ``2d4h``; under ten seconds with a tenth."""
    left = max(0, milliseconds)
    if left < 10_000:
        return f"{left / 1000:.1f}".removesuffix(".0") + "s" if left >= 100 else f"{left}ms"
    for unit, smaller in ((86_400_000, 3_600_000), (3_600_000, 60_000)):
        if left >= unit:
            left -= left % smaller
    return spell(left // 1000)


def ago(at: int, now: int) -> str:
    """Return how long ago, or how far ahead, a time is."""
    return f"{span(now - at)} ago" if at <= now else f"in {span(at - now)}"


def size(count: int) -> str:
    """Return a number of bytes."""
    if count < 1024:
        return f"{count} bytes"
    return f"{count / 1024:.1f} KiB" if count < 1024**2 else f"{count / 1024**2:.1f} MiB"


def many(count: int, noun: str) -> str:
    """Return a count with its noun: ``1 event``, ``2,000 events``, ``3 branches``."""
    plural = "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{'' if count == 1 else plural}"
