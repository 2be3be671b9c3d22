"""Writing what belongs to no session's commit: documents, messages, counts, pages, drafts, records, removal.

Documents, names and refused messages live on the first shard. The other shards only know the catalog's version,
for a commit compares with it on its session's own shard. Whoever registers writes the first shard, then the others;
whoever finds one behind (the next one who registers, and every tick) makes it good.
"""

from collections.abc import Sequence
from typing import assert_never

from passdown.broker.stores import base
from passdown.broker.stores.base import Count, Documents, Drop, Put, Quarantine, Remove, Told
from passdown.broker.stores.joining import JoinSeen, Page
from passdown.broker.stores.records import Draft, Records
from passdown.broker.stores.redis import joins, records, scripts, tickets
from passdown.broker.stores.redis.packed import squeeze
from passdown.broker.stores.redis.shards import Shards
from passdown.contracts.codec import encode

#: Documents that one script registers at most.
MOST_DOCUMENTS = 500
#: What `remove.lua` says of a session that has more joins.
_MORE = 2


def put(shards: Shards, what: Put) -> None:
    """Keep what was brought."""
    match what:
        case Documents():
            _register(shards, what)
        case Quarantine() | Drop():
            _refused(shards, what)
        case Count():
            shards.call(scripts.COUNT, shards.home(what.session_id), (what.session_id, what.name))
        case Told():
            shards.call(scripts.TOLD, shards.home(what.session_id), (what.session_id, what.seq))
        case Remove():
            _remove(shards, what)
        case JoinSeen():
            shards.call(scripts.JOIN_SEEN, shards.home(what.join_id), (what.join_id, what.version))
        case Page():
            joins.keep_page(shards, what)
        case Draft():
            tickets.keep_draft(shards, what)
        case Records():
            records.put(shards, what)
        case _:
            assert_never(what)


def _refused(shards: Shards, what: Quarantine | Drop) -> None:
    """Keep what was refused, or forget one of it."""
    if isinstance(what, Drop):
        shards.ask([("XDEL", shards.keys[0].quarantine, f"{what.id}-0")])
        return
    about = (what.source, what.reason, base.MOST_QUARANTINED)
    shards.call(scripts.QUARANTINE, 0, about, [squeeze(what.body)])


def _remove(shards: Shards, what: Remove) -> None:
    """Remove a session; of one with very many joins each call removes some."""
    asked = (what.session_id, what.version, what.status, what.keep_ms)
    while shards.call(scripts.REMOVE, shards.home(what.session_id), asked) == _MORE:
        continue


def _register(shards: Shards, documents: Documents) -> None:
    """Keep documents by digest and make them current; the catalog rises where a name changed its meaning."""
    named = [(f"plan:{ref}", ref.digest, squeeze(body)) for ref, body in documents.plans]
    named += [(f"tool:{spec.name}", digest, squeeze(encode(spec))) for digest, spec in documents.tools]
    version = 0
    for start in range(0, max(1, len(named)), MOST_DOCUMENTS):
        some = named[start : start + MOST_DOCUMENTS]
        about = [(name, digest) for name, digest, _ in some]
        version = shards.call(scripts.REGISTER, 0, about, [body for *_, body in some])
    tell_others(shards, version, range(1, len(shards.keys)))


def tell_others(shards: Shards, version: int, which: Sequence[int]) -> None:
    """Let shards know the catalog's version; one that knows a newer one keeps it."""
    if which:
        shards.ask([shards.command(scripts.ADOPT, shard, (version,)) for shard in which])
