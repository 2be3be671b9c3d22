"""Errors as problem objects (RFC 9457), and back."""

from typing import Any

import pytest

from passdown.contracts import errors
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import PassdownError
from passdown.contracts.problems import Problem, error_from, error_of, problem_of, safe
from tests.unit.contracts.helpers import refused

SAMPLES: list[tuple[PassdownError, int, dict[str, Any]]] = [
    (
        errors.ContractError("return", "expected int", pointer="/step"),
        422,
        {"what": "return", "problem": "expected int", "pointer": "/step"},
    ),
    (
        errors.BudgetExceeded("pack", 9, 8, {"inputs": 5}),
        413,
        {"what": "pack", "size": 9, "budget": 8, "largest": {"inputs": 5}},
    ),
    (errors.QueueFull("clerk", 9, 8), 503, {"role": "clerk", "waiting": 9, "limit": 8}),
    (errors.PlanError("refund@1", ["a", "b"]), 422, {"plan": "refund@1", "faults": ["a", "b"]}),
    (
        errors.Conflict("ticket 3", "user:ann", "deny"),
        409,
        {"what": "ticket 3", "winner": "user:ann", "decided": "deny"},
    ),
    (errors.Fenced("1/1/a", "1/2/b", "late"), 409, {"given": "1/1/a", "current": "1/2/b", "why": "late"}),
    (
        errors.Denied("user:ann", "resume", "no grant"),
        403,
        {"who": "user:ann", "what": "resume", "why": "no grant"},
    ),
    (
        errors.Unauthenticated("list tickets", "the token is not known"),
        401,
        {"what": "list tickets", "why": "the token is not known"},
    ),
    (errors.NotFound("plan", "x", "hint"), 404, {"kind": "plan", "name": "x", "hint": "hint"}),
    (errors.Unavailable("the store", "timeout"), 503, {"what": "the store", "why": "timeout"}),
]


@pytest.mark.parametrize(
    ("error", "status", "facts"), SAMPLES, ids=[type(row[0]).__name__ for row in SAMPLES]
)
def test_an_error_travels_as_a_problem_and_comes_back(
    error: PassdownError, status: int, facts: dict[str, Any]
) -> None:
    problem = problem_of(error)
    assert (problem.status, problem.facts, problem.code) == (status, facts, error.code)
    assert problem.type == f"urn:passdown:error:{error.code}"
    assert problem.detail == str(error)
    back = error_of(decode(encode(problem), Problem))
    assert (type(back), str(back), back.args) == (type(error), str(error), error.args)


def test_the_title_is_what_the_class_says_first() -> None:
    assert problem_of(errors.Fenced("a", "b")).title == "The claim that this carries is not the current one"
    assert problem_of(errors.Unavailable("a", "b")).title == "The store or the queue does not answer"


def test_every_error_has_a_status() -> None:
    def below(kind: type[PassdownError]) -> set[type[PassdownError]]:
        return {kind}.union(
            *(below(one) for one in kind.__subclasses__() if one.__module__ == kind.__module__)
        )

    assert below(PassdownError) - {PassdownError} == {type(row[0]) for row in SAMPLES}


class Odd(PassdownError):
    """An error of somebody else's. Ask them."""

    code = "odd"


def test_an_error_without_a_status_of_its_own_is_an_internal_one() -> None:
    assert problem_of(Odd("how odd")) == Problem(
        type="urn:passdown:error:odd",
        title="An error of somebody else's",
        status=500,
        detail="how odd",
        code="odd",
    )


@pytest.mark.parametrize("facts", [{}, {"given": "a"}, {"given": "a", "current": "b", "why": "c", "more": 1}])
def test_a_problem_that_this_version_does_not_know_is_told_by_its_detail(facts: dict[str, Any]) -> None:
    problem = Problem(type="urn:x", title="T", status=409, detail="it moved", code="fenced", facts=facts)
    assert type(error_of(problem)) is PassdownError
    assert str(error_of(problem)) == "fenced: it moved"


def test_a_problem_of_others_may_have_more_members() -> None:
    data = b'{"type":"about:blank","title":"t","status":502,"detail":"d","code":"gateway","instance":"/x"}'
    assert str(error_of(decode(data, Problem))) == "gateway: d"


def test_no_text_can_keep_an_error_from_being_stored() -> None:
    error = errors.PlanError("\ud800", ["\udfff" * 10_000, "nul \x00"])
    problem = decode(encode(problem_of(error)), Problem)
    assert problem.facts["plan"] == "\\ud800"
    assert len(problem.facts["faults"][0]) <= 2_000
    assert safe({"\ud800": ["\ud800", 1, None]}) == {"\\ud800": ["\\ud800", 1, None]}


def test_an_error_from_its_code_and_facts() -> None:
    assert str(error_from("conflict", ["it moved"])) == "it moved"
    for code, facts in [("no-such", []), ("fenced", []), ("fenced", ["a"]), ("denied", ["a", "b", "c", "d"])]:
        assert refused(lambda code=code, facts=facts: error_from(code, facts)).what == "error"
