"""What the branches of a fan-out are: named in the plan, or one for each item of a list."""

from typing import Any

import pytest

from passdown.broker.core import items
from passdown.broker.core.items import ITEM_BUDGET, Branch, branches_of, check_items, opener, stage_at
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import decode, digest_of, encode
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError
from passdown.contracts.ids import join_id
from passdown.contracts.pack import ListRef
from passdown.contracts.plans import FanOut, plan_ref
from tests.unit.core.joins import Parent, fan, listed, named, spread
from tests.unit.core.spec import ANN, like

STORED = ListRef(items=3, bytes=30, digest="s" * 64)


def problem_of(contract: FanOut, data: dict[str, Any], lists: dict[str, ListRef] | None = None) -> str:
    with pytest.raises(ContractError) as raised:
        branches_of(contract, data, lists or {})
    return str(raised.value)


def test_named_branches_are_those_of_the_plan() -> None:
    found = branches_of(named("a", "b"), {}, {})
    assert (found.count, found.digest) == (2, digest_of({"a": "work", "b": "work"}))


def test_a_named_branch_has_one_place_whichever_process_read_the_plan() -> None:
    """A plan that was stored comes back with its names sorted; one that was just written in Python does not."""
    written = FanOut(branches={"b": "two", "a": "one"})
    stored = decode(encode(written), FanOut)
    assert list(stored.branches) != list(written.branches)
    for place in range(2):
        assert stage_at(written, place) == stage_at(stored, place)
        assert made(named("b", "a"), {}, place).name == made(named("a", "b"), {}, place).name


def test_a_list_gives_a_branch_for_each_item() -> None:
    found = branches_of(listed(), {"items": [1, 2, 2]}, {})
    assert (found.count, found.digest, found.stored) == (3, digest_of([1, 2, 2]), None)
    assert branches_of(listed(), {"items": [7]}, {}).count == 1
    assert branches_of(listed(), {"items": []}, {}).count == 0


def test_a_list_may_stand_deep_in_the_data() -> None:
    contract = FanOut(each="order.lines", stage="work")
    assert branches_of(contract, {"order": {"lines": ["x"]}}, {}).count == 1
    assert "/order/lines" in problem_of(contract, {"order": {"lines": 7}})
    assert "got nothing" in problem_of(contract, {"order": ["lines"]})


def test_a_list_beside_the_session_is_taken_where_the_data_have_none() -> None:
    found = branches_of(listed(), {}, {"items": STORED})
    assert (found.count, found.digest, found.stored) == (3, STORED.digest, STORED)
    assert branches_of(listed(), {"items": ["x"]}, {"items": STORED}).count == 1


@pytest.mark.parametrize(
    ("value", "found"),
    [("abc", "str"), ({"a": 1}, "dict"), (7, "int"), (True, "bool"), (None, "nothing")],
)
def test_rule_11_what_is_no_list_is_told(value: Any, found: str) -> None:
    said = problem_of(listed(), {"items": value})
    assert f"expected a list of which each item is a branch, got {found}" in said
    assert "/items" in said


def test_rule_11_too_many_items_are_refused_with_how_many_there_may_be() -> None:
    assert branches_of(listed(most=2), {"items": [1, 2]}, {}).count == 2
    assert "has 3 items, and the plan allows 2" in problem_of(listed(most=2), {"items": [1, 2, 3]})
    assert "has 3 items, and the plan allows 2" in problem_of(listed(most=2), {}, {"items": STORED})


@pytest.mark.parametrize(
    "name",
    ["", "n" * 101, 7, None, ["a"], "two\nlines", "bell\x07"],
    ids=["empty", "long", *map(str, range(5))],
)
def test_rule_11_a_name_is_short_printable_text(name: Any) -> None:
    said = problem_of(listed(key="id"), {"items": [{"id": "a"}, {"id": name}]})
    assert "/items/1/id" in said
    assert "1 to 100 printable characters" in said


def test_rule_11_no_two_branches_have_one_name() -> None:
    said = problem_of(listed(key="id"), {"items": [{"id": "a"}, {"id": "b"}, {"id": "a"}]})
    assert "two branches have the name 'a': it is that of item 0, too" in said
    assert "/items/2/id" in said
    assert "got null" in problem_of(listed(key="id"), {"items": [7]})


