"""Text of others in a brief: made harmless, bounded, and never outside a `Quoted` but as an identifier.

Nothing in such a text can end its fence (each of its lines is prefixed when it is rendered), steer a terminal, or
be there without being seen.
"""

import re
from typing import Any

import msgspec

from passdown.contracts.brief import Quoted
from passdown.contracts.codec import encode

#: How much of one text is quoted (characters): of most, of the latest valid state, and of arguments to be approved,
#: which are shown whole (an effect's arguments have at most 32 KiB).
TEXT, STATE_TEXT, ACTION_TEXT = 2_000, 8_000, 400_000

#: What is printable by Unicode's rules and still not seen: fillers, blanks, variation selectors.
_UNSEEN = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_IS_UNSEEN = re.compile(f"[{_UNSEEN}]")
#: What stands outside fences of what others wrote.
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:@/+#-]{0,63}")
_NAME = re.compile(r"[A-Za-z0-9_.:@/+#*-]{1,140}")
_LONGEST_NAME = 140


def quoted(source: str, text: str, event: int | None = None, most: int = TEXT) -> Quoted:
    """Return a text of others, cleaned, and cut where it has more than `most` characters."""
    return Quoted(source=source, event=event, text=_clean(text[:most]), cut=max(0, len(text) - most))


def quoted_value(source: str, value: Any, event: int | None = None, most: int = TEXT) -> Quoted:
    """Return JSON data of others as text; a text stands as it is."""
    return quoted(source, written(value), event, most)


def laid_out(source: str, value: Any, event: int | None = None) -> Quoted:
    """Return the exact arguments of an action that is decided on, a line for each."""
    text = msgspec.json.format(encode(value), indent=2).decode()
    return quoted(source, text, event, ACTION_TEXT)


def written(value: Any) -> str:
    """Return JSON data as text."""
    return value if isinstance(value, str) else encode(value).decode()


def _clean(text: str) -> str:
    text = text.replace("\r\n", "\n").replace("\t", "    ")
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    return "".join(char if char == "\n" or _is_seen(char) else _spelled(char) for char in text)


def _is_seen(char: str) -> bool:
    return char.isprintable() and not _IS_UNSEEN.match(char)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def identifier(value: object) -> str | None:
    """Return a value as an identifier that may stand outside fences; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    text = str(value)
    return text if _IDENTIFIER.fullmatch(text) else None


def name(text: str) -> str:
    """Return a name of ours (a tool, a principal, a queue) as one word, with what is not plain spelled out."""
    if _NAME.fullmatch(text):
        return text
    plain = "".join(char if _NAME.fullmatch(char) else _coded(char) for char in text[:_LONGEST_NAME])
    return plain[:_LONGEST_NAME] or "(nameless)"


def _coded(char: str) -> str:
    return f"\\u{ord(char):04x}"


def line(text: str) -> str:
    """Return a plan's text on one line: whoever wrote the plan is trusted, its line breaks are not."""
    return " ".join(_clean(text).split())


def span(milliseconds: int) -> str:
    """Return a duration in at most two units: ``3m 20s``."""
    left = max(0, milliseconds) // 1000
    parts: list[str] = []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count or (unit == "s" and not parts):
            parts.append(f"{count}{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)


def many(count: int, noun: str) -> str:
    """Return a count with its noun."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun[:-1]}ies" if noun.endswith("y") else f"{count:,} {noun}s"
