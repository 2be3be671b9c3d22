"""What stands several to a column: a commit's events, and the keys of a session's due entries."""

import msgspec

from passdown.contracts.errors import ContractError

#: kind, subject, at, and when it is due (store milliseconds).
DueKey = tuple[str, str, int, int]

_dues = msgspec.json.Decoder(list[DueKey])


def join_events(events: list[bytes]) -> bytes:
    """Return events one to a line. Raises ContractError for one that is not canonical JSON of one line."""
    if len(events) == 1 and b"\n" not in events[0]:
        return events[0]
    joined = b"\n".join(events)
    if joined.count(b"\n") != max(0, len(events) - 1):
        raise ContractError("event", "it has a line break; canonical JSON has none")
    return joined


def split_events(lines: bytes) -> list[bytes]:
    """Return what `join_events` joined."""
    return lines.split(b"\n")


def decode_dues(keys: bytes) -> list[DueKey]:
    """Return the keys of a session's due entries."""
    return _dues.decode(keys)
