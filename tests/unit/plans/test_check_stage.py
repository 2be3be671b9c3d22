from typing import Any

import pytest

from passdown.broker.plans.check_stage import FIXED_BUDGET
from tests.unit.plans.samples import DECISION, said, said_of

OBJECT = {"type": "object", "properties": {"orderId": {"type": "string"}}}


FAULTS: list[Any] = [
    ({"role": "My Role"}, "stages.a.role: 'My Role' is no name for a role; use lower-case words"),
    ({"ask": "The Boss"}, "stages.a.ask: 'The Boss' is no name for a queue; use lower-case words"),
    ({"constraints": ["ok", " "]}, "stages.a.constraints[1]: is blank; say something, or leave it out"),
    ({"done_when": [""]}, "stages.a.done_when[0]: is blank; say something, or leave it out"),
    ({"tools": ["no tool"]}, "stages.a.tools[0]: 'no tool' is no name for a tool; use letters, digits and"),
    (
        {"tools": ["t", "u", {"tool": "t", "approve": "q"}]},
        "stages.a.tools[2]: 't' is granted already, as stages.a.tools[0]; grant it once",
    ),
    (
        {"tools": [{"tool": "t", "approve": "producer"}]},
        "stages.a.tools[0].approve: 'producer' is reserved (ask = 'producer' leaves a question with",
    ),
    (
        {"tools": [{"tool": "t", "approval": "5m"}]},
        "stages.a.tools[0].approval: nobody is asked to approve; name the queue as `approve`",
    ),
    (
        {"tools": [{"tool": "t", "params": {"cents": {"maximum": "5"}}}]},
        'stages.a.tools[0].params.cents: in the schema at /maximum: "5" is not of type "number"',
    ),
    ({"scopes": ["x", "x"]}, "stages.a.scopes[1]: is there twice; leave it out"),
    ({"scopes": [""]}, "stages.a.scopes[0]: is blank; leave it out"),
    ({"returns": {"results": ["refused"]}}, "stages.a.returns.results: the stage could never be done; add 'done'"),
    ({"returns": {"results": ["done", "done"]}}, "stages.a.returns.results: a result is there twice; leave one out"),
    (
        {"returns": {"results": ["done"]}, "on_refused": "end"},
        "stages.a.on_refused: the stage cannot refuse; add 'refused' to returns.results, or leave it out",
    ),
    (
        {"returns": {"results": ["done"]}, "ask": "experts"},
        "stages.a.ask: the stage cannot ask; add 'needs-input' to returns.results, or leave it out",
    ),
    (
        {"permits": [{"tool": "t", "queue": "q", "params": {"cents": {"maximum": "5"}}}]},
        'stages.a.permits[0].params.cents: in the schema at /maximum: "5" is not of type "number"',
    ),
    ({"on_denied": "end"}, "stages.a.on_denied: the stage has no tools that could be denied; leave it out"),
    (
        {"returns": {"schema": {"type": "string"}}},
        "stages.a.returns.schema: no object fits, and what a stage gives back is an object; describe one:",
    ),
    ({"inputs": {"type": "array"}}, "stages.a.inputs: no object fits, and the inputs of a stage are an object;"),
    ({"inputs": {"type": "objekt"}}, "stages.a.inputs: in the schema at /type"),
    (
        {"escalation": [{"queue": "q", "hand_over": {"$ref": "x.json"}}]},
        "stages.a.escalation[0].hand_over: in the schema at /$ref: ",
    ),
    (
        {"returns": "missing.json"},
        "stages.a.returns: 'missing.json' is relative to nothing; pass base_dir=, or the schema itself",
    ),
    (
        {"goal": "x" * 40_000, "done_when": ["y" * 20_000]},
        f"stages.a.goal: takes 40002 bytes of every pack; the fixed parts of a stage may take {FIXED_BUDGET}, and take 60",
    ),
    ({"done_when": ["ok", "\ud800"]}, "stages.a.done_when[1]: a string has a lone surrogate"),
    ({"tools": [{"tool": "t", "params": {"\ud800": {}}}]}, "stages.a.tools[0].params: a key has a lone surrogate"),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "fault"), FAULTS)
def test_a_fault_of_a_stage(stage: dict[str, Any], fault: str) -> None:
    found = said_of(stage)
    assert len(found) == 1
    assert found[0].startswith(fault)


@pytest.mark.parametrize(
    ("stage", "warning"),
    [
        (
            {"goal": "Look at {orderId}."},
            "~ stages.a.goal: {orderId} stays as it is written; did you mean {inputs.orderId}?",
        ),
        (
            {"goal": "Look at {inputs.orderID.x}.", "inputs": OBJECT},
            "~ stages.a.goal: {inputs.orderID.x} is not among the inputs: orderId",
        ),
        (
            {"people": {"skills": ["ok", "x-{inputs.orderID}"]}, "inputs": OBJECT},
            "~ stages.a.people.skills[1]: {inputs.orderID} is not among the inputs: orderId",
        ),
        (
            {"waived": "because"},
            '~ stages.a.waived: waives nothing, as the risk is not high; set risk = "high"',
        ),
    ],
)
def test_what_is_odd_is_only_said(stage: dict[str, Any], warning: str) -> None:
    assert said_of(stage) == [warning]


def test_nothing_is_said_about_a_sound_stage() -> None:
    assert said_of({"goal": "Look at {inputs.orderId}.", "inputs": {"type": "object"}}) == []
    sound = {
        "goal": 'Look at {inputs.orderId} and answer {"a": 1}.',
        "inputs": OBJECT,
        "returns": {"schema": DECISION},
    }
    assert said_of({**sound, "ask": "experts", "tools": ["t"], "scopes": ["s"], "on_denied": "end"}) == []
    assert said_of({**sound, "permits": [{"tool": "t", "queue": "q"}], "on_denied": "end"}) == []


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        ({"queue": "My Queue"}, "stages.a.queue: 'My Queue' is no name for a queue; use lower-case words"),
        ({"queue": "producer"}, "stages.a.queue: 'producer' is reserved"),
        (
            {"queue": "q", "next": {"refused": "end"}},
            "stages.a.next.refused: a person's stage has none; leave it out, or give the stage to a role",
        ),
        ({"queue": "q", "lease": "5m"}, "stages.a.lease: unknown field; only a stage of a role has it;"),
        (
            {"queue": "q", "time_limit": "5m"},
            "stages.a.time_limit: unknown field; only a stage of a role has it;",
        ),
    ],
)
def test_a_fault_of_a_persons_stage(stage: dict[str, Any], fault: str) -> None:
    found = said({"name": "p", "start": "a", "stages": {"a": stage}})
    assert len(found) == 1
    assert found[0].startswith(fault)
