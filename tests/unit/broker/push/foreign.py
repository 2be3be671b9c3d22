"""What a worker knows and gives back to which packs are pushed: nothing but the message."""

import json
from typing import Any

from passdown.contracts.plans import Plan
from tests.unit.broker.rig import plan

JSON = "application/json"


def pushed_plan(**more: Any) -> Plan:
    """Return a plan whose only stage is pushed."""
    return plan(delivery="push", **more)


def answer(message: dict[str, Any], **more: Any) -> bytes:
    """Return what a worker gives back that knows nothing but the message."""
    pack = message["pack"]
    given = {
        "spec": "passdown.return/1",
        "result": "done",
        "sessionId": pack["sessionId"],
        "step": pack["step"],
        "attempt": pack["attempt"],
        "claimId": message["claimId"],
        "packDigest": pack["digest"],
        "stage": pack["stage"],
        "nextStep": None,
        "output": {"attempt": pack["attempt"]},
        **more,
    }
    return json.dumps(given).encode()
