"""A command on its way: the session that it is decided on, how it is known, what goes along, what it answered."""

import time
from typing import NamedTuple

from passdown.broker.core.state import State
from passdown.broker.stores.base import Taken, TakeRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import decode, digest_of
from passdown.contracts.replies import Reply


class Held(NamedTuple):
    """A session as somebody last saw it, so that the next command need not load it.

    ``now`` was the store's clock (ms) when this process's monotonic clock (s) showed ``seen``; ``catalog``
    counted the registrations at that time. ``removed`` is how it ended, where it was removed since.
    """

    state: State | None
    now: int
    seen: float
    catalog: int
    removed: str = ""

    def at(self) -> int:
        """Return the store's time by now: what it was, plus what elapsed here."""
        return self.now + int((time.monotonic() - self.seen) * 1000)


class Done(NamedTuple):
    """What a command answered, the session as it left it (None: not known), and what was taken along."""

    reply: Reply
    held: Held | None
    taken: Taken | None = None


class Ask(NamedTuple):
    """A command for `Controller.run_all`; ``held`` is the session as it was last seen."""

    session_id: str
    body: cmd.Body
    by: str
    held: Held | None


def held_of(state: bytes | None, now: int, catalog: int, removed: str = "") -> Held:
    """Return a session as the store handed it out just now. Raises ContractError where the state cannot be read."""
    read = decode(state, State, what="state") if state else None
    return Held(read, now, time.monotonic(), catalog, removed)


class Act:
    """A command to carry out, how it is known, and the take that goes with it until it has brought something."""

    def __init__(self, session_id: str, body: cmd.Body, by: str, take: TakeRequest | None) -> None:
        self.session_id = session_id
        self.body = body
        self.by = by
        self.id = cmd.command_id(session_id, body, by)
        self.digest = digest_of(body)
        self.take = take
        self.role = take.role if take else ""
        #: How many registrations the last decision on it knew of.
        self.catalog = 0
        self.taken: Taken | None = None

    def keep(self, taken: Taken | None) -> None:
        """Keep what a commit took along, also where the commit itself did not hold: it is reserved for us."""
        if taken is not None:
            self.taken = taken
            if taken.packs:
                self.take = None
