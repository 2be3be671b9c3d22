"""`@reducer`: a fold over branches, run, fenced and limited as an agent is."""

import asyncio
import threading
import time
from typing import Any

import pytest

from passdown.agents import BranchResult, Options, Reducer, Registry, Runtime, reducer
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.reducers import AnyReducer
from passdown.agents.testing import Outcome, make_pack, run_agent
from passdown.contracts.errors import BudgetExceeded, ContractError
from passdown.contracts.pack import PAGE_ITEMS
from tests.unit.agents.helpers import QUICK, wait_until
from tests.unit.agents.joining import branch, branches, join


@reducer("total", version="2")
def total(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    """Add up."""
    assert branch.output is not None
    return {"n": branch.output["n"] + (so_far["n"] if so_far else 0)}


@reducer("order")
async def order(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"names": [*(so_far["names"] if so_far else []), branch.branch]}


def failed(outcome: Outcome) -> tuple[str, str]:
    assert outcome.status == "failed"
    (problem,) = outcome.problems
    return problem.kind, problem.text


def test_a_reducer_is_called_for_each_branch_with_what_it_returned_before():
    assert run_agent(total, branches=branches(2 * PAGE_ITEMS + 1)).output == {"n": 100 * 201}
    assert run_agent(order, branches=branches(3)[::-1]).output == {"names": ["b0", "b1", "b2"]}


def test_the_first_time_there_is_nothing_yet():
    seen: list[object] = []

    @reducer("see")
    def see(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
        seen.append(so_far)
        return {}

    run_agent(see, branches=branches(2))
    assert seen == [None, {}]


@pytest.mark.parametrize("which", [total, order])
def test_over_no_branches_it_is_not_called_and_gives_nothing(which: AnyReducer):
    assert run_agent(which, branches=[]).output == {}


def test_where_a_person_chose_a_branch_it_gets_that_one():
    pack = make_pack("reduce.total", join=join(1, "reduce:total", how="chosen", branch="b3"))
    assert run_agent(total, pack, branches=branches(5)).output == {"n": 3}


def test_it_is_still_a_function_and_says_who_it_is():
    assert total(None, branch(4)) == {"n": 4}
    assert isinstance(total, Reducer)
    assert total.__doc__ == "Add up."
    assert "reducer total at tests.unit.agents.test_reducers.total" in repr(total)
    assert (total.agent.role, total.agent.info.name, total.agent.info.version) == (
        "reduce.total",
        "total",
        "2",
    )
    assert not total.agent.is_async
    assert order.agent.is_async


def test_a_callable_object_that_is_awaited_is_told_apart():
    class Sum:
        async def __call__(self, so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            return {"is": branch.branch}

    assert run_agent(reducer("sum")(Sum()), branches=branches(2)).output == {"is": "b1"}


def test_a_runtime_serves_the_role_of_its_reducers():
    gateway = MemoryGateway()
    pack = make_pack("reduce.total", join=join(3, "reduce:total"))
    session = gateway.submit(pack, branches=branches(3))
    with Runtime(gateway, agents=[total], options=QUICK) as runtime:
        runtime.drain("reduce.total")
    assert session.status == "done"


def test_two_of_one_name_are_an_error():
    @reducer("total")
    def other(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
        return {}

    with pytest.raises(ContractError, match=r"role 'reduce.total'.*two of them.*test_reducers"):
        Registry([total, other])
    assert Registry([total, total]).agents == {"reduce.total": total.agent}


@pytest.mark.parametrize("name", ["", "Total", "two words", "a/b", "1st", "a..b", "x" * 94])
def test_names_are_those_that_a_plan_can_say(name: str):
    with pytest.raises(ContractError, match="lower-case words"):
        reducer(name)


def test_the_longest_name_fits_a_role():
    assert len(f"reduce.{'x' * 93}") == 100
    reducer("x" * 93)


def test_a_time_limit_means_something():
    with pytest.raises(ContractError, match="time_limit of reducer 'a'"):
        reducer("a", time_limit="soon")


class TestWhatGoesWrong:
    def test_what_it_raises_is_a_failed_attempt_that_says_where(self):
        @reducer("total")
        def broken(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            if branch.place == 7:
                raise KeyError("cents")
            return {}

        kind, said = failed(run_agent(broken, branches=branches(9), max_attempts=1))
        assert kind == "error"
        assert "KeyError: 'cents'\nreducer 'total' was at branch 'b7'" in said
        assert "test_reducers.py" in said

    def test_the_next_attempt_begins_anew(self):
        tries: list[int] = []

        @reducer("once")
        async def once(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            tries.append(branch.place)
            if len(tries) == 2:
                raise ConnectionError("away")
            return {"n": (so_far or {"n": 0})["n"] + 1}

        outcome = run_agent(once, branches=branches(3))
        assert (outcome.output, outcome.attempts) == ({"n": 3}, 2)
        assert tries == [0, 1, 0, 1, 2]

    @pytest.mark.parametrize("junk", [None, [1], "text", 5, BranchResult(branch="b", place=0, outcome="x")])
    def test_what_is_no_dict_breaks_its_contract(self, junk: Any):
        @reducer("total")
        def junky(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            return junk

        kind, said = failed(run_agent(junky, branches=branches(3), max_attempts=1))
        assert kind == "contract"
        assert said == (
            "reducer 'total' does not fit its contract: at branch 'b0' it returned"
            f" {type(junk).__name__}, not a dict"
        )

    def test_a_coroutine_out_of_a_plain_function_is_none_either(self):
        async def later() -> dict[str, Any]:
            return {}

        def lazy(_so_far: object, _branch: object) -> Any:
            return later()

        kind, said = failed(run_agent(reducer("lazy")(lazy), branches=branches(1), max_attempts=1))
        assert (kind, "returned coroutine, not a dict" in said) == ("contract", True)

    @pytest.mark.parametrize(
        ("value", "said"),
        [(object(), "not JSON data"), (float("nan"), "/x: NaN"), (2**60, "at /x: an integer beyond")],
    )
    @pytest.mark.parametrize("awaited", [False, True])
    def test_what_is_no_json_is_said_with_its_place(self, value: object, said: str, awaited: bool):
        def plain(_so_far: object, _branch: object) -> dict[str, Any]:
            return {"x": value}

        async def waits(_so_far: object, _branch: object) -> dict[str, Any]:
            return {"x": value}

        made: AnyReducer = reducer("total")(waits) if awaited else reducer("total")(plain)
        kind, text = failed(run_agent(made, branches=branches(1), max_attempts=1))
        assert kind == "contract"
        assert "the result of reducer 'total'" in text
        assert said in text

    def test_over_budget_it_names_the_largest_fields(self):
        @reducer("all")
        def everything(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            return {"texts": [*(so_far or {"texts": []})["texts"], "x" * 1000]}

        kind, said = failed(run_agent(everything, branches=branches(70), max_attempts=1))
        assert kind == "contract"
        assert "the result of reducer 'all' has 70" in said
        assert "largest fields: texts 70" in said
        assert str(BudgetExceeded("x", 1, 1)).partition(";")[2] in said

    def test_what_may_grow_on_the_way_only_its_end_must_fit(self):
        @reducer("last")
        def last(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            return {"x": "x" * 100_000} if branch.place == 0 else {"x": "small"}

        assert run_agent(last, branches=branches(2)).output == {"x": "small"}

    def test_one_that_never_returns_ends_with_its_time(self):
        release = threading.Event()

        @reducer("stuck")
        def stuck(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            release.wait(30)
            return {}

        gateway = MemoryGateway()
        pack = make_pack("reduce.stuck", join=join(1, "reduce:stuck"), time_limit_seconds=0.05)
        session = gateway.submit(pack, branches=branches(1), max_attempts=1)
        with Runtime(gateway, agents=[stuck], options=QUICK) as runtime:
            thread = threading.Thread(target=runtime.drain, args=("reduce.stuck",))
            thread.start()
            wait_until(lambda: session.status == "failed", "it is reported")
            release.set()
            thread.join(10)
        assert "time limit of 0.05 s" in session.feedback[0].text
        assert session.fenced == 1

    def test_an_async_one_is_cancelled(self):
        @reducer("stuck", time_limit=0.05)
        async def stuck(so_far: dict[str, Any] | None, branch: BranchResult) -> dict[str, Any]:
            await asyncio.sleep(30)
            return {}

        began = time.monotonic()
        options = Options(linger_seconds=0, cancel_grace_seconds=0.1, patience_seconds=1)
        outcome = run_agent(stuck, branches=branches(1), max_attempts=1, options=options)
        assert "time limit" in failed(outcome)[1]
        assert time.monotonic() - began < 10

    def test_a_reducer_whose_worker_is_lost_runs_again(self):
        outcome = run_agent(total, branches=branches(3), crash=("before_give", 1))
        assert (outcome.output, outcome.causes) == ({"n": 3}, ["first", "retry"])
