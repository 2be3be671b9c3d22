"""What a person reads who decides about a join: why it is short, what may be done, and what a resolution lacks."""

from typing import Any

import pytest

from passdown.contracts.errors import ContractError
from tests.unit.core.joins import Parent, asked, fan, listed
from tests.unit.core.spec import BOB

BY_HAND = ["complete", "redirect", "cancel"]


@pytest.mark.parametrize(
    ("contract", "need", "actions"),
    [
        ({"need": "any"}, 1, ["merge", *BY_HAND]),
        ({"need": 2}, 2, ["merge", *BY_HAND]),
        ({"merge": "first"}, 1, BY_HAND),
        ({"merge": "vote", "on_short": "merge"}, 1, BY_HAND),
    ],
)
def test_of_an_empty_list_no_branch_is_offered(
    contract: dict[str, Any], need: int, actions: list[str]
) -> None:
    parent = Parent(fan(listed(**contract))).submit({"items": []})
    (ticket,) = parent.state.tickets
    assert (ticket.kind, ticket.why) == ("short", f"the list is empty, and {need} of its branches must count")
    assert ticket.actions == actions


def test_a_list_with_fewer_items_than_must_count_has_branches_to_choose() -> None:
    parent = Parent(fan(listed(need=3))).submit({"items": [1]}).opens().look()
    (ticket,) = parent.state.tickets
    assert ticket.why == "3 of 1 branches must count, and 0 can: none has ended"
    assert "choose" in ticket.actions


@pytest.mark.parametrize(
    ("value", "pointer", "said"),
    [
        (
            {"branches": ["a"]},
            "/value/feedback",
            "send-back says what to do better, as feedback or as the note",
        ),
        ({"branches": ["a"], "feedback": 5}, "/value/feedback", "Expected text, got `int`"),
        ({"branches": ["a"], "feedback": "x" * 8193}, "/value/feedback", "Expected text of length <= 8192"),
        ({"branches": [], "feedback": "x"}, "/value/branches", "send-back names the branches"),
        ({"feedback": "x"}, "/value/branches", "send-back names the branches"),
        ({"branches": "a", "feedback": "x"}, "/value/branches", "Expected a list, got text"),
        ({"branches": ["a", 7], "feedback": "x"}, "/value/branches/1", "Expected text, got `int`"),
        ({"branches": ["a", "b", "a"], "feedback": "x"}, "/value/branches", "'a' is there twice"),
        ({"branches": ["a"], "feedback": "x", "more": 1}, "/value/more", "unknown field"),
        ("a", "/value/branches", "send-back names the branches"),
    ],
)
def test_rule_11_what_a_send_back_lacks_is_said_with_its_place(value: Any, pointer: str, said: str) -> None:
    parent = asked("conflict")
    error = parent.refuses(ContractError, parent.resolution("send-back", value), BOB, match=said)
    assert isinstance(error, ContractError)
    assert error.pointer == pointer
