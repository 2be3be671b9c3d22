"""A command on its way: how it is known, and what goes along with it."""

from passdown.broker.stores.base import Taken, TakeRequest
from passdown.contracts import commands as cmd
from passdown.contracts.codec import digest_of


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
