"""What is wrong with the contract by which branches are joined."""

from typing import Any

import pytest

from passdown.contracts.plans import MERGER
from tests.unit.plans.samples import DECISION, said

LEAF = {"role": "leaf", "returns": {"schema": DECISION}}
TWO = {"branches": {"b": "leaf", "c": "leaf"}}
NAME = "use lower-case words joined by - _ or . (at most 100 characters, a letter first)"
ROLE = "(a role, rename it)"


def said_of(join: dict[str, Any], fan_out: dict[str, Any] = TWO, **stage: Any) -> list[str]:
    """Return what is said about the join of the fan-out `review`, without `stages.review.join.`."""
    stages = {
        "review": {"fan_out": fan_out, "join": join, "next": "tell", **stage},
        "leaf": LEAF,
        "tell": {"role": "voter"},
    }
    found = said({"name": "p", "start": "review", "stages": stages})
    return [one.replace("stages.review.join.", "", 1) for one in found]


@pytest.mark.parametrize(
    ("join", "faults"),
    [
        ({"need": 2}, []),
        ({"need": 3}, ["need: 3 branches are needed, and 2 are named; need fewer, or 'all'"]),
        ({"need": 0}, ["need: 0 is out of range; needed is at least 1 branch"]),
        ({"need": -(10**40)}, ["need: a huge integer is out of range; needed is at least 1 branch"]),
        ({"need": 10**40}, ["need: a huge integer branches are needed, and 2 are named; need fewer, or 'all'"]),
        ({"counts": []}, ["counts: no outcome counts; leave it out for ['done']"]),
        ({"counts": ["done", "done"]}, ["counts[1]: is there twice; leave it out"]),
        ({"need": "veto", "counts": ["done", "failed"]}, ["counts: under a veto only what is done counts; leave it out"]),
        ({"need": "veto", "counts": ["done"]}, []),
        ({"counts": ["refused"]}, []),
        ({"counts": ["refused"], "merge": "first"}, ["counts: only what is done has an output, and merge = 'first' needs one; add 'done'"]),
        ({"counts": ["failed"], "conflict": ["decision"]}, ["counts: only what is done has an output, and `conflict` compares outputs; add 'done'"]),
        ({"deadline": "0s"}, ["deadline: 0s is out of range; leave it out for the default"]),
        ({"deadline": "1ms"}, ["deadline: 1ms is out of range; from 10ms to 3650d"]),
        *(({"merge": merge}, []) for merge in ("collect", "first", "vote", "editor", "reduce:sum", "reduce:sums.of-all", "voter", "reducer", "collector")),
        ({"merge": "colect"}, [f"merge: 'colect' is no merge; did you mean 'collect'? {ROLE}"]),
        ({"merge": "Collect"}, [f"merge: 'Collect' is no name for a role; {NAME}"]),
        ({"merge": "frist"}, [f"merge: 'frist' is no merge; did you mean 'first'? {ROLE}"]),
        ({"merge": "votes"}, [f"merge: 'votes' is no merge; did you mean 'vote'? {ROLE}"]),
        ({"merge": "Vot"}, [f"merge: 'Vot' is no merge; did you mean 'vote'? {ROLE}"]),
        ({"merge": "the best"}, [f"merge: 'the best' is no name for a role; {NAME}"]),
        *(
            ({"merge": merge}, ["merge: it does not say how to merge; name a function, reduce:NAME, or 'collect', or a role"])
            for merge in ("", "reduce", "reduce:")
        ),
        ({"merge": "reduce:My Sum"}, [f"merge: 'My Sum' is no name for a function; {NAME}"]),
        ({"merge": f"reduce:{'x' * 93}"}, []),
        ({"merge": f"reduce:{'x' * 94}"}, [f"merge: '{'x' * 60}…' is too long for the name of a function; at most 93 characters"]),
        ({"merge": "reduce.sum"}, ["merge: 'reduce.sum' is no merge; did you mean 'reduce:sum'?"]),
        ({"merge": MERGER}, ["merge: 'passdown.merge' is reserved (merges of fan-outs are issued under it); give the role another name"]),
        ({"vote_on": ["decision"]}, ["vote_on: nobody votes; set merge = 'vote', or leave it out"]),
        ({"merge": "vote", "vote_on": ["decision", " ", "decision"]}, ["vote_on[1]: is blank; leave it out", "vote_on[2]: is there twice; leave it out"]),
        ({"conflict": ["decision", "decision"]}, ["conflict[1]: is there twice; leave it out"]),
        *(({"conflict": [blank]}, ["conflict[0]: is blank; leave it out"]) for blank in ("", " ")),
        ({"conflict": ["decision"], "merge": "first"}, []),
        ({"on_conflict": "people"}, ["on_conflict: nothing here can conflict; name the fields that must agree as `conflict`, or leave it out"]),
        ({"on_conflict": "My People"}, ["on_conflict: nothing here can conflict; name the fields that must agree as `conflict`, or leave it out"]),
        ({"on_conflict": "merge"}, ["on_conflict: nothing here can conflict; did you mean on_short = 'merge'?"]),
        ({"on_conflict": "people", "merge": "vote"}, []),
        ({"on_conflict": "merge", "merge": "vote"}, ["on_conflict: only on_short may be 'merge'; name a stage, 'fail', or a queue"]),
        *(({"on_short": target}, []) for target in ("tell", "fail", "merge", "reviewers", "operators")),
        ({"on_short": "end"}, ["on_short: it leads to no end; name a stage, 'fail', or a queue"]),
        ({"on_short": "producer"}, ["on_short: 'producer' is reserved (ask = 'producer' leaves a question with whoever submitted the session); give the queue another name"]),
        ({"on_short": "My People"}, [f"on_short: 'My People' is no name for a queue; {NAME}"]),
        ({"on_short": "tel"}, ["~ on_short: no stage is called 'tel', so it is a queue; did you mean 'tell'?"]),
    ],
)  # fmt: skip
def test_a_fault_of_the_join(join: dict[str, Any], faults: list[str]) -> None:
    assert said_of(join) == faults


