"""Random trees of fan-outs: plans with every kind of join contract, and what a session of one is given."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from passdown.broker.plans.check import check_plan
from passdown.broker.plans.faults import serious
from passdown.contracts.codec import decode, encode
from passdown.contracts.plans import END, Backoff, FanOut, Grant, Next, Plan, Returns, Stage
from passdown.contracts.tools import ToolSpec

#: How deep fan-outs nest, and how many branches one has at most.
DEPTH, WIDTH = 3, 3
LEASE_S = 30.0
#: Deadlines of joins and stages (seconds).
JOIN_DEADLINE_S, STAGE_DEADLINE_S = 40.0, 90.0
#: The lists, one for each level: a fan-out over the items of one leaves the others to its branches.
LISTS = ("first", "second", "third")
#: The list that is kept beside the session.
STORED = "beside"

#: Writes outside without absorbing a repeat: what is counted.
COUNT = ToolSpec(
    name="count.add",
    params={
        "type": "object",
        "properties": {"who": {"type": "string"}},
        "required": ["who"],
        "additionalProperties": False,
    },
    effect=True,
    verifies=True,
)

#: What every stage gives back.
_RETURNS = Returns(schema={"type": "object", "properties": {"v": {"type": "integer"}}, "required": ["v"]})
_BACKOFF = Backoff(first_seconds=1.0, factor=2.0, most_seconds=5.0)
_rarely = st.integers(0, 3).map(lambda n: n == 0)
_often = st.integers(0, 3).map(lambda n: n > 0)


@dataclass(frozen=True)
class Tree:
    """A plan, what its session is given, and how many items the list beside it has (None: there is no such list)."""

    plan: Plan
    inputs: dict[str, Any]
    stored: int | None

    def __repr__(self) -> str:
        # As it is stored, for that leaves out what is by default.
        return f"tree_of({encode(self.plan)!r}, {self.inputs!r}, {self.stored!r})"


def tree_of(plan: bytes, inputs: dict[str, Any], stored: int | None) -> Tree:
    """Return a tree as it was printed."""
    return Tree(decode(plan, Plan), inputs, stored)


class _Growing:
    """A plan in the making."""

    def __init__(self, draw: st.DrawFn, sizes: dict[str, int]) -> None:
        self.draw = draw
        self.sizes = sizes
        self.stages: dict[str, Stage] = {}

    def name(self, kind: str) -> str:
        return f"{kind}-{len(self.stages)}"

    def grow(self, depth: int) -> str:
        """Add a stage, with all that it leads to, and return its name."""
        if depth < DEPTH and (depth == 0 or self.draw(_often if depth == 1 else _rarely)):
            return self.fan_out(depth)
        return self.leaf()

    def leaf(self, *, follows: bool = True) -> str:
        draw = self.draw
        name = self.name("leaf")
        if draw(st.integers(0, 7)) == 0:
            self.stages[name] = Stage(queue="desk", returns=_RETURNS)
            return name
        self.stages[name] = Stage()  # keeps the name
        following = self.leaf(follows=False) if follows and draw(_rarely) else None
        self.stages[name] = Stage(
            role="leaf",
            tools=[Grant(tool=COUNT.name)] if draw(st.booleans()) else [],
            next=Next(to=following),
            returns=_RETURNS,
            lease_seconds=LEASE_S,
            max_attempts=draw(st.sampled_from([1, 2, 2, 3])),
            on_failed=draw(st.sampled_from([None, "fail", "fail", END])),
            on_refused=draw(st.sampled_from([None, None, following, END])),
            ask=draw(st.sampled_from(["producer", "desk"])),
            recovery=draw(st.sampled_from(["rerun", "continue", "human"])),
            deadline_seconds=draw(st.sampled_from([None, None, STAGE_DEADLINE_S])),
            backoff=_BACKOFF,
        )
        return name

    def fan_out(self, depth: int) -> str:
        draw = self.draw
        name = self.name("fan")
        self.stages[name] = Stage()  # keeps the name
        named = draw(st.booleans())
        branches: dict[str, str] = {}
        each = ""
        if named:
            for n in range(draw(st.sampled_from([3, 3, 2, 1]))):
                again = list(branches.values())
                branches[f"b{n}"] = again[0] if again and draw(st.booleans()) else self.grow(depth + 1)
            count = len(branches)
        else:
            each = STORED if depth == 0 and draw(_rarely) else LISTS[depth]
            count = self.sizes[each]
        begins = "" if named else self.grow(depth + 1)
        stage_deadline = draw(st.sampled_from([None, None, STAGE_DEADLINE_S]))
        following = self.after(depth)
        contract: dict[str, Any] = self.contract(name, count, following) | {
            "branches": branches,
            "each": each,
            "stage": begins,
            "key": "key" if each and draw(st.booleans()) else "",
            "give": draw(st.sampled_from([None, None, ["n", *LISTS[depth + 1 :]]])),
        }
        fan_out = FanOut(**contract)
        if all(self.stages[one].queue for one in [*branches.values(), *([begins] if begins else [])]):
            fan_out = replace(fan_out, wait_for_people=True)
        refuses = fan_out.need == "veto" or fan_out.merge == "merger"
        self.stages[name] = Stage(
            fan_out=fan_out,
            next=Next(to=following),
            returns=_RETURNS,
            lease_seconds=LEASE_S,
            max_attempts=draw(st.integers(1, 2)),
            max_entries=draw(st.sampled_from([1, 2])),
            on_failed=draw(st.sampled_from([None, "fail", END])),
            on_refused=draw(st.sampled_from([None, following, END])) if refuses else None,
            deadline_seconds=stage_deadline,
            backoff=_BACKOFF,
        )
        return name

    def after(self, depth: int) -> str | None:
        """Return the stage after a fan-out: none, a leaf, or at the top another fan-out, which begins at once."""
        kind = self.draw(st.integers(0, 5))
        if kind == 0 and depth == 0 and len(self.stages) < 6:
            return self.fan_out(1)
        return self.leaf() if kind == 1 else None

    def contract(self, name: str, count: int, following: str | None) -> dict[str, Any]:
        draw = self.draw
        targets = [None, None, "fail", "desk", *([following] if following else []), name]
        need = draw(st.sampled_from(["all", "all", "any", "veto", *range(1, count + 1)]))
        merge = draw(st.sampled_from(["collect", "collect", "first", "vote", "reduce:sum", "merger"]))
        counts = ["done"]
        if need != "veto" and draw(_rarely):
            counts += draw(
                st.lists(st.sampled_from(["refused", "failed", "cancelled"]), max_size=3, unique=True)
            )
        if need != "veto" and merge not in ("first", "vote") and draw(st.integers(0, 11)) == 0:
            counts = ["failed", "refused"]
        conflict = ["v"] if "done" in counts and draw(_rarely) else []
        can_conflict = conflict or merge == "vote"
        return {
            "need": need,
            "counts": counts,
            "at_once": draw(st.sampled_from([0, 0, 0, 1, 2])),
            "wait_for_people": draw(_often),
            "deadline_seconds": draw(st.sampled_from([None, None, JOIN_DEADLINE_S])),
            "merge": merge,
            "vote_on": draw(st.sampled_from([[], ["v"]])) if merge == "vote" else [],
            "conflict": conflict,
            "on_conflict": draw(st.sampled_from(targets)) if can_conflict else None,
            "on_short": draw(st.sampled_from([*targets, "merge"])),
        }


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw a plan that the check of plans finds nothing wrong with, and what its session is given."""
    sizes = {name: draw(st.sampled_from([2, 2, 3, 1])) for name in LISTS}
    sizes[LISTS[0]] = draw(st.sampled_from([3, 3, 2, 2, 1, 0]))
    sizes[STORED] = draw(st.integers(1, WIDTH))
    growing = _Growing(draw, sizes)
    start = growing.grow(0)
    plan = Plan(name="tree", start=start, stages=growing.stages, max_steps=draw(st.sampled_from([3, 12])))
    wrong = [fault for fault in serious(check_plan(plan)) if fault.place != "max_steps"]
    assert not wrong, [str(fault) for fault in wrong]
    inputs: dict[str, Any] = {"n": 1}
    inputs |= {name: [{"key": f"k{n}", "n": n} for n in range(sizes[name])] for name in LISTS}
    uses_stored = any(one.fan_out and one.fan_out.each == STORED for one in plan.stages.values())
    return Tree(plan, inputs, sizes[STORED] if uses_stored else None)
