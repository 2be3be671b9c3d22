"""Two hundred agents with little to do, each with a role of its own."""

import time
from typing import Any

from passdown.agents import Done, Pack, SyncContext, agent

ROLES = [f"role-{n}" for n in range(200)]


def _one(role: str) -> Any:
    @agent(role)
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        time.sleep(pack.inputs.get("seconds", 0.0))
        return Done({})

    return clerk


globals().update({f"agent_{n}": _one(role) for n, role in enumerate(ROLES)})
