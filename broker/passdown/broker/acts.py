"""A command on its way: the session that it is decided on, how it is known, what goes along, what it answered."""

import time
from typing import NamedTuple

from passdown.broker.core.given import Who
from passdown.broker.core.join import Facts
from passdown.broker.core.state import State
from passdown.broker.stores.base import Taken, TakeRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import decode, digest_of
from passdown.contracts.errors import Fenced, QueueFull, Unavailable
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
    """A command for `Controller.run_all`; ``held`` is the session as it was last seen.

    ``facts``: what was read of the join that it is about, after ``held`` was.
    """

    session_id: str
    body: cmd.Body
    by: str
    held: Held | None
    facts: Facts | None = None


def held_of(state: bytes | None, now: int, catalog: int, removed: str = "") -> Held:
    """Return a session as the store handed it out just now. Raises ContractError where the state cannot be read."""
    read = decode(state, State, what="state") if state else None
    return Held(read, now, time.monotonic(), catalog, removed)


class Act:
    """A command to carry out, how it is known, and the take that goes with it until it has brought something."""

    def __init__(
        self,
        session_id: str,
        body: cmd.Body,
        by: str,
        take: TakeRequest | None,
        facts: Facts | None = None,
        facts_at: int = -1,
        who: Who | None = None,
    ) -> None:
        """`facts` were read after the session was, when that stood at version `facts_at`; `who` as in `Command`."""
        self.session_id = session_id
        self.body = body
        self.by = by
        self.who = who
        self.id = cmd.command_id(session_id, body, by)
        self.digest = digest_of(body)
        self.take = take
        self._facts = facts
        self._facts_at = facts_at
        self.role = take.role if take else ""
        #: How many registrations the last decision on it knew of.
        self.catalog = 0
        self.taken: Taken | None = None

    def facts_on(self, state: State | None) -> Facts | None:
        """Return what is known of the join that the act is about; None where it must be read, or read anew."""
        return self._facts if state is not None and state.seq == self._facts_at else None

    def forget_facts(self) -> None:
        """Have the join read anew: what was decided on it did not hold."""
        self._facts = None

    def keep(self, taken: Taken | None) -> None:
        """Keep what a commit took along, also where the commit itself did not hold: it is reserved for us."""
        if taken is not None:
            self.taken = taken
            if taken.packs:
                self.take = None


def act_of(ask: Ask) -> Act:
    """Return what is asked as an act that takes nothing along."""
    state = ask.held.state if ask.held else None
    return Act(ask.session_id, ask.body, ask.by, None, ask.facts, state.seq if state else -1)


def name_of(session_id: str) -> str:
    """Return what an error calls a session that is unavailable."""
    return f"session {session_id}"


def is_away(answer: object, session_id: str) -> bool:
    """Whether what came of a command says that the store is away for all, and not for this session or its role only."""
    if not isinstance(answer, Unavailable) or isinstance(answer, QueueFull):
        return False
    return answer.what != name_of(session_id)


def require_still_held(body: cmd.Claim | cmd.Intend, state: State | None) -> None:
    """What was allowed once, in a reply that was lost, holds as long as its claim (rule 3).

    The worker may ask again long after: its lease ran out, and another attempt or a person has settled the
    effect since. Raises Fenced.
    """
    claim = state.claim if state else None
    effect = state.effect(body.effect_id) if state and isinstance(body, cmd.Intend) else None
    if state is None or claim is None or claim.claim_id != body.fence.claim_id:
        now = f"{state.step}/{state.attempt}" if state else "none"
        raise Fenced(str(body.fence), now, "it held when this was asked first, and its claim is over since")
    if effect is not None and effect.status != "intended":
        raise Fenced(str(body.fence), str(body.fence), f"that write was allowed once, and is {effect.status}")
