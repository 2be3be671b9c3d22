"""Plans and tools that tests share."""

from typing import Any

from passdown.contracts.plans import Backoff, Grant, Next, Plan, Stage
from passdown.contracts.tools import ToolSpec

READ = ToolSpec(name="orders.read", params={"type": "object", "required": ["id"]}, fresh_for_seconds=60.0)
REFUND_PARAMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "cents": {"type": "integer", "minimum": 1},
        "memo": {"type": "string"},
    },
    "required": ["order", "cents"],
    "additionalProperties": False,
}
#: Identity is (order, cents): a memo may differ without making it another effect.
REFUND = ToolSpec(
    name="refund",
    params=REFUND_PARAMS,
    effect=True,
    scope="refunds:write",
    identity=["order", "cents"],
    verifies=True,
)
#: The outside system absorbs a repeated key.
MAIL = ToolSpec(
    name="mail", params={"type": "object"}, effect=True, identity=["to"], verifies=True, dedupes=True
)
ARGS = {"order": "4711", "cents": 900}

NO_WAIT = Backoff(first_seconds=0.0)


def stage(**fields: Any) -> Stage:
    """Return a stage of role ``worker`` that retries at once."""
    known: dict[str, Any] = {"role": "worker", "goal": "work", "backoff": NO_WAIT, **fields}
    return Stage(**known)


def one(**fields: Any) -> Plan:
    """Return a plan of one stage."""
    return Plan(name="one", start="work", stages={"work": stage(**fields)})


def two(second: Stage | None = None, **fields: Any) -> Plan:
    """Return a plan of ``work`` and then ``tell``."""
    first = stage(**{"next": Next(to="tell"), **fields})
    return Plan(name="two", start="work", stages={"work": first, "tell": second or stage()})


def writing(approve: str | None = None, **fields: Any) -> Plan:
    """Return a plan whose first stage may refund and mail, and whose second may mail."""
    grants = [Grant(tool="refund", approve=approve), Grant(tool="mail")]
    return two(stage(tools=[Grant(tool="mail"), Grant(tool="refund")]), **{"tools": grants, **fields})


def writer(approve: str | None = None, **fields: Any) -> Any:
    """Return a session of `writing` that a worker has claimed."""
    from tests.unit.core.spec import Session

    return Session(writing(approve, **fields), REFUND, MAIL).submit({"order": "4711"}).claim()
