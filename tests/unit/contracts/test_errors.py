"""Every error: what it says, its code, its exit code, and that it can travel."""

import copy
import inspect
import pickle

import pytest

from passdown.contracts import errors
from passdown.contracts.errors import (
    BudgetExceeded,
    Conflict,
    ContractError,
    Denied,
    Fenced,
    NotFound,
    PassdownError,
    PlanError,
    QueueFull,
    Unauthenticated,
    Unavailable,
)

#: The error, its code, its exit code, its text.
TABLE: list[tuple[PassdownError, str, int, str]] = [
    (PassdownError("odd"), "error", 1, "odd"),
    (
        ContractError("return", "expected int, got str", pointer="/step"),
        "contract",
        2,
        "return does not fit its contract at /step: expected int, got str",
    ),
    (
        ContractError("pack", "not UTF-8 JSON"),
        "contract",
        2,
        "pack does not fit its contract: not UTF-8 JSON",
    ),
    (
        BudgetExceeded("pack", 65537, 65536, {"inputs": 60000, "memory": 5000}),
        "budget",
        2,
        (
            "pack has 65537 bytes, its budget is 65536 (largest fields: inputs 60000, memory 5000);"
            " pass bulk as a resource with its uri and digest"
        ),
    ),
    (
        BudgetExceeded("return", 70000, 65536),
        "budget",
        2,
        "return has 70000 bytes, its budget is 65536; pass bulk as a resource with its uri and digest",
    ),
    (PlanError("refund@1", ["stage pay: no role"]), "plan", 2, "plan refund@1: stage pay: no role"),
    (
        PlanError("refund@1", ["stage pay: no role", "stage tell: unreachable"]),
        "plan",
        2,
        "plan refund@1 has 2 faults:\n  1. stage pay: no role\n  2. stage tell: unreachable",
    ),
    (
        Conflict("ticket 3 is resolved", "user:ann", "deny"),
        "conflict",
        4,
        "ticket 3 is resolved; user:ann was first (deny)",
    ),
    (Conflict("the session moved on"), "conflict", 4, "the session moved on"),
    (Conflict("it is answered", decided="42"), "conflict", 4, "it is answered (42)"),
    (
        Fenced("2/1/9f1c2d3e", "2/2/none"),
        "fenced",
        4,
        "fence 2/1/9f1c2d3e is not the current one, which is 2/2/none; stop this work",
    ),
    (
        Fenced("2/1/9f1c2d3e", "2/2/none", "its lease ran out"),
        "fenced",
        4,
        "fence 2/1/9f1c2d3e is not the current one, which is 2/2/none (its lease ran out); stop this work",
    ),
    (
        Denied("agent:cashier", "call mail.send", "stage pay does not grant it"),
        "denied",
        5,
        "agent:cashier may not call mail.send: stage pay does not grant it",
    ),
    (
        Unauthenticated("list tickets", "the token is not known"),
        "unauthenticated",
        5,
        "cannot list tickets: the token is not known",
    ),
    (NotFound("session", "s0-1"), "not-found", 3, "there is no session 's0-1'"),
    (
        NotFound("plan", "refunt", "did you mean refund?"),
        "not-found",
        3,
        "there is no plan 'refunt'; did you mean refund?",
    ),
    (
        Unavailable("the store", "timeout"),
        "unavailable",
        6,
        "the store is unavailable: timeout; a retry is safe",
    ),
    (
        QueueFull("clerk", 200, 100),
        "queue-full",
        6,
        (
            "the queue of role clerk is full: 200 packs wait, the limit is 100; submit again when workers have"
            " caught up, or raise queue_limit"
        ),
    ),
]


@pytest.mark.parametrize(
    ("error", "code", "exit_code", "text"), TABLE, ids=[str(n) for n in range(len(TABLE))]
)
def test_what_an_error_says(error: PassdownError, code: str, exit_code: int, text: str) -> None:
    assert (error.code, error.exit_code, str(error)) == (code, exit_code, text)


@pytest.mark.parametrize("error", [row[0] for row in TABLE], ids=[str(n) for n in range(len(TABLE))])
def test_an_error_can_be_copied_pickled_and_made_again(error: PassdownError) -> None:
    """A pool's result queue pickles it; one that cannot be read back hides what went wrong (FAULTS 70)."""
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error)), type(error)(*error.args)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def classes() -> list[type[PassdownError]]:
    members = [found for _, found in inspect.getmembers(errors, inspect.isclass)]
    return [found for found in members if issubclass(found, PassdownError)]


def test_every_error_is_in_the_table_and_in_the_tree() -> None:
    assert {type(row[0]) for row in TABLE} == set(classes())
    for kind in classes():
        assert f" {kind.__name__}" in f" {errors.__doc__}"
        assert kind is PassdownError or kind.__bases__[0].__name__ in (errors.__doc__ or "")


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in classes()]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", [kind for kind in classes() if kind is not PassdownError])
def test_the_docstring_says_what_happened_and_what_to_do(kind: type[PassdownError]) -> None:
    assert len((kind.__doc__ or "").split(". ")) >= 2


def test_what_is_over_its_budget_does_not_fit_its_contract() -> None:
    assert issubclass(BudgetExceeded, ContractError)
    assert BudgetExceeded("pack", 2, 1).pointer == ""
