"""What branches did outside, and what their own branches did, is told upwards (rule 3); also what comes to light late."""

from typing import Any

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.plans import FanOut, Grant, Plan, Stage
from tests.unit.core.joins import Parent
from tests.unit.core.plans import MAIL, stage
from tests.unit.core.spec import like


def tree(outer: dict[str, Any], inner: dict[str, Any]) -> Plan:
    """Return a plan of three levels: ``top`` opens ``middle`` and ``other``, and ``middle`` two that write."""
    return Plan(
        name="tree",
        start="top",
        stages={
            "top": Stage(fan_out=FanOut(branches={"a": "middle", "b": "other"}, **outer)),
            "middle": Stage(fan_out=FanOut(branches={"x": "write", "y": "write"}, **inner)),
            "write": stage(tools=[Grant(tool="mail")]),
            "other": stage(),
        },
    )


def opened(outer: dict[str, Any] | None = None, inner: dict[str, Any] | None = None) -> tuple[Parent, Parent]:
    top = Parent(tree(outer or {}, inner or {}), MAIL)
    top.submit()
    return top, top.opens().branch(0).opens()


def writes(branch: Parent, times: int = 1) -> Parent:
    branch.claim()
    for n in range(times):
        branch.report(branch.run("mail", {"to": f"{branch.id}/{n}"}))
    return branch.done({"n": 1})


def effects(parent: Parent, place: int = 0) -> int:
    return parent.rows.rows[place].about.effects


def test_rule_03_what_the_branches_of_a_branch_did_is_in_its_row() -> None:
    top, middle = opened()
    writes(middle.branch(0), 2)
    writes(middle.branch(1))
    middle.look().then(like(ev.Joined, drained=True, effects=3), "PackIssued").claim().done()
    assert (middle.state.below, effects(top)) == (3, 3)


def test_rule_03_so_are_those_of_its_branches_that_do_not_count() -> None:
    top, middle = opened(inner={"need": "any"})
    writes(middle.branch(0), 2)
    middle.look().then(like(ev.Joined, drained=False, effects=2), "PackIssued").claim().done().opens()
    late = middle.branch(1).claim()
    effect = late.run("mail", {"to": "z"})
    middle.branch(1, cancel="not needed")
    late.report(effect).stands("cancelled")
    middle.look().then(like(ev.JoinDrained, more=1, counted=2), "Completed")
    assert (middle.state.below, effects(top)) == (3, 3)


def test_rule_03_what_lies_deeper_in_a_branch_that_does_not_count_keeps_the_join_open() -> None:
    """Its own ledger is empty, and it is told of all the same."""
    top, middle = opened(outer={"need": "any"})
    writes(middle.branch(0))
    top.branch(1).claim().done()
    top.look().then(like(ev.Joined, drained=False), "PackIssued").opens()
    top.branch(0, cancel="not needed").then("Ending").opens()
    middle.branch(1, cancel="not needed")
    middle.look().then(like(ev.JoinDrained, more=1), "Cancelled")
    assert (middle.state.effects, middle.state.below, effects(top)) == ([], 1, 1)


def test_nothing_is_counted_twice_where_a_branch_is_sent_back_to() -> None:
    top, middle = opened(inner={"merge": "adder"})
    writes(middle.branch(0))
    writes(middle.branch(1))
    middle.look().claim().done().rework(top.join.join_id).claim().done()
    assert (middle.state.below, effects(top)) == (2, 2)


@pytest.mark.parametrize("phase", ["done", "failed"])
def test_rule_03_what_comes_to_light_after_the_end_is_written_in_the_row(phase: Any) -> None:
    top, middle = opened()
    leaf = middle.branch(0).claim()
    effect = leaf.run("mail", {"to": "z"})
    claim_id = leaf.fence.claim_id
    middle.branch(0, cancel="not needed")
    leaf.lose().claim().settle(e1="absent").stands("cancelled")
    before = middle.rows.version
    assert effects(middle) == 0
    leaf.do(cmd.Report(effect_id=effect, claim_id=claim_id, phase=phase, result={}))
    assert effects(middle) == (1 if phase == "done" else 0)
    # Another row would have whoever closes the join look at it again for nothing.
    assert middle.rows.version == before + (phase == "done")
    assert top.rows.rows == {}
