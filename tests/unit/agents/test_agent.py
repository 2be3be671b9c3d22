import functools
from typing import Any

import pytest

from passdown.agents import Agent, Context, Done, Pack, SyncContext, agent
from passdown.contracts.errors import ContractError


@agent("cashier", version="1.2", model="m-1", time_limit="10m")
async def cashier(pack: Pack, ctx: Context) -> Done:
    """Pay."""
    return Done({"x": pack.role})


@agent("clerk")
def clerk(pack: Pack, ctx: SyncContext) -> Done:
    return Done({"x": pack.role})


def test_an_agent_says_who_it_is():
    assert isinstance(cashier, Agent)
    assert (cashier.role, cashier.info.name, cashier.info.version, cashier.info.model) == (
        "cashier",
        "cashier",
        "1.2",
        "m-1",
    )
    assert cashier.time_limit_seconds == 600.0
    assert cashier.__doc__ == "Pay."
    assert "test_agent.cashier" in repr(cashier)


def test_async_and_plain_functions_are_told_apart():
    assert cashier.is_async
    assert not clerk.is_async


def test_a_callable_object_and_a_partial_are_told_apart_too():
    class Waits:
        __name__ = "waits"

        async def __call__(self, pack: Pack, ctx: Context) -> Done:
            return Done()

    async def more(_flag: bool, pack: Pack, ctx: Context) -> Done:
        return Done()

    assert agent("a")(Waits()).is_async
    assert agent("b")(functools.partial(more, True)).is_async


def test_an_agent_is_still_a_function():
    pack: Any = type("Pack", (), {"role": "r"})
    assert clerk(pack, None) == Done({"x": "r"})


@pytest.mark.parametrize("role", ["", "two words", "a:b", "x" * 200])
def test_roles_are_plain(role: str):
    with pytest.raises(ContractError, match="a role is"):
        agent(role)


@pytest.mark.parametrize("limit", [0, -1, "soon", float("inf")])
def test_a_time_limit_means_something(limit: Any):
    with pytest.raises(ContractError, match="time_limit of agent 'a'"):
        agent("a", time_limit=limit)


def test_the_role_of_the_merges_that_passdown_does_is_taken():
    with pytest.raises(ContractError, match=r"'passdown.merge'.*Passdown's own.*another role"):
        agent("passdown.merge")


def test_the_roles_of_reducers_are_taken():
    with pytest.raises(ContractError, match=r"'reduce.total'.*@reducer\('total'\)"):
        agent("reduce.total")
    assert agent("reducer")(clerk.fn).role == "reducer"
