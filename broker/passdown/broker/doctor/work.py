"""The work: whether a tick runs, whether somebody takes what is queued, and what waits for people."""

from collections.abc import Iterator

from passdown.broker.doctor.stores import MOST_LOOKED_AT, quarantined
from passdown.broker.durability import losing_writes
from passdown.broker.findings import Examination, Finding, Level, may_lose
from passdown.broker.plans.durations import spell
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindQueues, FindTickets, QueueRow, TicketRow
from passdown.contracts.plans import ALERTS, OPERATORS
from passdown.contracts.push import role_of_pushed

#: Something overdue for so long (ms), or this many of one's own waits between two looks, and no tick sees to it.
_OVERDUE_MS, _LOOKS = 10_000, 3
#: How long packs may wait while nobody takes any, and how long behind others (ms).
_NOBODY_MS, _BEHIND_MS = 60_000, 600_000
#: Sessions to be told of, from which on those who listen hear late.
_MUCH_TO_TELL = 1_000
_MOST_TICKETS = 1_000


def tick_findings(seen: Examination, every_ms: int) -> list[Finding]:
    """Judge whether a tick runs; `every_ms` is the setting `tick_every`."""
    late = max(_OVERDUE_MS, _LOOKS * every_ms)
    run = "start one: `passdown tick` (`passdown up` has its own)"
    asked = (
        "no tick ever looked" if seen.asked_ms is None else f"the last tick looked {_span(seen.asked_ms)} ago"
    )
    silent = seen.asked_ms is None or seen.asked_ms > late
    if seen.overdue_ms > late:
        found = f"something has been due for {_span(seen.overdue_ms)}, and {asked}"
        return [Finding(level="red", what="tick", found=found, advice=run if silent else "look at its log")]
    if silent:
        return [Finding(level="yellow", what="tick", found=f"{asked}; nothing is overdue yet", advice=run)]
    return [Finding(level="green", what="tick", found=asked)]


def telling_findings(seen: Examination) -> list[Finding]:
    """Judge how much waits to be told outside."""
    found = f"{seen.to_tell:,} sessions have news that were not told yet"
    if seen.to_tell > _MUCH_TO_TELL:
        advice = "does a tick run, and is the transport up?"
        return [Finding(level="yellow", what="outgoing events", found=found, advice=advice)]
    return [Finding(level="green", what="outgoing events", found=found)]


def queue_findings(store: Store) -> list[Finding]:
    """Judge each role queue that somebody should look at, and say how many are well."""
    rows = store.find(FindQueues())
    queues = [row for row in rows if isinstance(row, QueueRow)] if isinstance(rows, list) else []
    bad = [finding for row in queues for finding in _queue(row)]
    ready, running = sum(row.ready for row in queues), sum(row.running for row in queues)
    found = f"{len(queues):,} in use, {ready:,} packs wait, {running:,} run"
    return [*bad, *([] if bad else [Finding(level="green", what="role queues", found=found)])]


def _queue(row: QueueRow) -> Iterator[Finding]:
    pushed = role_of_pushed(row.role)
    what = f"packs to push for {pushed}" if pushed else f"queue {row.role}"
    waits = f"{row.ready:,} wait, the oldest for {_span(row.oldest_ms)}"
    if row.ready and row.oldest_ms > _NOBODY_MS and not (row.running or row.reserved):
        advice = f"start a worker: `passdown worker {row.role} --module …`"
        advice = "a tick pushes them: is one running, and the transport up?" if pushed else advice
        yield Finding(level="red", what=what, found=f"{waits}, and nobody takes any", advice=advice)
    elif row.ready and row.oldest_ms > _BEHIND_MS:
        found = f"{waits}, while {row.running:,} run"
        yield Finding(level="yellow", what=what, found=found, advice="start more workers, or raise its limit")


def quarantine_findings(store: Store) -> list[Finding]:
    """Say how much was refused and kept."""
    rows = quarantined(store)
    if not rows:
        return [Finding(level="green", what="quarantine", found="empty")]
    count = f"more than {MOST_LOOKED_AT}" if len(rows) > MOST_LOOKED_AT else f"{len(rows):,}"
    found = f"{count} message{'s were' if len(rows) > 1 else ' was'} refused; the newest: {rows[0].reason}"
    return [
        Finding(
            level="yellow", what="quarantine", found=found, advice="`passdown quarantine list` shows them"
        )
    ]


def ticket_findings(store: Store) -> list[Finding]:
    """Say how many tickets came to the operators, where goes what no plan sends to somebody else, and how many to nobody."""
    return [
        _tickets_on(store, OPERATORS, "yellow", f"`passdown tickets --queue {OPERATORS}` lists them"),
        _tickets_on(store, ALERTS, "red", "nobody took them: name people who may, or hand them on"),
    ]


def _tickets_on(store: Store, queue: str, level: Level, advice: str) -> Finding:
    found = store.find(FindTickets(queue=queue, limit=_MOST_TICKETS))
    rows = [row for row in found if isinstance(row, TicketRow)] if isinstance(found, list) else []
    what = f"tickets for {queue}"
    if not rows:
        return Finding(level="green", what=what, found="none is open")
    age = store.load("").now - rows[0].opened_at
    count = f"{_MOST_TICKETS:,} or more" if len(rows) == _MOST_TICKETS else f"{len(rows):,}"
    told = f"{count} open, the oldest for {_span(age)}: {rows[0].why}"
    return Finding(level=level, what=what, found=told, advice=advice)


def durability_findings(store: Store, accepted: bool) -> list[Finding]:
    """Name registered plans that write in a way which needs a store that loses nothing; nothing where it does not."""
    lost = may_lose(store)
    if not lost:
        return []
    writes = losing_writes(store)
    if not writes:
        found = f"this store may lose {lost}; each write outside absorbs a repeat (`dedupes`)"
        return [Finding(level="green", what="plans", found=found)]
    told = f"this store may lose {lost}, after which these may write twice: {'; '.join(writes)}"
    if accepted:
        return [Finding(level="yellow", what="plans", found=told, advice="accepted by `accept_effect_loss`")]
    advice = "appendfsync always, a tool with `dedupes`, or the setting accept_effect_loss"
    return [Finding(level="red", what="plans", found=told, advice=advice)]


def _span(ms: int) -> str:
    """Spell a time in seconds, or in its two largest units."""
    if ms < 10_000:
        return f"{ms / 1000:.1f}s"
    unit = 1 if ms < 3_600_000 else 60 if ms < 86_400_000 else 3_600
    return spell(ms // 1000 // unit * unit)
