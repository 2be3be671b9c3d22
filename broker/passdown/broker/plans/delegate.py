"""One-stage plans for `delegate(role, goal, inputs, returns=…)`: a plan is optional (DESIGN §7)."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from passdown.broker.plans.authored import Returns
from passdown.broker.plans.compiling import compile_plan
from passdown.broker.plans.faults import show
from passdown.broker.plans.schema_source import SchemaSource
from passdown.contracts import plans as stored
from passdown.contracts.codec import digest_of

#: The name of the only stage.
STAGE = "work"
_ROLE_SHOWN = 60


def delegate_plan(
    role: str,
    goal: str,
    returns: SchemaSource | Returns | None = None,
    *,
    base_dir: Path | str | None = None,
    **stage: Any,
) -> stored.Plan:
    """Return the plan of one stage, in which `role` reaches `goal` and gives back what fits `returns`.

    `stage` holds any other field of `Stage`. The name is made of the role and the content
    (``delegate-analyst-3f2a9c0d1b2e4f60``), so that the same delegation is the same plan, at version 1.
    Raises PlanError with every fault.
    """
    fields = {"role": role, "goal": goal, **stage}
    if returns is not None:
        fields["returns"] = returns if isinstance(returns, Returns) else {"schema": returns}
    authored = {"name": "delegate", "start": STAGE, "stages": {STAGE: fields}}
    plan = compile_plan(authored, base_dir, source=f"delegate to {show(role)}")
    return replace(plan, name=f"delegate-{role[:_ROLE_SHOWN].rstrip('-_.')}-{digest_of(plan)[:16]}")
