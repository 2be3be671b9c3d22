import sys
import types

import pytest

from passdown.agents import (
    Agent,
    BranchResult,
    Done,
    Pack,
    Registry,
    SyncContext,
    Tool,
    agent,
    collect,
    reducer,
    tool,
)
from passdown.agents.reducers import AnyReducer
from passdown.contracts.errors import ContractError


def make_agent(role: str) -> Agent:
    @agent(role)
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done()

    return work


def make_tool(name: str) -> Tool[[], int]:
    @tool(name)
    def look() -> int:
        return 1

    return look


def make_reducer(name: str) -> AnyReducer:
    @reducer(name)
    def fold(so_far: dict[str, object] | None, branch: BranchResult) -> dict[str, object]:
        return {}

    return fold


def module(name: str, **contents: object) -> types.ModuleType:
    made = types.ModuleType(name)
    vars(made).update(contents)
    return made


def test_agents_and_tools_are_collected_from_modules():
    clerk, look = make_agent("clerk"), make_tool("look")
    found = collect(module("one", clerk=clerk, other=3), module("two", look=look))
    assert found.agents == {"clerk": clerk}
    assert found.tools == {"look": look}


def test_a_module_may_be_named(monkeypatch: pytest.MonkeyPatch):
    clerk = make_agent("clerk")
    monkeypatch.setitem(sys.modules, "shop_agents_of_a_test", module("shop_agents_of_a_test", clerk=clerk))
    assert collect("shop_agents_of_a_test").agents == {"clerk": clerk}


def test_an_import_elsewhere_is_the_same_one():
    look = make_tool("look")
    assert collect(module("one", look=look), module("two", alias=look)).tools == {"look": look}


def test_two_for_one_name_are_an_error_that_names_both():
    with pytest.raises(ContractError, match=r"agent of role 'clerk'.*two of them.*test_registry.work"):
        Registry([make_agent("clerk"), make_agent("clerk")])
    with pytest.raises(ContractError, match=r"tool 'look'.*two of them"):
        collect(module("one", look=make_tool("look")), module("two", look=make_tool("look")))


def test_a_registry_can_be_passed_on():
    mine = Registry([make_agent("clerk")])
    assert collect(module("one", look=make_tool("look")), into=mine) is mine
    assert (list(mine.agents), list(mine.tools)) == (["clerk"], ["look"])


def test_nothing_registers_itself():
    make_agent("clerk")
    assert Registry().agents == {}


def test_reducers_are_collected_as_the_agents_of_their_roles():
    total = make_reducer("total")
    found = collect(module("one", total=total), module("two", again=total, clerk=make_agent("clerk")))
    assert found.agents["reduce.total"] is total.agent
    assert list(found.agents) == ["reduce.total", "clerk"]


def test_the_roles_of_merges_are_served_beside_others():
    registry = Registry(
        [make_agent("judge"), make_agent("clerk"), make_reducer("total"), make_reducer("all")]
    )
    merges = ["reduce.all", "reduce.total", "passdown.merge"]
    assert registry.served() == ["clerk", "judge", *merges]
    assert registry.served(["judge"]) == ["judge", *merges]
    assert registry.served(["reduce.total", "judge"]) == [
        "reduce.total",
        "judge",
        "reduce.all",
        "passdown.merge",
    ]
    assert Registry().served() == ["passdown.merge"]


def test_merges_may_be_left_to_others():
    registry = Registry([make_agent("clerk"), make_reducer("total")])
    assert registry.served(merge=False) == ["clerk"]
    assert registry.served(["clerk", "passdown.merge"], merge=False) == ["clerk", "passdown.merge"]
