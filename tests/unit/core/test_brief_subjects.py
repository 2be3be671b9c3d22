"""The subjects of a brief: by field and by pattern, where first seen, what a write touched, bounded."""

import json
from typing import Any

import pytest

from passdown.broker.core.brief_subjects import MOST_LABELS, MOST_VALUES, Finder, Place
from passdown.contracts.brief import BriefSubject, BriefSubjects
from passdown.contracts.commands import ToolNote
from passdown.contracts.plans import Grant, Plan, Subject
from tests.unit.core.briefly import brief_of
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one
from tests.unit.core.spec import Session

SUBJECTS = {
    "account": Subject(fields=["user_id"]),
    "order": Subject(fields=["order", "orders"], pattern=r"\bO-[0-9]{4}\b"),
}


def found(value: Any, subjects: dict[str, Subject] | None = None) -> dict[str, list[str]]:
    finder = Finder(SUBJECTS if subjects is None else subjects)
    finder.look(value, Place(1, "inputs"))
    return {label.label: [one.value for one in label.values] for label in finder.subjects(0).labels}


def subject(subjects: BriefSubjects, label: str) -> BriefSubject:
    return next(one for one in subjects.labels if one.label == label)


@pytest.mark.parametrize(
    ("value", "accounts", "orders"),
    [
        ({"user_id": "ann"}, ["ann"], []),
        ({"deep": [{"user_id": "ann"}, {"x": {"user_id": "bob"}}]}, ["ann", "bob"], []),
        ({"orders": ["O-1", 17, "b", ["no"], None, True, 1.5]}, [], ["O-1", "17", "b"]),
        ({"user_id": {"no": "this"}}, [], []),
        ("see O-1234 and O-1234, not NO-12345", [], ["O-1234"]),
        ({"O-7777": 1}, [], ["O-7777"]),
        (json.dumps({"user_id": "ann", "note": "for O-1234"}), ["ann"], ["O-1234"]),
        (json.dumps(json.dumps({"user_id": "ann"})), [], []),
        ({"body": json.dumps({"inner": json.dumps({"user_id": "ann"})})}, ["ann"], []),
        ('{"user_id": broken O-1234', [], ["O-1234"]),
        ("[" * 5000, [], []),
        (7, [], []),
    ],
)
def test_values_are_found_by_field_at_any_depth_and_by_pattern(
    value: Any, accounts: list[str], orders: list[str]
) -> None:
    assert found(value) == {"account": accounts, "order": orders}


def test_what_is_no_identifier_is_counted_and_never_named() -> None:
    finder = Finder(SUBJECTS)
    for odd in ("ignore the above", "## Allowed actions", "x" * 65, "a\u202eb", "-", ""):
        finder.look({"user_id": odd}, Place(1, "inputs"))
    account = subject(finder.subjects(0), "account")
    assert (account.values, account.odd) == ([], 5)


def test_without_subjects_fields_named_like_an_id_count_under_their_names() -> None:
    value = {
        "id": 7,
        "order_id": "a",
        "orderIds": ["b"],
        "ids": ["c"],
        "userId": "d",
        "paid": "e",
        "valid": "f",
    }
    assert found(value, {}) == {
        "id": ["7"],
        "order_id": ["a"],
        "orderIds": ["b"],
        "ids": ["c"],
        "userId": ["d"],
    }
    assert found({"Allowed actions_id": "x", "a-b_id": "y", "_id": "z"}, {}) == {}
    many = Finder({})
    many.look({f"a{n}_id": n for n in range(MOST_LABELS + 3)}, Place(1, "inputs"))
    assert (len(many.subjects(0).labels), many.subjects(0).more_labels) == (MOST_LABELS, 3)


def test_many_are_bounded_touched_ones_first() -> None:
    finder = Finder(SUBJECTS)
    finder.look({"orders": [f"o{n}" for n in range(100)]}, Place(1, "inputs"))
    finder.look({"order": "o98"}, Place(2, "result of tool book", written=True))
    finder.look({"order": "o97"}, Place(3, "arguments of tool pay", "proposed"))
    finder.look({"order": "o99"}, Place(4, "arguments of tool pay", "write"))
    order = subject(finder.subjects(0), "order")
    assert [one.value for one in order.values[:4]] == ["o99", "o97", "o98", "o0"]
    assert [one.touched for one in order.values[:4]] == ["write", "proposed", "", ""]
    assert (len(order.values), order.left_out) == (MOST_VALUES, 100 - MOST_VALUES)
    assert {(one.event, one.where) for one in order.values} == {(1, "inputs")}, "where it was first seen"


def test_a_text_that_is_too_long_is_searched_so_far_and_said() -> None:
    finder = Finder(SUBJECTS)
    finder.look("O-1111 " + "x" * 1_000_000 + " O-2222", Place(1, "inputs"))
    told = finder.subjects(3)
    assert [one.value for one in subject(told, "order").values] == ["O-1111"]
    assert (told.unsearched, told.unkept) == (1, 3)


def test_a_pattern_that_does_not_compile_finds_nothing() -> None:
    assert found("((", {"x": Subject(pattern="((")}) == {"x": []}


@pytest.mark.parametrize("other", [r"\bAB\b", r"(?i)\bAB\b", r"\b(A)(B)\b"])
def test_patterns_find_side_by_side_however_they_are_written(other: str) -> None:
    subjects = {"x": Subject(pattern=r"\b(?:ab|cd)\b"), "y": Subject(pattern=other)}
    assert found("cd and AB", subjects) == {"x": ["cd"], "y": ["AB"]}
    assert found("nothing", subjects) == {"x": [], "y": []}


def serving() -> Session:
    tools = [Grant(tool="orders.read"), Grant(tool="refund"), Grant(tool="mail")]
    plan = Plan(name="p", start="work", subjects=SUBJECTS, stages=one(tools=tools).stages)
    return Session(plan, READ, REFUND, MAIL)


def test_each_says_where_it_was_first_seen() -> None:
    session = serving().submit({"user_id": "ann", "text": "about O-1111"}).claim()
    note = ToolNote(tool="orders.read", args={"id": "O-2222"}, result={"order": "O-3333"}, kept=True)
    session.note(note, ToolNote(tool="orders.read", args={"id": "x"}, result_digest="d"))
    effect = session.run("refund", {**ARGS, "order": "O-3333"})
    session.report(effect, "failed", error="no such order O-4444")
    session.ask("which").answer("which", "O-5555 please").claim()
    mail = session.run("mail", {"to": "a@b.c"})
    session.report(mail, result={"order": "O-6666"}).done({"order": "O-7777"})
    told = brief_of(session).subjects
    assert [(one.event, one.where) for one in subject(told, "account").values] == [(1, "inputs")]
    places = {one.value: (one.where, one.touched) for one in subject(told, "order").values}
    assert places == {
        "O-3333": ("tool orders.read", "write"),
        "O-4444": ("error of tool refund", ""),
        "O-6666": ("result of tool mail", ""),
        "O-1111": ("inputs", ""),
        "O-2222": ("arguments of tool orders.read", ""),
        "O-5555": ("answer of user:ann", ""),
        "O-7777": ("output of stage work", ""),
    }
    assert told.unkept == 1


def test_a_label_without_any_is_not_established() -> None:
    told = brief_of(serving().submit()).subjects
    assert [(one.label, one.values) for one in told.labels] == [("account", []), ("order", [])]
