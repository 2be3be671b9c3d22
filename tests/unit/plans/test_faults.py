from datetime import date

import pytest

from passdown.broker.plans.faults import (
    Fault,
    around,
    closest,
    one_line,
    place,
    refuse,
    show,
    warning,
    within,
)
from passdown.contracts.errors import PlanError


def test_a_fault_is_a_sentence_with_place_problem_and_mend() -> None:
    assert (
        str(Fault("stages.pay.tools[0]", "is wrong", "mend it")) == "stages.pay.tools[0]: is wrong; mend it"
    )
    assert str(Fault("", "is wrong")) == "plan: is wrong"


def test_places_are_keys_as_toml_writes_them() -> None:
    assert place("stages", "pay", "tools", 0, "approve") == "stages.pay.tools[0].approve"
    assert place("stages", "a.b", "next") == 'stages."a.b".next'
    assert place("stages", "tw\x1bo", "x") == 'stages."tw\\x1bo".x'
    assert place("stages", "n" * 500) == f'stages."{"n" * 60}…"'
    assert place() == ""


def test_within_is_the_place_itself_or_what_is_below_it() -> None:
    assert within("stages.pay", "stages.pay")
    assert within("stages.pay.tools[0]", "stages.pay.tools")
    assert not within("stages.payroll", "stages.pay")
    assert list(around("stages.pay.tools[0].approve")) == [
        "stages.pay.tools[0].approve",
        "stages.pay.tools[0]",
        "stages.pay.tools",
        "stages.pay",
        "stages",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "nothing"),
        (True, "true"),
        (3, "3"),
        (float("nan"), "nan"),
        ("a\x1b[0m", "'a\\x1b[0m'"),
        ("\ud800", "'\\ud800'"),
        ("x" * 100, f"'{'x' * 60}…'"),
        ({"a": 1}, "a table"),
        ([1], "a list"),
        (date(2026, 1, 2), "the date or time 2026-01-02"),
        ({1}, "a set"),
    ],
)
def test_what_came_is_shown_short_and_printable(value: object, shown: str) -> None:
    assert show(value) == shown


def test_an_integer_too_long_to_print_is_said_to_be_huge() -> None:
    assert show(10**5000) == "a huge integer"


def test_what_was_probably_meant_is_named_else_all_there_is() -> None:
    assert closest("pya", ["pay", "tell"]) == "did you mean 'pay'?"
    assert closest("zzz", ["pay", "tell"]) == "there are: pay, tell"
    assert closest("zzz", [f"s{n}" for n in range(15)]).endswith("s11 and 3 more")
    assert closest("zzz", []) == "there are none"


def test_foreign_text_becomes_one_printable_line() -> None:
    assert one_line("a\nb\x1b[31m\u202e") == "a b [31m "
    assert one_line("x" * 300) == "x" * 240 + "…"


def test_warnings_refuse_nothing_and_faults_are_named_all() -> None:
    refuse("p", [warning("a", "is odd")])
    with pytest.raises(PlanError) as caught:
        refuse("p", [Fault("a", "is wrong"), warning("b", "is odd"), Fault("c", "is wrong, too")])
    assert caught.value.faults == ["a: is wrong", "c: is wrong, too"]
