"""What follows an attempt that did not count: when to try again, and when a person must decide."""

from passdown.broker.core.state import State
from passdown.contracts.plans import Stage


def retry_at(stage: Stage, failures: int, at: int) -> int:
    """Return when the next attempt may be issued (ms), after `failures` failures including this one.

    A wait is exact, without jitter: the queue spreads the work, and a replay must decide the same.
    """
    backoff = stage.backoff
    # A float power overflows long before its use ends; the cap comes first.
    exponent = min(failures - 1, 64)
    seconds = min(backoff.first_seconds * backoff.factor**exponent, backoff.most_seconds)
    return at + int(seconds * 1000)


def used_up(stage: Stage, state: State) -> bool:
    """Whether lost claims and rejected returns have reached the stage's `max_attempts`."""
    return state.failures >= stage.max_attempts


def settles_used_up(stage: Stage, state: State) -> bool:
    """Whether enough settle attempts were lost that a person must say what happened."""
    return state.settles_lost >= stage.max_attempts


def person_decides(stage: Stage, state: State) -> bool:
    """Whether the stage leaves the step to a person after this kind of loss."""
    return stage.recovery == "human" and state.owed is not None and state.owed.lost
