"""What is wrong with the branches that a fan-out opens, and with what its stage says of the merge."""

from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.plans import check_plan, check_tools, compile_plan
from passdown.contracts.plans import FanOut, Plan, Stage
from passdown.contracts.tools import ToolSpec
from tests.unit.plans.samples import said

LEAF = {"role": "leaf"}
EACH = {"each": "items", "stage": "leaf"}
NAMED = {"branches": {"b": "leaf"}}
INPUTS = {
    "type": "object",
    "properties": {
        "items": {"type": "array"},
        "order": {"type": "object", "properties": {"parts": {"type": "array"}, "id": {"type": "string"}}},
    },
}
NAME = "use lower-case words joined by - _ or . (at most 100 characters, a letter first)"


def said_of(fan_out: dict[str, Any], **stage: Any) -> list[str]:
    """Return what is said about a plan of the fan-out `a`, whose branches may begin in `leaf`, without `stages.a.`."""
    plan = {"name": "p", "start": "a", "stages": {"a": {"fan_out": fan_out, **stage}, "leaf": LEAF}}
    lost = "stages.leaf: no move leads here from 'a'; add a move to it, or remove it"
    return [one.replace("stages.a.", "", 1) for one in said(plan) if one != lost]


@pytest.mark.parametrize(
    ("fan_out", "faults"),
    [
        ({}, ["fan_out: it opens nothing; name its `branches`, or a list as `each`"]),
        ({"branches": {}}, ["fan_out: it opens nothing; name its `branches`, or a list as `each`"]),
        (
            {**EACH, **NAMED},
            ["fan_out: its branches are named, and one for each item, too; leave out `branches` or `each`"],
        ),
        (
            {"each": "items"},
            ["fan_out: it does not say in which stage the branches begin; name it as `stage`"],
        ),
        (
            {**NAMED, "stage": "leaf", "key": "id", "item": "document"},
            [f"fan_out.{field}: branches that are named have no items; leave it out" for field in ("stage", "key", "item")],
        ),
        ({"each": "items", "stage": "laef"}, ["fan_out.stage: there is no stage 'laef'; did you mean 'leaf'?"]),
        ({"each": "items", "stage": "end"}, ["fan_out.stage: there is no stage 'end'; there are: a, leaf"]),
        (
            {"branches": {"b": "leaf", "c": "laef"}},
            ["fan_out.branches.c: there is no stage 'laef'; did you mean 'leaf'?"],
        ),
        ({"branches": {"Legal Dept": "leaf"}}, [f"fan_out.branches.\"Legal Dept\": 'Legal Dept' is no name for a branch; {NAME}"]),
        ({"branches": {"": "leaf"}}, [f"fan_out.branches.\"\": '' is no name for a branch; {NAME}"]),
        (
            {"branches": {"x" * 101: "leaf"}},
            [f"fan_out.branches.\"{'x' * 60}…\": '{'x' * 60}…' is no name for a branch; {NAME}"],
        ),
        ({"branches": {"x" * 100: "leaf"}}, []),
        ({"branches": {"b": "leaf", "c": "leaf"}, "most": 1}, ["fan_out.most: 2 branches are named, and there may be 1; raise it, or leave it out"]),
        ({**EACH, "most": 0}, ["fan_out.most: 0 is out of range; from 1 to 100000"]),
        ({**EACH, "most": 100_001}, ["fan_out.most: 100001 is out of range; from 1 to 100000"]),
        ({**EACH, "most": 100_000}, []),
        ({**EACH, "most": 10**40}, ["fan_out.most: a huge integer is out of range; from 1 to 100000"]),
        ({**EACH, "at_once": -1}, ["fan_out.at_once: -1 is out of range; from 0 to 100000"]),
        ({**EACH, "at_once": 100_001}, ["fan_out.at_once: 100001 is out of range; from 0 to 100000"]),
        *(
            ({"each": each, "stage": "leaf"}, [f"fan_out.each: '{each}' is no path of a list; write names of fields joined by dots"])
            for each in ("a..b", ".a", "a.", "a b", " ")
        ),
        ({**EACH, "item": ""}, ["fan_out.item: is blank; name a field, or leave it out"]),
        ({**EACH, "key": " "}, ["fan_out.key: is blank; name a field, or leave it out"]),
        ({**EACH, "give": ["order", "", "order"]}, ["fan_out.give[1]: is blank; leave it out", "fan_out.give[2]: is there twice; leave it out"]),
        ({**EACH, "give": ["items"]}, ["fan_out.give[0]: a branch gets its item of the list, never the list; leave it out"]),
        (
            {**EACH, "item": "order", "give": ["order"]},
            ["fan_out.give[0]: the item of a branch stands under 'order'; give `item` another name"],
        ),
        ({**EACH, "key": "a.b"}, ["fan_out.key: 'a.b' is a path, and this is one field; name a field without dots"]),
        ({**EACH, "item": "order.part"}, ["fan_out.item: 'order.part' is a path, and this is one field; name a field without dots"]),
        ({**EACH, "item": "items"}, ["fan_out.item: the list that `each` names is in 'items', too; give `item` another name"]),
        (
            {"each": "order.parts", "stage": "leaf", "item": "order"},
            ["fan_out.item: the list that `each` names is in 'order', too; give `item` another name"],
        ),
        (
            {"each": "item.parts", "stage": "leaf"},
            ["fan_out.item: the list that `each` names is in 'item', too; give `item` another name"],
        ),
        ({"each": "order.parts", "stage": "leaf", "item": "parts", "key": "id", "give": ["order"]}, []),
        (
            {**EACH, "give": ["order.id"]},
            ["~ fan_out.give[0]: 'order.id' is a path, and what is given are whole fields; did you mean 'order'?"],
        ),
        ({**NAMED, "give": ["item"]}, []),
        ({**EACH, "give": []}, []),
    ],
)  # fmt: skip
def test_a_fault_of_the_branches(fan_out: dict[str, Any], faults: list[str]) -> None:
    assert said_of(fan_out) == faults


