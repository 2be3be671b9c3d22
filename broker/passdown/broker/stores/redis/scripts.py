"""The Lua scripts: one for each kind of atomic step, each in a file of its own that says what it does."""

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from passdown.broker.stores.redis.keys import Keys

#: A command as it is sent.
Command = tuple[str | bytes | int, ...]

_FOLDER = Path(__file__).parent / "lua"
#: How far the mark of a shard's clock may lag behind its time (milliseconds): it is in the append-only file.
_MARK_MS = 100

_encode = msgspec.msgpack.Encoder().encode


class Script(NamedTuple):
    """A script under the name of its file."""

    name: str
    source: str
    sha: str


def _read(name: str, *shared: str) -> Script:
    first, rest = (_FOLDER / f"{name}.lua").read_text("utf-8").split("\n", 1)
    parts = [(_FOLDER / f"{part}.lua").read_text("utf-8") for part in ("common", *shared)]
    source = "\n".join([first, *parts, rest])
    return Script(name, source, hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest())


COMMIT = _read("commit", "joins")
TAKE = _read("take")
HAND_BACK = _read("hand_back")
RENEW = _read("renew")
DUE = _read("due", "joins")
LOAD = _read("load")
BESIDE = _read("beside")
REGISTER = _read("register")
ADOPT = _read("adopt")
QUARANTINE = _read("quarantine")
COUNT = _read("count")
TOLD = _read("told")
REMOVE = _read("remove", "joins")
JOIN_SEEN = _read("join_seen", "joins")
PAGE = _read("page")
DRAFT = _read("draft")
RECORDS = _read("records")
FIND_RECORDS = _read("find_records")
OPEN = _read("open")
RESTARTED = _read("restarted")

SCRIPTS = {
    script.sha: script
    for script in (
        COMMIT,
        TAKE,
        HAND_BACK,
        RENEW,
        DUE,
        LOAD,
        BESIDE,
        REGISTER,
        ADOPT,
        QUARANTINE,
        COUNT,
        TOLD,
        REMOVE,
        JOIN_SEEN,
        PAGE,
        DRAFT,
        RECORDS,
        FIND_RECORDS,
        OPEN,
        RESTARTED,
    )
}


class Calls:
    """Makes the commands that call scripts, by the server's clock or by one that somebody gave (milliseconds)."""

    def __init__(self, clock: Callable[[], int] | None) -> None:
        self._clock = clock

    def call(self, script: Script, keys: Keys, about: object, texts: Sequence[bytes] = ()) -> Command:
        """Return the command that runs a script on a shard."""
        if self._clock is None:
            return ("EVALSHA", script.sha, 1, keys.meta, b"", _MARK_MS, _encode(about), *texts)
        return ("EVALSHA", script.sha, 1, keys.meta, self._clock(), 1, _encode(about), *texts)


def load_of(command: Command) -> Command:
    """Return the command that makes the script known which `command` calls."""
    return ("SCRIPT LOAD", SCRIPTS[str(command[1])].source)


def is_call(command: Command) -> Any:
    """Return whether a command calls a script."""
    return command[0] == "EVALSHA"
