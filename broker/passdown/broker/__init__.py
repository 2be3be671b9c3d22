"""The broker: controller, stores, tick and pools, and `Broker`, through which producers use them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from passdown.broker.client import Broker, Session, Submission
    from passdown.broker.plans import FanOut, Grant, HumanStage, Join, Level, Plan, Returns, Stage

__all__ = [
    "Broker",
    "FanOut",
    "Grant",
    "HumanStage",
    "Join",
    "Level",
    "Plan",
    "Returns",
    "Session",
    "Stage",
    "Submission",
]


def __getattr__(name: str) -> Any:
    # Loaded when first asked for: the pure core below this package must not bring stores and queues along.
    if name in ("Broker", "Session", "Submission"):
        from passdown.broker import client  # noqa: PLC0415

        return getattr(client, name)
    if name in __all__:
        from passdown.broker import plans  # noqa: PLC0415

        return getattr(plans, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
