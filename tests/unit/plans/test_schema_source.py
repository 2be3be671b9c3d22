from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from pydantic import BaseModel, Field, computed_field

from passdown.broker.plans import Plan, Returns, Stage, compile_plan
from passdown.broker.plans.schema_look import FieldLook, field_of
from passdown.broker.plans.schema_source import FILE_BUDGET, SourceProblem, schema_from
from passdown.contracts.schema import problems


class StructDecision(msgspec.Struct, rename="camel"):
    decision: Literal["approve", "deny"]
    rule_name: str = ""


@dataclass
class DataDecision:
    decision: Literal["approve", "deny"]
    rule_name: str = ""


class Rule(BaseModel):
    text: str


class ModelDecision(BaseModel):
    decision: Literal["approve", "deny"]
    note: str = ""
    rule: Rule = Field(alias="theRule")

    @computed_field
    @property
    def approved(self) -> bool:
        return self.decision == "approve"


@pytest.mark.parametrize(
    ("source", "good"),
    [
        (StructDecision, {"decision": "deny", "ruleName": "x"}),
        (DataDecision, {"decision": "deny", "rule_name": "x"}),
        (ModelDecision, {"decision": "deny", "theRule": {"text": "x"}, "approved": False}),
    ],
)
def test_a_class_becomes_a_whole_schema_that_next_can_look_into(source: type, good: dict[str, Any]) -> None:
    schema = schema_from(source, None, "out")
    assert problems(schema, good) == []
    assert problems(schema, {**good, "decision": "maybe"}) != []
    assert field_of(schema, "decision") == FieldLook(declared=True, required=True, values=["approve", "deny"])
    plan = Plan(
        name="p",
        start="a",
        stages={
            "a": Stage(
                role="r",
                returns=source,
                inputs=source,
                next={"field": "decision", "approve": "end", "deny": "end"},
            )
        },
    )
    assert compile_plan(plan).stages["a"].returns.schema == schema


def test_what_a_pydantic_model_adds_is_there_on_the_way_out_only() -> None:
    into, out = schema_from(ModelDecision, None, "in"), schema_from(ModelDecision, None, "out")
    given = {"decision": "deny", "theRule": {"text": "x"}}
    assert problems(into, given) == []
    assert problems(out, given) != []
    assert problems(out, {**given, "approved": False}) == []


def test_types_without_a_class_of_their_own_will_do_as_well() -> None:
    assert schema_from(dict[str, int], None, "out") == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
    }
    assert problems(schema_from(StructDecision | None, None, "out"), {"decision": "deny"}) == []


@pytest.mark.parametrize("source", [object(), 5.5, b"x", lambda: None, object, Path("x")])
def test_what_no_schema_can_be_made_of_is_said(source: object) -> None:
    with pytest.raises(SourceProblem) as caught:
        schema_from(source, None, "out")
    assert caught.value.mend == "pass a dict, a msgspec Struct, a dataclass or a pydantic model"


def test_a_file_is_found_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "a.json").write_text('\ufeff{"type": "object"}', encoding="utf-8")
    assert schema_from("schemas/a.json", tmp_path, "out") == {"type": "object"}
    plan = Plan(name="p", start="a", stages={"a": Stage(role="r", returns=Returns(schema="schemas/a.json"))})
    assert compile_plan(plan, tmp_path).stages["a"].returns.schema == {"type": "object"}


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("decison.json", "there is no file"),
        ("folder.json", "there is no file"),
        ("decision.yaml", "'decision.yaml' is no path of a .json file"),
        ("/etc/x.json", "'/etc/x.json' is an absolute path"),
        ("a\0.json", "'a\\x00.json' is no path of a .json file"),
        ("list.json", "'list.json' holds a list, and a schema is an object, true or false"),
        ("broken.json", "'broken.json' is not UTF-8 JSON"),
        ("latin.json", "'latin.json' is not UTF-8 JSON"),
        ("deep.json", "'deep.json' is nested deeper than 64"),
        ("large.json", f"'large.json' has {FILE_BUDGET + 2} bytes, and a schema may have {FILE_BUDGET}"),
    ],
)
def test_a_file_that_cannot_be_used_is_said(tmp_path: Path, written: str, problem: str) -> None:
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "decision.json").write_text("{}")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "latin.json").write_bytes(b'{"title": "\xe9"}')
    (tmp_path / "deep.json").write_text('{"not":' * 5000 + "{}" + "}" * 5000)
    (tmp_path / "large.json").write_text("{}" + " " * FILE_BUDGET)
    with pytest.raises(SourceProblem) as caught:
        schema_from(written, tmp_path, "out")
    assert caught.value.problem.startswith(problem)


def test_the_file_that_was_probably_meant_is_named(tmp_path: Path) -> None:
    (tmp_path / "decision.json").write_text("{}")
    with pytest.raises(SourceProblem) as caught:
        schema_from("decison.json", tmp_path, "out")
    assert caught.value.mend == "did you mean 'decision.json'?"
    with pytest.raises(SourceProblem, match="no folder"):
        schema_from("nowhere/decision.json", tmp_path, "out")
    with pytest.raises(SourceProblem, match="relative to nothing"):
        schema_from("decision.json", None, "out")
