"""The store: whether it answers, how quickly, what its clock shows, and what it tells about itself."""

import statistics
import time
from uuid import uuid4

from passdown.broker.findings import Examination, Examined, Finding
from passdown.broker.stores.base import Drop, Quarantine, Store
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow

#: Writes and reads of the probe; the median counts.
_ROUNDS = 5
#: A round trip (ms) from which on handoffs will be slow.
_SLOW_MS = 100.0
#: Difference of the clocks (ms) that people will stumble over when they compare times. Passdown itself goes by the
#: store's clock alone.
_CLOCKS_APART_MS = 5_000
#: With more than so many messages in quarantine the probe writes nothing: a full one would lose its oldest for it.
MOST_LOOKED_AT = 100


def clock_finding(store: Store) -> list[Finding]:
    """Compare the store's clock with this machine's."""
    before = time.time()
    now = store.load("").now
    # The store looked at its clock somewhere between the two.
    apart = int(now - (before + time.time()) / 2 * 1000)
    found = f"{abs(apart):,} ms {'ahead of' if apart > 0 else 'behind'} this machine's"
    if abs(apart) > _CLOCKS_APART_MS:
        advice = "set the clocks by NTP: times in logs differ; leases and timers go by the store's alone"
        return [Finding(level="yellow", what="store clock", found=found, advice=advice)]
    return [Finding(level="green", what="store clock", found=found)]


def speed_finding(store: Store) -> list[Finding]:
    """Write something, read it and remove it again, a few times: a store that takes no writes fails here."""
    crowded = len(quarantined(store)) > MOST_LOOKED_AT
    took: list[float] = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        if crowded:
            store.put(Drop(id=0))
        else:
            _write_and_read(store)
        took.append((time.perf_counter() - began) * 1000)
    median = statistics.median(took)
    what = "an empty write" if crowded else "write, read and remove"
    found = f"{what} in {median:.1f} ms (median of {_ROUNDS})"
    if median > _SLOW_MS:
        advice = "a handoff takes three round trips: look at the store's disk and at the network"
        return [Finding(level="yellow", what="store speed", found=found, advice=advice)]
    return [Finding(level="green", what="store speed", found=found)]


def _write_and_read(store: Store) -> None:
    mark = uuid4().hex.encode()
    store.put(Quarantine(source="doctor", reason="a probe of `passdown doctor`; drop it", body=mark))
    mine = [one.id for one in quarantined(store) if one.body == mark]
    if not mine:
        raise RuntimeError("what was written just now is not there: is this a replica?")
    store.put(Drop(id=mine[0]))


def quarantined(store: Store) -> list[QuarantineRow]:
    """Return what is in quarantine, newest first: one more than is looked at, where there are more."""
    found = store.find(FindQuarantine(limit=MOST_LOOKED_AT + 1))
    return [row for row in found if isinstance(row, QuarantineRow)] if isinstance(found, list) else []


def examination(store: Store) -> Examination:
    """Return what the store tells about itself; nothing, where it tells nothing."""
    return store.examine() if isinstance(store, Examined) else Examination(findings=[])
