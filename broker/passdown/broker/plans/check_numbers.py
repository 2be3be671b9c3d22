"""Limits and durations of a stage. Zero never means "never" or "at once": what is not wanted is left out."""

from collections.abc import Iterator

from passdown.broker.plans.at import At
from passdown.broker.plans.durations import LONGEST, SHORTEST, spell
from passdown.broker.plans.faults import Fault, show
from passdown.broker.plans.names import name_faults
from passdown.contracts.plans import Stage

#: The longest lease (a day) and wait between retries (thirty days), in seconds.
LONGEST_LEASE = 86_400.0
LONGEST_WAIT = 30 * 86_400.0
MOST_ATTEMPTS = 100
MOST_ENTRIES = 10_000
#: A priority lies within plus and minus this.
PRIORITY = 100
MOST_FACTOR = 100.0


def number_faults(at: At) -> Iterator[Fault]:
    """Yield what is wrong with the limits, durations and the escalation path of a stage."""
    stage = at.stage
    yield from _whole(at, "max_attempts", stage.max_attempts, 1, MOST_ATTEMPTS)
    yield from _whole(at, "max_entries", stage.max_entries, 1, MOST_ENTRIES)
    yield from _whole(at, "priority", stage.priority, -PRIORITY, PRIORITY)
    for n, grant in enumerate(stage.tools):
        yield from duration_faults(at.place("tools", n, "approval"), grant.approval_seconds, LONGEST)
    if stage.deadline_seconds is not None:
        yield from duration_faults(at.place("deadline"), stage.deadline_seconds, LONGEST)
    if stage.queue is None:
        yield from duration_faults(at.place("lease"), stage.lease_seconds, LONGEST_LEASE)
        yield from _deadline_faults(at)
        yield from _time_limit_faults(at)
        yield from _backoff_faults(at)
    elif stage.time_limit_seconds is not None:
        yield Fault(at.place("time_limit"), "a person's stage has no agent that runs", "leave it out")
    yield from _escalation_faults(at)


def duration_faults(where: str, value: float, longest: float, shortest: float = SHORTEST) -> Iterator[Fault]:
    """Yield the fault of a duration (seconds) that is not from `shortest` to `longest`; NaN is none of them."""
    if shortest <= value <= longest:
        return
    mend = "leave it out for the default" if value == 0 else f"from {spell(shortest)} to {spell(longest)}"
    yield Fault(where, f"{spelled(value)} is out of range", mend)


def spelled(value: float) -> str:
    """Return seconds for a sentence; what is no duration (negative, NaN, infinite) as the number it is."""
    return spell(value) if 0 <= value < 1e15 else f"{value} seconds"


def _whole(at: At, field: str, value: int, least: int, most: int) -> Iterator[Fault]:
    if not least <= value <= most:
        yield Fault(at.place(field), f"{show(value)} is out of range", f"from {least} to {most}")


def _deadline_faults(at: At) -> Iterator[Fault]:
    lease, deadline = at.stage.lease_seconds, at.stage.deadline_seconds
    if deadline is not None and 0 < deadline <= lease and at.is_sure("lease"):
        yield Fault(
            at.place("deadline"),
            f"{spelled(deadline)} is over before the first lease of {spelled(lease)} is",
            "make the deadline longer, or the lease shorter",
        )


def _time_limit_faults(at: At) -> Iterator[Fault]:
    limit, deadline = at.stage.time_limit_seconds, at.stage.deadline_seconds
    if limit is None:
        return
    wrong = list(duration_faults(at.place("time_limit"), limit, LONGEST))
    yield from wrong
    if not wrong and deadline is not None and limit > deadline > 0:
        yield Fault(
            at.place("time_limit"),
            f"a run of {spelled(limit)} is longer than the deadline of the stage, {spelled(deadline)}",
            "make the limit shorter, or leave it out",
        )


def _backoff_faults(at: At) -> Iterator[Fault]:
    backoff = at.stage.backoff
    first = list(duration_faults(at.place("backoff", "first"), backoff.first_seconds, LONGEST_WAIT))
    most = list(duration_faults(at.place("backoff", "most"), backoff.most_seconds, LONGEST_WAIT))
    yield from first
    yield from most
    if not 1 <= backoff.factor <= MOST_FACTOR:
        yield Fault(
            at.place("backoff", "factor"),
            f"{show(backoff.factor)} is out of range",
            f"from 1 to {MOST_FACTOR:g}",
        )
    if not first and not most and backoff.first_seconds > backoff.most_seconds:
        yield Fault(
            at.place("backoff", "most"),
            f"{spelled(backoff.most_seconds)} is shorter than the first wait of {spelled(backoff.first_seconds)}",
            "make it longer",
        )


def _escalation_faults(at: At) -> Iterator[Fault]:
    """Levels rise: the first is whom a ticket goes to, at once unless it says `after`; each next one is later."""
    stage = at.stage
    queue, last = (stage.queue, 0.0) if stage.queue is not None else (None, -1.0)
    for n, level in enumerate(stage.escalation):
        where = at.place("escalation", n)
        yield from name_faults(at.place("escalation", n, "queue"), "queue", level.queue)
        wrong = list(duration_faults(at.place("escalation", n, "after"), level.after_seconds, LONGEST, 0.0))
        yield from wrong
        if not wrong and level.after_seconds <= last:
            yield Fault(
                at.place("escalation", n, "after"),
                f"{spelled(level.after_seconds)} is not later than the level before",
                f"say after how long, more than {spelled(last)}",
            )
        if level.queue == queue:
            yield Fault(
                where, f"the ticket is on {show(level.queue)} already", "name another queue, or leave it out"
            )
        yield from _too_late(at, n, stage)
        queue, last = level.queue, max(last, level.after_seconds)


def _too_late(at: At, n: int, stage: Stage) -> Iterator[Fault]:
    after, deadline = stage.escalation[n].after_seconds, stage.deadline_seconds
    if deadline is not None and after >= deadline > 0:
        yield Fault(
            at.place("escalation", n, "after"),
            f"{spelled(after)} is not before the deadline of the stage, {spelled(deadline)}",
            "escalate earlier, or make the deadline longer",
        )
