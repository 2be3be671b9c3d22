"""A stage where it stands in its plan."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from passdown.broker.plans.faults import around, place, within
from passdown.contracts.plans import Plan, Stage


class At(NamedTuple):
    """A stage under its name; nothing is said about what is at the `unsure` places."""

    plan: Plan
    name: str
    stage: Stage
    unsure: AbstractSet[str] = frozenset()

    def place(self, *parts: str | int) -> str:
        """Return the place of a part of this stage."""
        return place("stages", self.name, *parts)

    def is_sure(self, *parts: str | int) -> bool:
        """Whether a part of this stage is known, as a whole."""
        here = self.place(*parts)
        above = any(one in self.unsure for one in around(here))
        return not above and not any(within(one, here) for one in self.unsure)
