import msgspec
import pytest

from passdown.agents import (
    Agent,
    BranchResult,
    Context,
    ContractError,
    Done,
    NeedsInput,
    Pack,
    PackJoin,
    Question,
    SyncContext,
    agent,
    tool,
)
from passdown.agents.testing import Crash, Happened, make_pack, run_agent
from passdown.contracts.pack import read_pack, seal


class Decision(msgspec.Struct):
    yes: bool


@agent("judge")
async def judge(pack: Pack, ctx: Context) -> Done | NeedsInput:
    if "sure" not in ctx.answers:
        return NeedsInput([Question("sure", "Sure?", schema=bool)])
    return Done(Decision(ctx.answers["sure"]))


def test_a_pack_has_defaults_and_is_sealed():
    pack = make_pack("judge", inputs=Decision(yes=True), goal="decide", returns=Decision, answers={"q": 1})
    assert (pack.role, pack.goal, pack.inputs, pack.cause) == ("judge", "decide", {"yes": True}, "first")
    assert read_pack(seal(pack)[1]) == pack


def test_what_is_not_json_is_refused():
    with pytest.raises(ContractError, match="inputs"):
        make_pack(inputs={"x": object()})


def test_answers_are_given_to_questions():
    outcome = run_agent(judge, make_pack("judge", returns=Decision), answers={"sure": True})
    assert outcome.output == {"yes": True}
    assert (outcome.causes, outcome.attempts) == (["first", "input"], 2)


def test_what_was_not_given_is_waited_for():
    outcome = run_agent(judge, make_pack("judge"))
    assert outcome.status == "waiting"
    assert outcome.ticket is not None
    assert outcome.ticket.kind == "question"
    with pytest.raises(ContractError, match=r"the step is waiting, not done: Sure\?"):
        _ = outcome.output


def test_the_output_says_why_there_is_none():
    @agent("judge")
    def broken(pack: Pack, ctx: SyncContext) -> Done:
        raise KeyError("orderId")

    outcome = run_agent(broken, make_pack("judge"), max_attempts=1)
    with pytest.raises(ContractError, match="KeyError: 'orderId'"):
        _ = outcome.output


def test_a_pack_that_does_not_fit_the_tools_is_an_error():
    @tool("look")
    def look() -> None: ...

    with pytest.raises(ContractError, match="this worker has no tool look"):
        run_agent(judge, make_pack("judge", tools=[look]))


def crashing(seen: list[BaseException]) -> Agent:
    @agent("judge")
    def work(pack: Pack, ctx: SyncContext) -> Done:
        try:
            ctx.checkpoint({"attempt": pack.attempt})
        except BaseException as error:
            seen.append(error)
            raise
        return Done({"attempt": pack.attempt})

    return work


def test_a_crash_ends_the_attempt_and_the_step_goes_on():
    seen: list[BaseException] = []
    outcome = run_agent(crashing(seen), make_pack("judge"), crash=("after_checkpoint", 1))
    assert [type(one) for one in seen] == [Crash]
    assert outcome.output == {"attempt": 2}
    assert outcome.checkpoints == [{"attempt": 1}, {"attempt": 2}]


@pytest.mark.parametrize("point", ["before_take", "after_take", "before_claim", "before_give", "after_give"])
def test_a_worker_may_die_outside_its_agent_too(point: object):
    outcome = run_agent(crashing([]), make_pack("judge"), crash=(point, 1))  # pyright: ignore[reportArgumentType]
    assert outcome.status == "done"


def test_decisions_are_used_in_order():
    runs: list[str] = []

    @tool("pay", effect=True)
    def pay(*, key: str) -> str:
        runs.append(key)
        raise KeyError("x")

    @agent("judge")
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done({"all": [ctx.call("pay"), ctx.call("pay")]})

    outcome = run_agent(
        work, make_pack("judge", tools=[pay]), tools=[pay], people={"pay": [Happened("a"), Happened("b")]}
    )
    assert outcome.output == {"all": ["a", "b"]}
    assert len(runs) == 2


def test_branches_are_outputs_or_what_counts():
    @agent("judge")
    def work(pack: Pack, ctx: SyncContext) -> Done:
        assert pack.join is not None
        found = {one.branch: [one.outcome, one.output, one.reason] for one in ctx.branches()}
        return Done({"found": found, "counted": pack.join.counted, "outcomes": pack.join.outcomes})

    refused = BranchResult(branch="legal", place=1, outcome="refused", reason="no")
    outcome = run_agent(work, make_pack("judge", goal="judge"), branches=[{"yes": True}, refused])
    assert outcome.output == {
        "found": {"0": ["done", {"yes": True}, ""], "legal": ["refused", None, "no"]},
        "counted": 2,
        "outcomes": {"done": 1, "refused": 1},
    }


def test_a_pack_may_say_itself_what_it_joins():
    join = PackJoin(
        join_id="s0-1.j-1", merge="judge", branches=9, counted=1, digest="d", outcomes={}, how="partial"
    )

    @agent("judge")
    def work(pack: Pack, ctx: SyncContext) -> Done:
        assert pack.join == join
        return Done({"n": [one.output for one in ctx.branches()]})

    assert run_agent(work, make_pack("judge", join=join), branches=[{"x": 1}]).output == {"n": [{"x": 1}]}
    short = run_agent(work, make_pack("judge", join=join), branches=[], max_attempts=1)
    assert "0 branches were read where 1 count" in short.problems[0].text


def test_a_branch_that_is_no_json_is_refused():
    with pytest.raises(ContractError, match="branch 1"):
        run_agent(judge, branches=[{}, {"x": object()}])