def test_rule_12_an_item_has_a_budget() -> None:
    fits = "x" * (ITEM_BUDGET - 2)
    check_items("", [fits], "/items")
    with pytest.raises(ContractError, match=f"it has {ITEM_BUDGET + 1} bytes") as raised:
        check_items("", ["a", fits + "x"], "/items", first=100)
    assert raised.value.pointer == "/items/101"


def test_the_stage_of_a_branch() -> None:
    assert stage_at(FanOut(branches={"b": "two", "a": "one"}), 1) == "two"
    assert stage_at(listed(), 7) == "work"


def made(contract: FanOut, data: dict[str, Any], place: int, item: Any = None) -> Branch:
    """Return the branch that a session with these data opens."""
    state = Parent(fan(contract)).submit(data).state
    return opener(contract, state)(place, item)


def test_a_named_branch_is_given_what_the_session_has() -> None:
    assert made(named(), {"order": 1}, 1) == Branch("b", "work", {"order": 1})
    assert made(named(give=["order"]), {"order": 1, "secret": 2}, 0).inputs == {"order": 1}
    assert made(named(give=[]), {"order": 1}, 0).inputs == {}


def test_a_branch_of_a_list_is_given_its_item_and_never_the_list() -> None:
    data = {"items": [{"id": "x"}], "order": 1}
    assert made(listed(key="id"), data, 0, {"id": "x"}) == Branch(
        "x", "work", {"order": 1, "item": {"id": "x"}}
    )
    assert made(listed(item="line"), data, 0, 7) == Branch("0", "work", {"order": 1, "line": 7})
    assert made(listed(give=["items"]), data, 0, 7).inputs == {"item": 7}


@pytest.mark.parametrize(
    ("give", "given"),
    [
        (None, {"order": {"of": {"total": 9}, "no": 7}, "who": "a"}),
        (["order"], {"order": {"of": {"total": 9}, "no": 7}}),
        (["who"], {"who": "a"}),
        ([], {}),
    ],
)
def test_of_what_a_list_stands_in_only_the_list_is_taken_out(
    give: list[str] | None, given: dict[str, Any]
) -> None:
    deep = FanOut(each="order.of.lines", stage="work", give=give)
    data = {"order": {"of": {"lines": [1], "total": 9}, "no": 7}, "who": "a"}
    assert made(deep, data, 0, 1).inputs == {**given, "item": 1}
    assert data["order"] == {"of": {"lines": [1], "total": 9}, "no": 7}


@pytest.mark.parametrize("data", [{}, {"far": 1}, {"far": {}}, {"far": None}])
def test_what_is_named_as_the_path_of_a_stored_list_stays_as_it_is(data: dict[str, Any]) -> None:
    state = Parent(fan(named())).submit(data).state
    contract = FanOut(each="far.lines", stage="work")
    assert opener(contract, state)(0, 1).inputs == {**data, "item": 1}


def test_an_item_stands_over_what_the_session_has_of_that_name() -> None:
    assert made(listed(), {"items": [1], "item": "mine"}, 0, 1).inputs == {"item": 1}


# -- where the list cannot be one --

BAD: dict[str, tuple[FanOut, Any, str]] = {
    "no list": (listed(), "abc", "expected a list"),
    "missing": (listed(), None, "got nothing"),
    "too many": (listed(most=2), [1, 2, 3], "the plan allows 2"),
    "twice": (listed(key="id"), [{"id": "a"}, {"id": "a"}], "two branches have the name 'a'"),
    "no name": (listed(key="id"), [{}], "expected a name"),
    "too large": (listed(), ["x" * ITEM_BUDGET], "an item may have"),
}


@pytest.mark.parametrize("case", BAD)
def test_rule_11_where_the_fan_out_is_the_first_stage_it_is_refused_at_submit(case: str) -> None:
    contract, value, said = BAD[case]
    parent = Parent(fan(contract))
    inputs = {} if value is None else {"items": value}
    body = cmd.Submit(key="k", plan=plan_ref(parent.plan), inputs=inputs)
    parent.refuses(ContractError, body, ANN, match=said)


