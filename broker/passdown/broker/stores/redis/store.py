"""`RedisStore`: the store for pools of machines, on Redis 7.0 or newer, or Valkey."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from passdown.broker.findings import Examination
from passdown.broker.stores import base, queries
from passdown.broker.stores.asked import require_put, require_query
from passdown.broker.stores.grouping import Group, Interrupted
from passdown.broker.stores.redis import committing, filing, finding, health, scripts, taking
from passdown.broker.stores.redis.address import address_of, checked_prefix
from passdown.broker.stores.redis.keys import MOST_SHARDS
from passdown.broker.stores.redis.opening import ask_server, check_server, open_shards
from passdown.broker.stores.redis.restarts import Restarts
from passdown.broker.stores.redis.scripts import Calls, Command
from passdown.broker.stores.redis.shards import Shards
from passdown.broker.stores.redis.ticking import Ticks
from passdown.broker.stores.redis.wire import Wire
from passdown.contracts.errors import ContractError, Unavailable

_VERDICTS: tuple[base.Verdict, ...] = ("lost", "held", "cancelled")
#: Leases that one script keeps at most.
_MOST_RENEWALS = 500
#: How old may be what is known of the server's settings (seconds).
_FACTS_FOR_S = 60.0


class RedisStore:
    """A store in one database of one Redis or Valkey server.

    Any number of threads, processes and machines may use it. Its time is the server's, as each shard sees it: it
    never goes back (to within the hundred milliseconds by which its mark may lag); after a step of the server's
    clock backward it simply goes on, and after a jump forward the tick postpones leases by the jump. No
    worker's own clock matters.

    Commits that several threads bring at the same moment go in one round trip, and are synced to the server's
    disk together where it does so with each.

    A process may be forked while stores are open: both sides go on, the child on connections of its own.
    """

    def __init__(
        self,
        url: str,
        *,
        shards: int | None = None,
        clock: Callable[[], int] | None = None,
        prefix: str | None = None,
    ) -> None:
        """Open the store, and make it where there is none.

        ``url``: ``redis://host:port/db``, ``rediss://…`` or ``unix:///path``; see `address.Address` for its options,
        which win over the arguments. ``shards``: how many the store must have (None: as many as it has, one where
        it is made here). ``prefix``: what all its keys begin with ("pd"). ``clock`` returns milliseconds since the
        epoch, and takes the place of the server's, for tests.

        Raises ContractError for an address that is none, a server that is too old or could lose what it is given, a
        store of a newer version or another number of shards; Unavailable where the server does not answer.
        """
        address = address_of(url)
        wanted = address.shards or shards
        if wanted is not None and not 1 <= wanted <= MOST_SHARDS:
            raise ContractError("store", f"shards: expected 1 to {MOST_SHARDS}, got {wanted}")
        keys_prefix = checked_prefix(address.prefix or prefix or "pd")
        self._wire = Wire(address)
        calls = Calls(clock)
        try:
            facts = check_server(self._wire, address)
            count = open_shards(self._wire, calls, keys_prefix, wanted)
        except BaseException:
            self._wire.close()
            raise
        self._shards = Shards(self._wire, calls, count, keys_prefix)
        #: What a crash of the server may take of what it acknowledged; a tick's asks look again now and then.
        self.may_lose = health.may_lose(facts)
        self._facts_until = time.monotonic() + _FACTS_FOR_S
        self._turns = taking.Turns(count)
        self._ticks = Ticks(count)
        self._restarts = Restarts(self._shards)
        self._group: Group[Sequence[Command], list[Any]] = Group(self._carry)

    @property
    def shards(self) -> int:
        """Over how many shards sessions are spread."""
        return len(self._shards.keys)

    def load(self, session_id: str, command_id: str = "", command_digest: str = "") -> base.Loaded:
        """Return the session's state, and the recorded outcome of `command_id` if one is named."""
        return finding.load(self._shards, session_id, command_id, command_digest)

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        """Write each commit as one atomic step (each by itself), then take; all in one round trip.

        Of several shards a second round trip may follow, where the one whose turn it was had no pack.
        """
        if not commits and take is None:
            return [], None
        taking_from = take.role if take else ""
        batches = committing.batches_of(commits, taking_from, self.shards)
        commands = [self._shards.command(scripts.COMMIT, *batch.call()) for batch in batches]
        if take is None:
            return _outcomes(commits, batches, self._together(commands)), None
        order = self._turns.order()
        replies = self._together([*commands, *self._takes(take, order)])
        outcomes = _outcomes(commits, batches, replies[: len(batches)])
        return outcomes, self._settle(take, order, replies[len(batches) :])

    def take(self, request: base.TakeRequest) -> base.Taken:
        """Reserve packs of a role, and clear its bell in the same atomic step."""
        order = self._turns.order()
        return self._settle(request, order, self._together(self._takes(request, order)))

    def hand_back(self, back: base.HandBack) -> None:
        """End a reservation; without effect where the pack was claimed or withdrawn meanwhile."""
        about = (back.session_id, back.step, back.attempt, back.after_ms, back.why)
        self._shards.call(scripts.HAND_BACK, self._shards.home(back.session_id), about)

    def renew(self, renewals: list[base.Renewal]) -> list[base.Verdict]:
        """Keep leases; a lease that ran out but was not declared lost yet is still good."""
        by_shard: dict[int, list[int]] = {}
        for at, one in enumerate(renewals):
            by_shard.setdefault(self._shards.home(one.session_id), []).append(at)
        batches = [
            (shard, places[start : start + _MOST_RENEWALS])
            for shard, places in by_shard.items()
            for start in range(0, len(places), _MOST_RENEWALS)
        ]
        commands = [
            self._shards.command(
                scripts.RENEW,
                shard,
                [(one.session_id, one.claim_id, one.lease_ms) for one in map(renewals.__getitem__, places)],
            )
            for shard, places in batches
        ]
        verdicts: list[base.Verdict] = ["lost"] * len(renewals)
        if commands:
            for (_, places), answer in zip(batches, self._shards.ask(commands), strict=True):
                for at, verdict in zip(places, answer, strict=True):
                    verdicts[at] = _VERDICTS[verdict]
        return verdicts

    def due(self, request: base.DueRequest) -> base.Dues:
        """Reserve what is due, in order of time; an entry that is not dealt with comes again."""
        found = self._ticks.ask(request, lambda shard, about: self._shards.call(scripts.DUE, shard, about))
        if request.limit:
            self._look_at_server()
            first, *others = self._ticks.catalogs
            behind = [shard for shard, version in enumerate(others, 1) if version < first]
            filing.tell_others(self._shards, first, behind)
            if self.may_lose:
                found = self._restarts.added(found, request)
        return found

    def _look_at_server(self) -> None:
        """What a server may lose can be set while it runs."""
        if time.monotonic() > self._facts_until:
            self.may_lose = health.may_lose(ask_server(self._wire))
            self._facts_until = time.monotonic() + _FACTS_FOR_S

    def events(self, session_id: str, after: int = 0, limit: int = 1000) -> list[bytes]:
        """Return logged events in order, from seq `after` + 1."""
        return finding.events(self._shards, session_id, after, limit)

    def find(self, query: queries.Query) -> queries.Found:
        """Answer a query; each says what it answers."""
        require_query(query)
        return finding.find(self._shards, query)

    def put(self, what: base.Put) -> None:
        """Keep, forget or settle what stands beside sessions and their logs."""
        require_put(what)
        filing.put(self._shards, what)

    def examine(self) -> Examination:
        """Look at the server, what it may lose, and how long ticks have been silent; changes nothing."""
        facts = ask_server(self._wire)
        return health.examine(self._shards.ask, self._shards.keys, facts, finding.now(self._shards))

    def close(self) -> None:
        """Let go of connections; later calls raise Unavailable."""
        self._wire.close()

    # -- commits and takes, together with those of other threads -----------------------------------------

    def _takes(
        self, request: base.TakeRequest, order: list[int], *, lingers: bool | None = None
    ) -> list[Command]:
        # Of several shards another may have a pack, with which the drain is busy then and does not look again.
        lingers = len(order) == 1 if lingers is None else lingers
        slots = [request.slots] + [0] * (len(order) - 1)
        return [
            self._take(request, some, shard, lingers=lingers)
            for some, shard in zip(slots, order, strict=True)
        ]

    def _take(self, request: base.TakeRequest, slots: int, shard: int, *, lingers: bool = False) -> Command:
        about = taking.request_of(request, slots, shard, self.shards, lingers=lingers)
        return self._shards.command(scripts.TAKE, shard, about)

    def _settle(self, request: base.TakeRequest, order: list[int], replies: list[Any]) -> base.Taken:
        taken = self._settled(request, order, replies)
        if len(order) == 1 or not request.linger_ms or taken.packs or taken.more:
            return taken
        return self._settled(request, order, self._together(self._takes(request, order, lingers=True)))

    def _settled(self, request: base.TakeRequest, order: list[int], replies: list[Any]) -> base.Taken:
        def take_from(shard: int) -> taking.Answer:
            return taking.answer_of(self._together([self._take(request, request.slots, shard)])[0])

        return taking.settle(order, [taking.answer_of(reply) for reply in replies], request.slots, take_from)

    def _together(self, commands: Sequence[Command]) -> list[Any]:
        """Send commands, perhaps with those of other threads; raises the meaning of the first error among ours."""
        try:
            replies = self._group.run(commands)
        except Interrupted as error:
            raise Unavailable(self._wire.what, "the thread that sent for this one was interrupted") from error
        for reply in replies:
            self._wire.check(reply)
        return replies

    def _carry(self, acts: Sequence[Sequence[Command]]) -> list[list[Any]]:
        replies = iter(self._wire.exchange([command for commands in acts for command in commands]))
        return [[next(replies) for _ in commands] for commands in acts]


def _outcomes(
    commits: list[base.Commit], batches: list[committing.Batch], replies: list[Any]
) -> list[base.Outcome]:
    outcomes = committing.outcomes_of(commits, batches, replies)
    rung: set[str] = set()
    for at, outcome in enumerate(outcomes):
        if isinstance(outcome, base.Committed) and outcome.ring:
            # One ring is enough for a call, on however many shards it made packs takeable.
            ring = [role for role in outcome.ring if role not in rung]
            rung.update(ring)
            outcomes[at] = structs.replace(outcome, ring=ring)
    return outcomes
