"""How long a ticket may wait: the levels of its stage's escalation path, and what ends that path (DESIGN §9)."""

from dataclasses import dataclass

from passdown.broker.core.calendar import after
from passdown.contracts.plans import Plan, Stage


@dataclass(frozen=True, slots=True)
class NextStep:
    """What is due about a ticket ``at`` (store milliseconds): its next ``level``, from 1, on its ``queue``.

    After the last one the overdue rule is, which leads ``to`` a stage or `fail`; its level is one more.
    """

    at: int
    level: int
    queue: str = ""
    to: str = ""


def next_step(plan: Plan, stage: Stage, level: int, opened_at: int) -> NextStep | None:
    """Return what comes after `level` (0: none was reached by time yet); None where nothing does.

    All delays count from the opening, in the working hours of the stage's calendar. A level without a delay is where
    tickets begin, and takes no time.
    """
    for number, one in enumerate(stage.escalation[level:], level + 1):
        if one.after_seconds > 0:
            return NextStep(_after(plan, stage, opened_at, one.after_seconds), number, queue=one.queue)
    last = len(stage.escalation) + 1
    if stage.overdue is None or level >= last:
        return None
    return NextStep(_after(plan, stage, opened_at, stage.overdue.after_seconds), last, to=stage.overdue.to)


def due_at(plan: Plan, stage: Stage, opened_at: int, deadline: int | None) -> int | None:
    """Return by when a ticket should be resolved: as the plan says, else by the next thing that happens to it."""
    if stage.people.due_seconds is not None:
        return _after(plan, stage, opened_at, stage.people.due_seconds)
    step = next_step(plan, stage, 0, opened_at)
    known = [at for at in (step.at if step else None, deadline) if at is not None]
    return min(known, default=None)


def _after(plan: Plan, stage: Stage, start: int, seconds: float) -> int:
    name = stage.people.calendar
    return after(plan.calendars[name] if name else None, start, seconds)
