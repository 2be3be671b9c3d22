"""Values of every shape at a terminal: lists of objects, parts that may be left out, lines that are too long."""

from typing import Any

import pytest

from passdown.broker.client import Session
from passdown.contracts.plans import Plan, Returns, Stage
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk
from tests.unit.cli.typing_hands import Step, typed

_TEXT = {"type": "string"}


@pytest.fixture
def complete(at_desk: Cli, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Complete a person's stage, whose output must fit a schema, by hand."""

    def act(schema: Any, steps: list[Step], expected_code: int = 0) -> Any:
        stage = Stage(queue="desk", returns=Returns(schema=schema))
        desk.broker.register(Plan(name="hand", start="only", stages={"only": stage}))
        session: Session = desk.submit("hand", plan="hand")
        end: list[Step] = [("note (", ""), ("send it?", "y")] if expected_code == 0 else []
        done = typed(monkeypatch, ["inbox", "resolve", "hand/1", "complete"], [*steps, *end])
        assert done.code == expected_code, done.screen
        outcome = session.state().outcome
        return outcome.output if outcome else None

    return act


def test_a_list_of_objects_is_asked_for_one_by_one(complete: Any) -> None:
    item = {
        "type": "object",
        "properties": {"name": _TEXT, "old": {"type": "boolean"}},
        "required": ["name", "old"],
    }
    schema = {
        "type": "object",
        "properties": {"people": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
        "required": ["people"],
        "$defs": {"item": item},
    }
    output = complete(
        schema,
        [
            ("give people 1? [y/N]: ", "y"),
            ("name (text): ", "ann"),
            ("old [y/n]: ", "no"),
            ("give people 2? [y/N]: ", "y"),
            ("name (text): ", "bob"),
            ("old [y/n]: ", "yes"),
            ("give people 3? [y/N]: ", ""),
        ],
    )
    assert output == {"people": [{"name": "ann", "old": False}, {"name": "bob", "old": True}]}


def test_what_may_be_left_out_is_left_out(complete: Any) -> None:
    place = {"type": "object", "properties": {"town": _TEXT}, "required": ["town"]}
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "number"},
            "b": {"enum": ["x", "y"]},
            "c": {"type": "boolean"},
            "d": place,
            "e": {"type": "array", "items": _TEXT},
            "f": {"type": ["string", "null"]},
            "g": _TEXT,
        },
    }
    output = complete(
        schema,
        [
            ("a (a number; Enter leaves it out): ", "1e2"),
            ('b (JSON, or text, one of ["x","y"]; Enter', "z"),
            ('"z" is not one of', "-"),
            ("c (true or false; Enter", ""),
            ("give d? [y/N]: ", ""),
            ("e: a list", None),
            ("e 1 (text", ""),
            ("f (JSON, or text; Enter", "null"),
            ("g (text; Enter", '""'),
        ],
    )
    assert output == {"a": 100.0, "f": None, "g": ""}


def test_where_the_schema_says_nothing_json_is_asked_for(complete: Any) -> None:
    output = complete(
        True,
        [("value (JSON, or text): ", "5"), ("is not of type", '{"a": 1, "a": 2}'), ("twice", '{"a": [1]}')],
    )
    assert output == {"a": [1]}


def test_a_line_that_the_terminal_would_cut_is_refused(complete: Any) -> None:
    schema = {"type": "object", "properties": {"text": _TEXT}, "required": ["text"]}
    output = complete(
        schema,
        [
            ("text (text): ", "x" * 5000),
            ("a line takes at most 4094 bytes here", None),
            ("text (text): ", "short"),
        ],
    )
    assert output == {"text": "short"}


def test_a_form_that_nobody_finishes_ends_with_130(complete: Any) -> None:
    assert complete(True, [("value (JSON", "\x04\x04")], expected_code=130) is None
