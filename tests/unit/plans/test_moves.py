from typing import Any

import pytest

from passdown.broker.plans.moves import moves_of
from passdown.contracts.plans import Next
from tests.unit.plans.samples import said_of


@pytest.mark.parametrize(
    ("written", "following", "on"),
    [
        (None, Next(), {}),
        ("pay", Next(to="pay"), {}),
        ("end", Next(to="end"), {}),
        ({"field": "decision", "yes": "pay", "no": "end"}, Next(field="decision", cases={"yes": "pay", "no": "end"}), {}),
        ({"field": "outcome", "done": "a", "refused": "b"}, Next(field="outcome", cases={"done": "a", "refused": "b"}), {}),
        ({"suggest": ["a", "b"]}, Next(suggest=["a", "b"]), {}),
        ({"suggest": ("a", "end"), "done": "a"}, Next(suggest=["a", "end"], to="a"), {}),
        (
            {"done": "a", "refused": "b", "denied": "c", "failed": "fail"},
            Next(to="a"),
            {"on_refused": "b", "on_denied": "c", "on_failed": "fail"},
        ),
        ({"refused": "b"}, Next(), {"on_refused": "b"}),
    ],
)  # fmt: skip
def test_each_form_of_next(written: Any, following: Next, on: dict[str, str]) -> None:
    moves = moves_of("s", written)
    assert (moves.next, moves.on, moves.faults) == (following, on, [])


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        ({}, "stages.s.next: an empty table says nothing; leave `next` out to end the session"),
        ({"field": "d", "yes": 5}, "stages.s.next.yes: expected a stage, got 5"),
        ({"field": "d", "yes": ["a"]}, "stages.s.next.yes: expected a stage, got a list"),
        ({"field": 5, "yes": "a"}, "stages.s.next.field: expected a field's name, got 5"),
        ({"suggest": "a"}, "stages.s.next.suggest: expected a list of stages, got 'a'; write suggest = [\"a\", \"b\"]"),
        ({"suggest": []}, 'stages.s.next.suggest: expected a list of stages, got a list; write suggest = ["a", "b"]'),
        ({"suggest": ["a", 5]}, 'stages.s.next.suggest: expected a list of stages, got a list; write suggest = ["a", "b"]'),
        ({"done": {"to": "a"}}, "stages.s.next.done: expected a stage, got a table"),
        ({"needs-input": "a"}, "stages.s.next.needs-input: 'needs-input' leads to no stage; name whom to ask as `ask`"),
        ({"escalate": "a"}, "stages.s.next.escalate: 'escalate' leads to no stage; name the path as `escalation`"),
        (
            {"refuse": "a"},
            "stages.s.next.refuse: 'refuse' is no result; did you mean 'refused'? (by a field of the output, it needs `field`)",
        ),
    ],
)  # fmt: skip
def test_what_next_cannot_mean(written: Any, fault: str) -> None:
    assert [str(one) for one in moves_of("s", written).faults] == [fault]


def test_a_fault_of_a_move_by_result_stands_where_it_was_written() -> None:
    assert said_of({"next": {"done": "nowhere", "refused": "there"}}) == [
        "stages.a.next.done: there is no stage 'nowhere'; there are: a, end",
        "stages.a.next.refused: there is no stage 'there'; there are: a, end",
    ]
    assert said_of({"next": {"refused": "end"}, "on_refused": "a"}) == [
        "stages.a.on_refused: `next` says where 'refused' leads, too; say it in one place"
    ]
