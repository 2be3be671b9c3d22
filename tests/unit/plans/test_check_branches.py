"""Branches as sessions of their own: where they lead, how deep they nest, what they give back."""

from itertools import pairwise
from typing import Any

import pytest

from tests.unit.plans.samples import DECISION, said


def fan(*starts: str, join: dict[str, Any] | None = None, **stage: Any) -> dict[str, Any]:
    """Return a fan-out of which one branch begins in each of `starts`."""
    branches = {f"b{n}": start for n, start in enumerate(starts)}
    return {"fan_out": {"branches": branches}, **({"join": join} if join else {}), **stage}


def role(**stage: Any) -> dict[str, Any]:
    """Return a stage of a role."""
    return {"role": "r", **stage}


def said_of(**stages: dict[str, Any]) -> list[str]:
    """Return what is said about a plan of these stages, which starts in `a`."""
    return said({"name": "p", "start": "a", "stages": stages})


def again(place: str, start: str) -> str:
    return (
        f"stages.{place}: a branch that begins in '{start}' comes to this fan-out again, which opens branches again,"
        " without end; let it move to `end`: the join sees when a branch has ended"
    )


def test_branches_are_reached_and_what_they_move_to() -> None:
    assert said_of(a=fan("b", next="d"), b=role(next="c"), c=role(), d=role()) == []
    assert said_of(a=fan("b"), b=role(), c=role()) == [
        "stages.c: no move leads here from 'a'; add a move to it, or remove it"
    ]


def test_what_a_join_that_is_short_or_conflicts_moves_to_is_reached() -> None:
    join = {"merge": "vote", "on_short": "c", "on_conflict": "d"}
    assert said_of(a=fan("b", join=join), b=role(), c=role(), d=role()) == []


def test_a_branch_must_be_able_to_end_and_the_session_too() -> None:
    assert said_of(a=fan("b"), b=role(next="c"), c=role(next="b")) == [
        (
            "stages.b.next: no way leads to an end from here: b → c → b;"
            " let one of these stages move to `end`, or to a stage that does"
        )
    ]
    assert said_of(a=fan("b", next="a"), b=role()) == [
        (
            "stages.a.next: no way leads to an end from here: a → a;"
            " let one of these stages move to `end`, or to a stage that does"
        )
    ]


def test_a_branch_ends_within_its_steps() -> None:
    stages = {"a": fan("b"), "b": role(next="c"), "c": role(next="d"), "d": role()}
    plan = {"name": "p", "start": "a", "stages": stages}
    assert said({**plan, "max_steps": 3}) == []
    assert said({**plan, "max_steps": 2}) == [
        (
            "max_steps: 2 steps are too few: the shortest way to an end of a branch that begins in 'b' has 3 stages;"
            " allow at least 3"
        )
    ]


@pytest.mark.parametrize(
    ("stages", "faults"),
    [
        ({"a": fan("a")}, [again("a.fan_out.branches.b0", "a")]),
        (
            {"a": fan("b", "d"), "b": role(next={"suggest": ["c", "end"]}), "c": role(next="a"), "d": role()},
            [again("a.fan_out.branches.b0", "b")],
        ),
        (
            {"a": fan("b"), "b": fan("c"), "c": role(next={"done": "end", "failed": "a"})},
            [again("a.fan_out.branches.b0", "b"), again("b.fan_out.branches.b0", "c")],
        ),
        (
            {
                "a": {"fan_out": {"each": "items", "stage": "b"}},
                "b": fan("c", join={"on_short": "a"}),
                "c": role(),
            },
            [again("a.fan_out.stage", "b")],
        ),
        ({"a": fan("b", next={"suggest": ["a", "end"]}), "b": role()}, []),
    ],
)
def test_a_fan_out_that_opens_itself_is_refused(stages: dict[str, Any], faults: list[str]) -> None:
    assert said_of(**stages) == faults


def nested(depth: int) -> dict[str, Any]:
    names = ["a", *(f"f{n}" for n in range(2, depth + 1)), "leaf"]
    stages = {name: fan("via-" + below) for name, below in pairwise(names)}
    between = {f"via-{name}": role(next=name) for name in names[1:]}
    return {**stages, **between, "leaf": role()}


def test_fan_outs_nest_eight_deep_and_no_deeper() -> None:
    assert said_of(**nested(8)) == []
    assert said_of(**nested(10)) == [
        f"stages.f{n}.fan_out: lies within 8 other fan-outs; fan-outs nest 8 deep at most" for n in (9, 10)
    ]


def missing(stage: str, field: str) -> str:
    return (
        f"stages.a.join.conflict[0]: branches end in '{stage}', whose returns schema has no field '{field}';"
        " declare it there under `properties`"
    )


DECIDES = {"returns": {"schema": DECISION}}


