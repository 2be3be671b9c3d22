"""What a setting's value may be, however it was written: each function accepts a value or says what was expected."""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from pydantic import BeforeValidator

from passdown.broker.plans.durations import seconds
from passdown.broker.plans.faults import show
from passdown.contracts.errors import ContractError
from passdown.contracts.outgoing import check_name

#: The most that a limit on what runs at once may be.
MOST_RUNNING = 1_000_000

_PRINCIPAL = re.compile(r"[a-z]+:[^\s:][^\s]{0,119}")
_ROLE = re.compile(r"[^\s=,]{1,100}")
#: What RFC 3986 lets stand in one.
_URI = re.compile(r"[A-Za-z0-9:/?#\[\]@!$&'()*+,;=._~%-]{1,200}")


def misfit(expected: str, value: object) -> ValueError:
    return ValueError(f"expected {expected}, got {show(value)}")


def whole(value: Any, low: int, high: int) -> int:
    given = value.strip() if isinstance(value, str) else value
    if isinstance(given, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int) or not low <= given <= high:
        raise misfit(f"a whole number from {low} to {high}", value)
    return given


def number(low: int, high: int) -> BeforeValidator:
    """Accept a whole number within bounds, also written as text."""

    def read(value: Any) -> int:
        return whole(value, low, high)

    return BeforeValidator(read)


def duration(shortest: str, longest: str, *, zero: str = "") -> BeforeValidator:
    """Accept a duration with its unit, or a timedelta, within bounds; returns seconds.

    With ``zero``, which says what it means, also none at all.
    """
    low, high = seconds(shortest), seconds(longest)
    expected = f"a duration with its unit from {shortest} to {longest}"
    if zero:
        expected += f", or 0s: {zero}"

    def read(value: Any) -> float:
        try:
            found = seconds(value if isinstance(value, timedelta) else text(value).strip())
        except (ValueError, OverflowError):
            raise misfit(expected, value) from None
        if not (low <= found <= high or (zero and found == 0)):
            raise misfit(expected, value)
        return found

    return BeforeValidator(read)


def choice(*words: str) -> BeforeValidator:
    def read(value: Any) -> str:
        if value not in words:
            raise misfit(f"one of {', '.join(words)}", value)
        return str(value)

    return BeforeValidator(read)


def secret(value: Any) -> str:
    """Accept text; what came is not said where it is none."""
    if not isinstance(value, str):
        raise ValueError("expected text")  # noqa: TRY004 - pydantic takes no other
    return value.strip()


def switch(value: Any) -> bool:
    """Accept true or false, also written as text; other words for them are refused, for one may mean the other."""
    read = {"true": True, "false": False}.get(value) if isinstance(value, str) else value
    if not isinstance(read, bool):
        raise misfit("true or false", value)
    return read


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise misfit("text", value)
    return value


def address(value: Any) -> str:
    if not value:
        raise misfit("an address such as sqlite:///passdown.db", value)
    return text(value)


def principal(value: Any) -> str:
    if value != "" and not (isinstance(value, str) and _PRINCIPAL.fullmatch(value)):
        raise misfit("kind:name, such as user:ann", value)
    return value


def exchange(value: Any) -> str:
    if text(value):
        try:
            check_name(value, what="events")
        except ContractError as error:
            raise ValueError(error.problem) from None
    return value


def source(value: Any) -> str:
    if not isinstance(value, str) or not _URI.fullmatch(value):
        raise misfit("a URI reference, such as /passdown or https://shop.example/passdown", value)
    return value


def name_list(value: Any) -> list[str]:
    """Accept a list of names, also written with commas between them."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise misfit("a list of names", value)
    names: list[str] = []
    for item in cast("list[Any]", items):
        name = item.strip() if isinstance(item, str) else ""
        if not name or not name.isprintable():
            raise misfit("a list of names, none of them empty", item)
        names.append(name)
    return names


def role_limits(value: Any) -> dict[str, int]:
    """Accept a table of role → number, also written as ``cashier=5,desk=2``."""
    table = value
    if isinstance(value, str):
        pairs = [one.partition("=") for one in value.split(",")]
        table = {role.strip(): number for role, _, number in pairs}
    if not isinstance(table, Mapping):
        raise misfit("a table of role = number", value)
    limits: dict[str, int] = {}
    for role, number in cast("Mapping[str, Any]", table).items():
        if not _ROLE.fullmatch(role):
            raise misfit("a role and its limit, such as cashier=5", role)
        limits[role] = whole(number, 0, MOST_RUNNING)
    return limits
