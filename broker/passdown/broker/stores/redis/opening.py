"""What is looked at when a store is opened: may one trust this server with it, and whose store is it."""

import structlog
from redis.exceptions import ResponseError

from passdown.broker.stores.redis import scripts
from passdown.broker.stores.redis.address import Address
from passdown.broker.stores.redis.keys import Keys
from passdown.broker.stores.redis.scripts import Calls
from passdown.broker.stores.redis.server import OLDEST, ServerFacts, read_server
from passdown.broker.stores.redis.wire import Wire
from passdown.contracts.errors import ContractError

#: How what is in the keys is written; a release that writes otherwise reads all up to its own, and raises it. 2 has joins
#: and pages beside what 1 has, 3 has lanes and holders of tickets, drafts, and records, all of which an older release would
#: leave behind. A ticket that an older one wrote is in no lane until its session's tickets change.
FORMAT = 3

_log = structlog.get_logger("passdown.store")


def open_shards(wire: Wire, calls: Calls, prefix: str, wanted: int | None) -> int:
    """Make the store where there is none; return how many shards it has.

    Raises ContractError where it has another number than is wanted, and where its format is newer than ours.
    """
    # The first shard decides, whoever else makes the store at this moment.
    made = (FORMAT, wanted or 1)
    found, shards = wire.ask([calls.call(scripts.OPEN, Keys(0, prefix), made)])[0]
    if found > FORMAT:
        raise ContractError(
            wire.what,
            f"its format is {found}, and this version of Passdown reads up to {FORMAT};"
            " upgrade Passdown, or name another store",
        )
    if wanted not in (None, shards):
        raise ContractError(
            wire.what,
            f"it has {shards} shards, and {wanted} were asked for; the number is fixed when a store is made:"
            f" say shards={shards}, or nothing, or name another prefix",
        )
    rest = [calls.call(scripts.OPEN, Keys(shard, prefix), (found, shards)) for shard in range(1, shards)]
    if rest:
        wire.ask(rest)
    return shards


def ask_server(wire: Wire) -> ServerFacts:
    """Return what the server says of itself; raises Unavailable, and ContractError where it is none that will do."""
    try:
        return read_server(wire.exchange)
    except ResponseError as error:
        wire.check(error)
        raise


def check_server(wire: Wire, address: Address) -> ServerFacts:
    """Return what the server says of itself; raises ContractError where a store must not be kept on it."""
    facts = ask_server(wire)
    if facts.speaks < OLDEST:
        raise ContractError(
            wire.what,
            f"it is Redis {facts.version}, and Passdown needs 7.0 or newer, or Valkey; upgrade the server",
        )
    if facts.evicts() and "eviction" not in address.unsafe:
        raise ContractError(
            wire.what,
            f"maxmemory-policy is {facts.policy or 'unknown'}: keys could be thrown away when memory is short, and"
            " work would be lost; set it to noeviction, or say unsafe=eviction in the address",
        )
    if facts.persists() is False and "persistence" not in address.unsafe:
        raise ContractError(
            wire.what,
            "it keeps nothing over a restart: appendonly is no and save is empty; set appendonly to yes (and"
            " appendfsync to always where effects do not dedupe), or say unsafe=persistence in the address",
        )
    if not facts.told_config:
        _log.warning(
            "store.settings_unknown",
            store=address.shown,
            advice="CONFIG is forbidden here: look yourself whether the server keeps what it has over a restart",
        )
    return facts
