"""What things in a plan may be called."""

import re

from passdown.broker.plans.faults import Fault, show
from passdown.contracts.plans import END, FAIL, PRODUCER

#: Of plans, stages, queues and roles: lower-case words with - _ or . between them.
NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_.][a-z0-9]+)*")
#: Of tools, whose names often come from elsewhere.
TOOL_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./:-]*")
LONGEST_NAME = 100

_SHAPE = f"use lower-case words joined by - _ or . (at most {LONGEST_NAME} characters, a letter first)"
_RESERVED = {
    "stage": {END: "a move to it ends the session", FAIL: "on_failed = 'fail' fails the session"},
    "queue": {PRODUCER: "ask = 'producer' leaves a question with whoever submitted the session"},
}


def name_faults(where: str, kind: str, name: str) -> list[Fault]:
    """Return what is wrong with the name of a `kind` (plan, stage, queue, role, tool)."""
    shape = TOOL_NAME if kind == "tool" else NAME
    if len(name) > LONGEST_NAME or not shape.fullmatch(name):
        mend = "use letters, digits and - _ . / : (a letter first)" if kind == "tool" else _SHAPE
        return [Fault(where, f"{show(name)} is no name for a {kind}", mend)]
    reserved = _RESERVED.get(kind, {}).get(name)
    if reserved:
        return [Fault(where, f"{show(name)} is reserved ({reserved})", f"give the {kind} another name")]
    return []
