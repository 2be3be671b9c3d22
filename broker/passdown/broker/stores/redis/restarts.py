"""Looking whether the server was started anew, where it may lose its last moments then (DESIGN §6)."""

import time
from typing import Any

import structlog
from msgspec.structs import replace

from passdown.broker.stores.base import DueNow, DueRequest, Dues
from passdown.broker.stores.redis import scripts
from passdown.broker.stores.redis.shards import Shards

#: How often a process looks (seconds), unless claims wait to be handed out.
LOOK_EVERY_S = 1.0
#: What one look at a shard hands out at most.
_MOST_CLAIMS = 500

_log = structlog.get_logger("passdown.store")


class Restarts:
    """What a tick's ask brings beside what is due: claims that stood when the server was started anew."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._look_at = 0.0

    def added(self, dues: Dues, request: DueRequest) -> Dues:
        """Return `dues` with such claims; the limit of the ask holds for them by themselves."""
        if time.monotonic() < self._look_at:
            return dues
        about = (min(request.limit, _MOST_CLAIMS), request.reserve_ms)
        every = range(len(self._shards.keys))
        answers = self._shards.ask([self._shards.command(scripts.RESTARTED, at, about) for at in every])
        waits = [wait for _, wait, _ in answers if wait >= 0]
        self._look_at = time.monotonic() + min([LOOK_EVERY_S, *(wait / 1000 for wait in waits)])
        if any(found for found, _, _ in answers):
            _log.warning("store.restarted", advice="what was under way is unknown until it is settled")
        entries = [entry for _, _, claims in answers for entry in _entries(claims)]
        if not entries and not waits:
            return dues
        return replace(dues, entries=[*dues.entries, *entries], next_ms=min([dues.next_ms, *waits]))


def _entries(claims: list[Any]) -> list[DueNow]:
    return [
        DueNow(session_id=session_id.decode(), kind="restarted", subject=claim_id.decode(), at=0)
        for session_id, claim_id in zip(claims[::2], claims[1::2], strict=True)
    ]