@pytest.mark.parametrize(
    ("each", "faults"),
    [
        ("items", []),
        ("order.parts", []),
        ("stored-list", []),
        ("order.id", ["fan_out.each: by the inputs it is no list, but string; name a list"]),
        ("order", ["fan_out.each: by the inputs it is no list, but object; name a list"]),
        ("itmes", ["~ fan_out.each: 'itmes' is not among the inputs; did you mean 'items'?"]),
        ("inputs.items", ["~ fan_out.each: the path starts within the inputs; did you mean 'items'?"]),
    ],
)
def test_a_list_is_looked_up_in_the_schema_of_the_inputs(each: str, faults: list[str]) -> None:
    found = [
        one.replace("stages.a.", "", 1) for one in said_of({"each": each, "stage": "leaf"}, inputs=INPUTS)
    ]
    assert found == faults


def test_nothing_is_said_of_a_list_where_the_schema_of_the_inputs_is_broken() -> None:
    (only,) = said_of(EACH, inputs={"properties": 3})
    assert only.startswith("inputs: in the schema at /properties")


def test_all_is_said_at_once() -> None:
    fan_out = {"each": "a..b", "stage": "laef", "at_once": -1, "give": [""]}
    join = {"need": 0, "merge": "colect", "conflict": [""], "on_short": "end"}
    found = said_of(fan_out, join=join, lease="0s")
    assert [one.partition(":")[0] for one in found] == [
        "lease",
        "fan_out.stage",
        "fan_out.each",
        "fan_out.give[0]",
        "fan_out.at_once",
        "join.need",
        "join.merge",
        "join.conflict[0]",
        "join.on_short",
    ]


@pytest.mark.parametrize("merge", ["collect", "reduce:sum"])
def test_tools_are_for_a_role_that_merges(merge: str) -> None:
    assert said_of(NAMED, join={"merge": "editor"}, tools=["texts.read"]) == []
    assert said_of(NAMED, join={"merge": merge}, tools=["texts.read"]) == [
        f"tools: no agent merges here that could call them: merge = '{merge}'; leave them out, or let a role merge"
    ]


def test_effect_tools_of_branches_and_merges_are_checked_as_any_other() -> None:
    branch = {"role": "leaf", "tools": ["mail.send"]}
    merging = {"fan_out": NAMED, "join": {"merge": "editor"}, "tools": ["mail.send"]}
    plan = compile_plan({"name": "p", "start": "a", "stages": {"a": merging, "leaf": branch}})
    said_of_both = [
        str(one)
        for one in check_tools(plan, {"mail.send": ToolSpec(name="mail.send", params={}, effect=True)})
    ]
    problem = "'mail.send' has effects outside and no verify, and the stage tries again by itself"
    assert said_of_both == [
        f"stages.a.tools[0]: {problem}; give the tool a verify, or the stage max_attempts = 1",
        f'stages.leaf.tools[0]: {problem}; give the tool a verify, or the stage recovery = "human" or max_attempts = 1',
    ]


def test_only_a_veto_or_an_agent_refuses() -> None:
    for join in ({"need": "veto"}, {"merge": "editor"}, {"merge": "reduce:sum"}):
        assert said_of(NAMED, join=join, on_refused="end") == []
    assert said_of(NAMED, on_refused="end") == [
        (
            "on_refused: nothing here refuses: merge = 'collect', and no branch has a veto;"
            " leave it out, or set need = 'veto'"
        )
    ]
    veto = {"results": ["done"]}
    assert said_of(NAMED, join={"need": "veto"}, on_refused="end", returns=veto) == []


def test_a_stored_fan_out_is_checked_as_well_however_it_was_made() -> None:
    fan_out = Stage(fan_out=FanOut(branches={"b": "leaf"}))
    plan = Plan(name="p", start="a", stages={"a": fan_out, "leaf": Stage(role="leaf")})
    assert check_plan(plan) == []
    broken = replace(
        fan_out,
        role="r",
        queue="q",
        ask="people",
        scopes=["s"],
        risk="high",
        waived="no",
        delivery="push",
        gateway=True,
        on_denied="end",
        recovery="human",
    )
    found = [str(fault) for fault in check_plan(replace(plan, stages={**plan.stages, "a": broken}))]
    assert 'stages.a.role: a stage is a role\'s or a fan-out; join = { merge = "the role" } merges' in found
    assert "stages.a.queue: a stage is a person's or a fan-out; leave out `queue` or `fan_out`" in found
    for field in ("ask", "scopes", "risk", "waived", "delivery", "gateway", "on_denied", "recovery"):
        assert f"stages.a.{field}: a fan-out has none; leave it out" in found


@pytest.mark.parametrize(
    ("fan_out", "place"),
    [
        (FanOut(branches={"b": "leaf"}, merge="vote", vote_on=["\ud800"]), "stages.a.join.vote_on[0]"),
        (FanOut(each="items", stage="leaf", give=["\ud800"]), "stages.a.fan_out.give[0]"),
    ],
)
def test_text_that_cannot_travel_has_its_place_as_it_is_written(fan_out: FanOut, place: str) -> None:
    plan = Plan(name="p", start="a", stages={"a": Stage(fan_out=fan_out), "leaf": Stage(role="leaf")})
    assert f"{place}: a string has a lone surrogate" in [
        str(fault).partition(" (")[0] for fault in check_plan(plan)
    ]
