"""What Redis's errors mean to a caller: Unavailable where a retry is safe, ContractError where none helps."""

import redis
from redis import exceptions as of

from passdown.contracts.errors import ContractError, PassdownError, Unavailable

#: The first word of an error → what happened and what helps, where a retry may go well.
_AWAY = {
    "OOM": "its memory is full (maxmemory) and it evicts nothing; make room, or raise maxmemory",
    "MISCONF": "it cannot save to its disk and refuses writes; look at the disk and its log",
    "LOADING": "it is loading its data",
    "BUSY": "a script has kept it busy for too long",
    "READONLY": "it is a replica; wait for the failover, or name the primary",
    "MASTERDOWN": "it is a replica that lost its primary",
    "NOREPLICAS": "it has too few replicas to write",
    "CLUSTERDOWN": "its cluster is down",
    "TRYAGAIN": "its cluster moves keys at this moment",
    "UNBLOCKED": "it became a replica",
}
#: The same where the address or the server must be mended.
_WRONG = {
    "MOVED": "it is one of several nodes of a cluster, and these keys lie on another; name a server of its own",
    "ASK": "it is one of several nodes of a cluster, and these keys lie on another; name a server of its own",
    "CROSSSLOT": "it is a cluster that does not keep a shard's keys together",
    "NOAUTH": "it wants a password; put it into the address",
    "WRONGPASS": "user name or password is wrong",
    "NOPERM": "this user may not do that; grant it all commands on the store's keys",
    "NOPROTO": "it does not speak this version of its protocol; say protocol=2 in the address",
    "WRONGTYPE": "a key of ours holds something else; is the prefix another application's?",
    "PASSDOWN": "a script refused what it was sent",
}
_PHRASES = (
    ("unknown command", "hello", _WRONG["NOPROTO"]),
    (
        "unknown command",
        "",
        "it lacks a command that Passdown needs: is it Redis 7.0 or newer, or Valkey, in full?",
    ),
    ("db index", "out of range", "it has no database of this number"),
    ("authentication required", "", _WRONG["NOAUTH"]),
    ("invalid password", "", _WRONG["WRONGPASS"]),
    ("invalid username", "", _WRONG["WRONGPASS"]),
)


def meaning(what: str, error: Exception) -> PassdownError | None:
    """Return `error` as what a caller is told, or None where it is a fault of our own."""
    said = str(error)
    if isinstance(error, of.ResponseError | of.AuthenticationError | of.BusyLoadingError):
        return _of_reply(what, type(error), said)
    if isinstance(error, redis.TimeoutError):
        return Unavailable(what, f"it did not answer in time ({said})")
    if isinstance(error, redis.ConnectionError | OSError):
        return Unavailable(what, said or "the connection was lost")
    if isinstance(error, of.InvalidResponse):
        return ContractError(what, f"what answers there is no Redis ({said})")
    return None


#: redis-py takes the first word off the errors that it knows.
_CLASSES: tuple[tuple[type[Exception], str], ...] = (
    (of.OutOfMemoryError, "OOM"),
    (of.BusyLoadingError, "LOADING"),
    (of.ReadOnlyError, "READONLY"),
    (of.NoPermissionError, "NOPERM"),
    (of.AskError, "MOVED"),
    (of.ClusterCrossSlotError, "CROSSSLOT"),
    (of.MasterDownError, "MASTERDOWN"),
    (of.ClusterDownError, "CLUSTERDOWN"),
    (of.TryAgainError, "TRYAGAIN"),
    (of.AuthenticationError, "WRONGPASS"),
)


def _of_reply(what: str, kind: type[Exception], said: str) -> PassdownError | None:
    low = said.lower()
    for first, second, means in _PHRASES:
        if first in low and second in low:
            return ContractError(what, f"{means} [{said}]")
    word = said.partition(" ")[0].strip("-")
    if word not in _AWAY and word not in _WRONG:
        word = next((name for of_class, name in _CLASSES if issubclass(kind, of_class)), "")
    if word in _AWAY:
        return Unavailable(what, f"{_AWAY[word]} [{said}]")
    return ContractError(what, f"{_WRONG[word]} [{said}]") if word in _WRONG else None
