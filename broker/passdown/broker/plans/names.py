"""What things in a plan may be called."""

import re

from passdown.broker.plans.faults import Fault, show
from passdown.contracts.plans import END, FAIL, MERGER, PRODUCER, REDUCER

#: Of plans, stages, queues and roles: lower-case words with - _ or . between them.
NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*")
#: What is filled in from the session's data; `inputs.` is what they are under.
PLACEHOLDER = re.compile(r"\{([A-Za-z][\w.-]*)\}")
#: Of tools, whose names often come from elsewhere.
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*")
LONGEST_NAME = 100

_SHAPE = f"use lower-case words joined by - _ or . (at most {LONGEST_NAME} characters, a letter first)"
_RESERVED = {
    "stage": {END: "a move to it ends the session", FAIL: "on_failed = 'fail' fails the session"},
    "queue": {PRODUCER: "ask = 'producer' leaves a question with whoever submitted the session"},
}


def name_faults(where: str, kind: str, name: str) -> list[Fault]:
    """Return what is wrong with the name of a `kind` (plan, stage, queue, role, calendar, …); tools may have others."""
    shape = TOOL_NAME if kind == "tool" else NAME
    if len(name) > LONGEST_NAME or not shape.fullmatch(name):
        mend = "use letters, digits and - _ . / : (a letter first)" if kind == "tool" else _SHAPE
        return [Fault(where, f"{show(name)} is no name for a {kind}", mend)]
    reserved = _RESERVED.get(kind, {}).get(name)
    if kind == "role" and (name == MERGER or name.startswith(REDUCER)):
        reserved = "merges of fan-outs are issued under it"
    if reserved:
        return [Fault(where, f"{show(name)} is reserved ({reserved})", f"give the {kind} another name")]
    return []


def slipped(written: str, meant: str) -> bool:
    """Whether a name is another but for one letter: wrong, missing, too many, or in its neighbour's place.

    Names of less than four letters are all alike, and never taken for each other.
    """
    start = _alike(written, meant)
    rest, other = written[start:][::-1], meant[start:][::-1]
    same = _alike(rest, other)
    left, right = rest[same:], other[same:]
    swapped = len(left) == 2 and left == right[::-1]
    return written != meant and len(meant) >= 4 and (swapped or max(len(left), len(right)) <= 1)


def _alike(one: str, other: str) -> int:
    """Return how many letters two names have in common from the front."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (left, right) in pairs if left != right), min(len(one), len(other)))