@pytest.mark.parametrize("case", BAD)
def test_rule_11_later_it_is_a_ticket_and_what_led_there_stands(case: str) -> None:
    contract, value, said = BAD[case]
    parent = Parent(fan(contract, before=True)).submit().claim()
    parent.done({} if value is None else {"items": value})
    parent.then("Returned", "StageEntered", like(ev.TicketOpened, kind="failure"))
    assert said in parent.state.tickets[0].why
    assert parent.state.tickets[0].actions == ["redirect", "complete", "cancel"]
    parent.stands("waiting-human", joins=[])
    parent.refuses(Conflict, cmd.Retry(seen=parent.state.seq), ANN, match="were not joined")
    parent.resolve("complete", {"sum": 0}).then("TicketResolved", "StageEntered", "PackIssued")
    assert parent.pack.inputs["sum"] == 0


def test_who_redirects_past_a_list_that_cannot_be_one_goes_on() -> None:
    parent = Parent(fan(listed(), before=True)).submit().claim().done({"items": 1})
    parent.resolve("redirect", "first").then("TicketResolved", "StageEntered", "PackIssued")
    parent.claim().done({"items": [1, 2]})
    parent.then("Returned", "StageEntered", like(ev.FannedOut, branches=2, join_id=join_id(parent.id, 4)))


def test_rule_12_a_list_over_the_budget_of_inputs_is_refused_at_submit() -> None:
    parent = Parent(fan(listed()))
    body = cmd.Submit(key="k", plan=plan_ref(parent.plan), inputs={"items": ["x" * 30_000] * 3})
    parent.refuses(BudgetExceeded, body, ANN)


def test_a_list_beside_the_session_stays_in_its_state_by_reference() -> None:
    parent = Parent(fan(listed(most=5_000)))
    parent.submit(lists={"items": ListRef(items=2_000, bytes=9, digest="l" * 64)})
    parent.then(
        "SessionOpened", "StageEntered", like(ev.FannedOut, branches=2_000, opening=500, digest="l" * 64)
    )
    assert parent.state.lists["items"].items == 2_000


# -- an empty list --


@pytest.mark.parametrize(
    ("contract", "events"),
    [
        ({}, ["FannedOut", "Joined", "PackIssued"]),
        ({"need": "veto"}, ["FannedOut", "Joined", "PackIssued"]),
        ({"merge": "reduce:sum"}, ["FannedOut", "Joined", "PackIssued"]),
        ({"merge": "editor"}, ["FannedOut", "Joined", "PackIssued"]),
        ({"need": "any"}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"need": 2}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"merge": "first"}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"merge": "vote"}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"need": "any", "on_short": "merge"}, ["FannedOut", "JoinShort", "Joined", "PackIssued"]),
        ({"merge": "first", "on_short": "merge"}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"merge": "vote", "on_short": "merge"}, ["FannedOut", "JoinShort", "TicketOpened"]),
        ({"need": "any", "on_short": "fail"}, ["FannedOut", "JoinShort", "Joined", "Failed"]),
        (
            {"need": "any", "on_short": "other"},
            ["FannedOut", "JoinShort", "Joined", "StageEntered", "PackIssued"],
        ),
        ({"need": "any", "on_short": "desk"}, ["FannedOut", "JoinShort", "TicketOpened"]),
    ],
)
def test_an_empty_list_is_judged_at_once(contract: dict[str, Any], events: list[str]) -> None:
    parent = Parent(fan(listed(**contract))).submit({"items": []})
    parent.then("SessionOpened", "StageEntered", *events)
    record = next(iter(parent.records.values()))
    closed = "Joined" in events
    assert (record.closed_at, record.closes) == ((0, 1) if closed else (None, 0))
    assert record.wakes == [] or not closed


def test_the_merge_of_an_empty_list_is_told_that_there_is_none() -> None:
    parent = spread(listed(), {"items": []})
    join = parent.pack.join
    assert join is not None
    assert (join.branches, join.counted, join.outcomes, join.how) == (0, 0, {}, "enough")
    parent.claim().done({"all": []}).then("Returned", "StageEntered", "PackIssued")


def test_the_names_of_items_are_checked_at_places_that_are_counted_on() -> None:
    with pytest.raises(ContractError) as raised:
        items.check_items("id", [{"id": "a"}, {"id": "a"}], "/items", first=200)
    assert raised.value.pointer == "/items/201/id"
    assert "item 200" in str(raised.value)
