from typing import Any

import pytest
from msgspec.structs import replace

from passdown.agents import Absent, Done, Pack, Registry, SyncContext, agent, tool
from passdown.agents.fitness import unfit
from passdown.agents.testing import make_pack, pack_tool
from passdown.contracts.pack import PackEffect


@agent("clerk")
def clerk(pack: Pack, ctx: SyncContext) -> Done:
    return Done()


def gone(**_: Any) -> Absent:
    return Absent()


@tool("mail.send", effect=True, scope="mail", verify=gone)
def send(to: str, *, key: str) -> None: ...


@tool("orders.read")
def read(order: str) -> None: ...


ALL = Registry([clerk, send, read])


def test_a_worker_with_all_of_it_is_fit():
    assert unfit(make_pack("clerk", tools=[send, read]), ALL) == ""


def test_narrowed_parameters_and_approvals_do_not_matter():
    pack = make_pack("clerk", tools=[pack_tool(send, approve=True, narrowed={"to": {"const": "a"}})])
    assert unfit(pack, ALL) == ""


def test_what_is_missing_is_named():
    assert unfit(make_pack("judge"), ALL) == "this worker has no agent for role judge"
    assert unfit(make_pack("clerk", tools=[send]), Registry([clerk])) == "this worker has no tool mail.send"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scope": "other"}, "differs in scope"),
        ({"description": "new", "identity": ["to"]}, "differs in description, identity"),
        ({}, "differs in params, owner or write options"),
    ],
)
def test_a_tool_that_differs_says_in_what(change: dict[str, Any], says: str):
    theirs = replace(pack_tool(send), digest="0" * 64, **change)
    found = unfit(make_pack("clerk", tools=[theirs]), ALL)
    assert says in found
    assert f"digest 000000000000 in the pack, {send.digest[:12]} here" in found


def settle_pack(*grants: Any) -> Pack:
    unknown = PackEffect(effect_id="s.e-1", step=1, tool="mail.send", status="unknown", args={"to": "a"})
    done = PackEffect(effect_id="s.e-2", step=1, tool="not.here", status="done", args={})
    return make_pack("judge", cause="settle", effects=[unknown, done], tools=grants)


def test_settling_needs_only_the_tools_of_what_is_unknown():
    assert unfit(settle_pack(), ALL) == ""
    assert unfit(settle_pack(pack_tool(read), pack_tool(send)), Registry([send])) == ""
    assert unfit(settle_pack(), Registry([clerk])) == "this worker has no tool mail.send"
    assert "differs" in unfit(settle_pack(replace(pack_tool(send), digest="0" * 64)), ALL)
