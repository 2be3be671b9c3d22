"""The outside world: what was truly written there, and what can be found out about it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from passdown.contracts.commands import Verdict

#: How a write goes: what happens outside, and what the tool says about it.
#:
#: ``ok``: written, and said so. ``not-done``: not written, and known so (the tool raises NotDone).
#: ``lost``: written, but the tool raises. ``never``: not written, and the tool raises.
#: ``silent``: written, and the worker says nothing about it.
Writing = Literal["ok", "not-done", "lost", "never", "silent"]


@dataclass(frozen=True)
class Arrival:
    """One write that reached the outside; ``version`` is the session's when it came."""

    key: str
    tool: str
    args: dict[str, Any]
    claim_id: str
    version: int


@dataclass
class Outside:
    """Keeps every write by its idempotency key. ``absorbs``: tools whose system absorbs a repeated key."""

    absorbs: frozenset[str]
    #: Called with each arrival, before it counts.
    watch: Callable[[Arrival], None]
    arrivals: dict[str, list[Arrival]] = field(default_factory=dict[str, list[Arrival]])
    #: Effects of which a person said what is not so.
    lied: set[str] = field(default_factory=set[str])

    def write(self, arrival: Arrival) -> dict[str, Any]:
        """Take a write in; the same key again gives the same answer where the tool's system absorbs it."""
        self.watch(arrival)
        came = self.arrivals.setdefault(arrival.key, [])
        came.append(arrival)
        return self.result(arrival.key)

    def result(self, key: str) -> dict[str, Any]:
        return {"ref": f"ref-{key[-6:]}", "of": self.arrivals[key][0].args.get("order", "")}

    def applied(self, key: str) -> int:
        """Return how often the write took effect."""
        came = self.arrivals.get(key, [])
        return min(1, len(came)) if came and came[0].tool in self.absorbs else len(came)

    def verify(self, key: str, *, sure: bool) -> Verdict:
        """Answer as the tool's `verify` does."""
        if not sure:
            return Verdict(effect_id=key, found="unsure", note="the system is slow today")
        if self.applied(key):
            return Verdict(effect_id=key, found="found", result=self.result(key))
        return Verdict(effect_id=key, found="absent")