@pytest.mark.parametrize(
    ("field", "stages", "faults"),
    [
        ("decision", {"b": role(**DECIDES)}, []),
        ("descision", {"b": role(**DECIDES)}, [missing("b", "descision")]),
        ("decision", {"b": role()}, [missing("b", "decision")]),
        (
            "rule",
            {"b": role(**DECIDES)},
            [
                (
                    "~ stages.a.join.conflict[0]: branches end in 'b', whose returns schema does not require 'rule';"
                    " where it is missing it counts as null; add 'rule' to its `required`"
                )
            ],
        ),
        ("decision", {"b": role(next="c"), "c": role(**DECIDES)}, []),
        ("decision", {"b": {"queue": "people"}}, [missing("b", "decision")]),
        (
            "decision",
            {"b": role(**DECIDES, next={"suggest": ["end", "c"], "done": "d"}), "c": role(), "d": role(**DECIDES)},
            [missing("c", "decision")],
        ),
        ("decision", {"b": role(on_refused="c", next="c"), "c": role(**DECIDES)}, []),
        (
            "decision",
            {"b": role(returns={"schema": DECISION}, next={"field": "decision", "approve": "end", "deny": "c"}), "c": role()},
            [missing("c", "decision")],
        ),
        ("decision", {"b": fan("c"), "c": role()}, []),
        ("decision", {"b": fan("c", returns={"schema": {"type": "object"}}), "c": role()}, [missing("b", "decision")]),
        ("decision", {"b": fan("c", join={"merge": "editor"}), "c": role()}, [missing("b", "decision")]),
    ],
)  # fmt: skip
def test_fields_that_are_compared_are_in_what_the_last_stage_of_a_branch_gives_back(
    field: str, stages: dict[str, Any], faults: list[str]
) -> None:
    assert said_of(a=fan("b", join={"conflict": [field]}), **stages) == faults


def test_what_is_voted_on_is_looked_up_for_every_branch() -> None:
    join = {"merge": "vote", "vote_on": ["decision", "price"]}
    found = said_of(a=fan("b", "c", join=join), b=role(**DECIDES), c=role())
    assert [one.partition(";")[0] for one in found] == [
        "stages.a.join.vote_on[1]: branches end in 'b', whose returns schema has no field 'price'",
        "stages.a.join.vote_on[0]: branches end in 'c', whose returns schema has no field 'decision'",
        "stages.a.join.vote_on[1]: branches end in 'c', whose returns schema has no field 'price'",
    ]


def silent(place: str, cause: str, stage: str, compared: str) -> str:
    return (
        f"~ stages.a.join.{place}: a branch may end as done without an output, by {cause} of '{stage}': it counts,"
        f" and {compared}; leave it out there, or name a stage that gives an output"
    )


@pytest.mark.parametrize(
    ("join", "stages", "faults"),
    [
        ({"conflict": ["decision"]}, {"b": role(on_refused="end", **DECIDES)}, [silent("conflict", "on_refused", "b", "is not compared")]),
        (
            {"conflict": ["decision"], "merge": "vote"},
            {"b": role(next="c"), "c": role(on_failed="end", **DECIDES)},
            [silent("conflict", "on_failed", "c", "is not compared")],
        ),
        (
            {"merge": "vote", "vote_on": ["decision"]},
            {"b": role(on_failed="end", on_refused="end", **DECIDES)},
            [silent("vote_on", cause, "b", "does not vote") for cause in ("on_refused", "on_failed")],
        ),
        ({"merge": "vote"}, {"b": role(on_refused="end")}, [silent("merge", "on_refused", "b", "does not vote")]),
        ({"merge": "vote"}, {"b": role(on_refused="c"), "c": role()}, []),
        ({"merge": "first"}, {"b": role(on_refused="end")}, []),
        ({}, {"b": role(on_failed="end")}, []),
        ({"merge": "vote"}, {"b": role(on_failed="fail", max_attempts=1)}, []),
    ],
)  # fmt: skip
def test_what_is_compared_or_voted_on_is_there_in_every_branch_that_is_done(
    join: dict[str, Any], stages: dict[str, Any], faults: list[str]
) -> None:
    assert said_of(a=fan("b", join=join), **stages) == faults


@pytest.mark.parametrize(
    ("last", "fault"),
    [
        ({"returns": {"schema": {"type": "objekt"}}}, "stages.b.returns.schema: in the schema at /type"),
        ({"returns": "gone.json"}, "stages.b.returns: "),
        ({"next": 5}, "stages.b.next: expected a stage"),
    ],
)
def test_nothing_is_said_of_fields_where_the_last_stage_is_not_known(
    last: dict[str, Any], fault: str
) -> None:
    (only,) = said_of(a=fan("b", join={"conflict": ["decision"]}), b=role(**last))
    assert only.startswith(fault)


def test_people_that_begin_every_branch_are_waited_for() -> None:
    join = {"wait_for_people": False}
    assert said_of(a=fan("b", "c", join=join), b={"queue": "people"}, c=role()) == []
    assert said_of(a=fan("b", join=join), b={"queue": "people"}) == [
        (
            "stages.a.join.wait_for_people: every branch begins with a person, so that none is waited for;"
            " leave it out"
        )
    ]
