"""Each session's texts carry its marker, so that a pack that holds another session's text gives itself away."""

import re

from passdown.contracts import ids

_MARKER = re.compile(rb"<<([^<>]+)>>")
_SESSION = re.compile(rb"\bs\d+-[0-9a-f]{24}\b")


def marked(key: str, text: str = "") -> str:
    """Return a text of the session that was submitted with `key`."""
    return f"<<{key}>>{text}"


def marker_of(session_id: str, keys: list[str]) -> str:
    """Return the key of a session."""
    return next(key for key in keys if ids.session_id(key) == session_id)


def strangers(raw: bytes, session_id: str, key: str) -> list[str]:
    """Return what `raw` carries of other sessions."""
    found = [name for name in _MARKER.findall(raw) if name != key.encode()]
    return [one.decode() for one in (*found, *_SESSION.findall(raw)) if one != session_id.encode()]
