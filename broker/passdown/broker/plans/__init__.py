"""Plans: written in Python or TOML, checked whole, stored, drawn.

    plan = load_plan("plans/refund.toml")  # or compile_plan(Plan(…))
    print(as_text(plan))

A plan that is refused raises PlanError with every fault, each with its place and how to mend it.
"""

from passdown.broker.plans.authored import (
    Backoff,
    FanOut,
    Grant,
    HumanStage,
    Join,
    Level,
    Permit,
    Plan,
    Returns,
    Stage,
)
from passdown.broker.plans.check import check_plan
from passdown.broker.plans.check_tools import check_tools
from passdown.broker.plans.compiling import compile_plan
from passdown.broker.plans.delegate import delegate_plan
from passdown.broker.plans.faults import Fault
from passdown.broker.plans.loading import load_plan
from passdown.broker.plans.people import Calendar, Overdue, People, Subject
from passdown.broker.plans.picture import as_mermaid, as_text

__all__ = [
    "Backoff",
    "Calendar",
    "FanOut",
    "Fault",
    "Grant",
    "HumanStage",
    "Join",
    "Level",
    "Overdue",
    "People",
    "Permit",
    "Plan",
    "Returns",
    "Stage",
    "Subject",
    "as_mermaid",
    "as_text",
    "check_plan",
    "check_tools",
    "compile_plan",
    "delegate_plan",
    "load_plan",
]