def test_a_quorum_is_no_larger_than_the_list_may_be() -> None:
    each = {"each": "items", "stage": "leaf", "most": 10}
    assert said_of({"need": 10}, each) == []
    assert said_of({"need": 11}, each) == [
        "need: 11 branches are needed, and there are 10 at most; need fewer, or raise fan_out.most"
    ]
    assert said_of({"need": 1001}, {"each": "items", "stage": "leaf"}) == [
        "need: 1001 branches are needed, and there are 1000 at most; need fewer, or raise fan_out.most"
    ]


def test_the_deadline_of_the_join_is_before_that_of_the_stage() -> None:
    assert said_of({"deadline": "1h"}, deadline="2h") == []
    assert said_of({"deadline": "2h"}, deadline="2h") == [
        (
            "deadline: 2h is not before the deadline of the stage, 2h;"
            " make it shorter: what is short, and the merge, need time, too"
        )
    ]


def test_merge_as_on_short_is_no_stage_of_this_name() -> None:
    stages = {
        "a": {"fan_out": {"branches": {"b": "leaf"}}, "join": {"on_short": "merge"}, "next": "merge"},
        "leaf": LEAF,
        "merge": {"role": "r"},
    }
    assert said({"name": "p", "start": "a", "stages": stages}) == [
        "stages.a.join.on_short: 'merge' goes on with what is there, and is a stage, too; rename the stage"
    ]


@pytest.mark.parametrize("role", ["passdown.merge", "reduce.sum"])
def test_the_roles_of_merges_are_for_merges(role: str) -> None:
    assert said({"name": "p", "start": "a", "stages": {"a": {"role": role}}}) == [
        f"stages.a.role: '{role}' is reserved (merges of fan-outs are issued under it); give the role another name"
    ]
