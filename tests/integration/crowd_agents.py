"""Two hundred agents with little to do, each with a role of its own, and one that fails at first."""

import json
import time
from pathlib import Path
from typing import Any

from passdown.agents import Done, Pack, SyncContext, agent

ROLES = [f"role-{n}" for n in range(200)]
RETRIED = "retried"


def _ran(pack: Pack) -> None:
    """Say in a file that this attempt runs, where the inputs name one."""
    if "ran" in pack.inputs:
        with Path(pack.inputs["ran"]).open("a") as file:
            file.write(json.dumps([pack.session_id, pack.attempt]) + "\n")


def _one(role: str) -> Any:
    @agent(role)
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        _ran(pack)
        time.sleep(pack.inputs.get("seconds", 0.0))
        return Done({})

    return clerk


globals().update({f"agent_{n}": _one(role) for n, role in enumerate(ROLES)})


@agent(RETRIED)
def retried(pack: Pack, ctx: SyncContext) -> Done:
    """Fail at the first attempt."""
    _ran(pack)
    if pack.attempt == 1:
        raise RuntimeError("not yet")
    return Done({"attempt": pack.attempt})
