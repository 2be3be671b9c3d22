from typing import Any

import pytest

from passdown.broker.plans import check_plan
from passdown.broker.plans.check_moves import spelled
from passdown.contracts.codec import encode
from passdown.contracts.plans import Next, Plan, Stage
from tests.unit.plans.samples import DECISION, said_of


def by(field: str, *values: str) -> dict[str, str]:
    return {"field": field, **dict.fromkeys(values, "end")}


def returns(**field: Any) -> dict[str, Any]:
    return {"schema": {"type": "object", "properties": {"f": field}, "required": ["f"]}}


@pytest.mark.parametrize(
    ("stage", "faults"),
    [
        ({"next": "b2"}, ["stages.a.next: there is no stage 'b2'; did you mean 'b'?"]),
        ({"next": "fail"}, ["stages.a.next: only on_failed may lead to 'fail'; move to a stage, or to 'end'"]),
        ({"next": {"suggest": ["b", "c"]}}, ["stages.a.next.suggest[1]: there is no stage 'c'; there are: a, b, end"]),
        ({"next": {"suggest": ["b", "b"]}}, ["stages.a.next.suggest: a stage is there twice; leave one out"]),
        ({"next": "b", "on_refused": "c"}, ["stages.a.on_refused: there is no stage 'c'; there are: a, b, end"]),
        ({"next": "b", "on_failed": "c"}, ["stages.a.on_failed: there is no stage 'c'; there are: a, b, end"]),
        (
            {"next": "b", "overdue": {"after": "1h", "to": "c"}},
            ["stages.a.overdue.to: there is no stage 'c'; there are: a, b, fail"],
        ),
        (
            {"next": "b", "overdue": {"after": "1h", "to": "end"}},
            ["stages.a.overdue.to: a session does not end as done because nobody answered; lead to a stage, or to 'fail'"],
        ),
        (
            {"next": "b", "on_refused": "fail"},
            ["stages.a.on_refused: only on_failed may lead to 'fail'; move to a stage, or to 'end'"],
        ),
        (
            {"next": {"field": "decision", "approve": "b"}, "returns": {"schema": DECISION}},
            ["stages.a.next: 'decision' may be 'deny', which leads nowhere; map 'deny' to a stage, or to \"end\""],
        ),
        (
            {"next": {**by("decision", "aprove", "deny"), "approve": "b"}, "returns": {"schema": DECISION}},
            ["stages.a.next.aprove: 'decision' is never 'aprove'; did you mean 'approve'?"],
        ),
        (
            {"next": {**by("desicion", "approve"), "deny": "b"}, "returns": {"schema": DECISION}},
            ["stages.a.next.field: the returns schema has no field 'desicion'; declare it under `properties`"],
        ),
        (
            {"next": {**by("rule", "x"), "y": "b"}, "returns": {"schema": DECISION}},
            ["stages.a.next.field: the returns schema does not require 'rule'; add 'rule' to its `required`"],
        ),
        (
            {"next": {"field": "f", "x": "b"}},
            ["stages.a.next.field: the returns schema has no field 'f'; declare it under `properties`, with its values"],
        ),
        (
            {"next": {"field": "f", "1": "b"}, "returns": returns(enum=["1", 2.5])},
            ["stages.a.next.field: 'f' may be 2.5, and only text, integers, true, false and null lead somewhere; let the field"],
        ),
        (
            {"next": {"field": "f", "true": "b"}, "returns": returns(type="boolean")},
            ["stages.a.next: 'f' may be 'false', which leads nowhere; map 'false' to a stage, or to \"end\""],
        ),
        (
            {"next": {"field": "f", "x": "b"}, "returns": returns(anyOf=[{"const": "x"}, {"type": "null"}])},
            ["stages.a.next: 'f' may be 'null', which leads nowhere; map 'null' to a stage, or to \"end\""],
        ),
        (
            {"next": {"field": "f", "x": "b"}, "returns": returns(type="string")},
            ["~ stages.a.next.field: the values of 'f' are not listed, and one that is not mapped breaks the contract;"],
        ),
        (
            {"next": {"field": "f", "x": "b"}, "returns": {"schema": {"type": "objekt"}}},
            ["stages.a.returns.schema: in the schema at /type"],
        ),
        ({"next": {"field": "f"}}, ["stages.a.next: no value of 'f' leads anywhere; add value = \"stage\""]),
    ],
)  # fmt: skip
def test_a_fault_of_a_move(stage: dict[str, Any], faults: list[str]) -> None:
    found = [one for one in said_of(stage, "b") if not one.startswith("stages.b: no move")]
    if stage["next"] == {"field": "f"}:  # with no values the schema's lack of the field is said, too
        found = found[:1]
    assert len(found) == len(faults)
    assert all(one.startswith(fault) for one, fault in zip(found, faults, strict=True))


def test_moves_by_text_integers_booleans_and_null_are_sound_where_all_are_mapped() -> None:
    assert said_of({"next": by("decision", "approve", "deny"), "returns": {"schema": DECISION}}) == []
    assert (
        said_of({"next": by("f", "true", "false", "null"), "returns": returns(type=["boolean", "null"])})
        == []
    )


@pytest.mark.parametrize("value", ["approve", "", True, False, None, 0, 1, -7])
def test_a_value_is_spelled_as_its_json_is_and_text_as_it_is(value: object) -> None:
    assert spelled(value) == (value if isinstance(value, str) else encode(value).decode())


@pytest.mark.parametrize(
    ("following", "fault"),
    [
        (Next(field="f", cases={"x": "end"}, to="end"), "leads by a field and otherwise, too; choose one"),
        (
            Next(field="f", cases={"x": "end"}, suggest=["end"]),
            "leads by a field and otherwise, too; choose one",
        ),
        (Next(cases={"x": "end"}), "its values are of no field; name the field of the output as `field`"),
    ],
)
def test_stored_moves_that_cannot_be_written_are_refused(following: Next, fault: str) -> None:
    plan = Plan(name="p", start="a", stages={"a": Stage(role="r", next=following)})
    assert f"stages.a.next: {fault}" in [str(one) for one in check_plan(plan)]
