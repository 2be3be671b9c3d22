import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
import structlog

from passdown.agents import Answers, Context, Done, Pack, SyncContext, agent, tool
from passdown.agents.testing import make_pack, run_agent
from passdown.agents.threads import Threads
from passdown.contracts.pack import PackAnswer, PackEffect
from tests.unit.agents.helpers import claimed


def answer(attempt: int, question: str, value: object) -> PackAnswer:
    return PackAnswer(attempt=attempt, id=question, text="?", value=value, by=f"user:u{attempt}")


def test_answers_are_looked_up_by_question_and_the_latest_counts():
    answers = Answers([answer(3, "a", "new"), answer(1, "a", "old"), answer(1, "b", None)])
    assert answers["a"] == "new"
    assert answers.by("a") == "user:u3"
    assert dict(answers) == {"a": "new", "b": None}
    assert "c" not in answers
    assert answers.get("c", 5) == 5
    assert [one.value for one in answers.all] == ["new", "old", None]
    with pytest.raises(KeyError):
        answers["c"]


def test_a_context_knows_its_pack():
    effect = PackEffect(effect_id="s.e-1", step=1, tool="pay", status="done")
    pack = make_pack(snapshot={"at": 3}, effects=[effect], deadline=1_700_000_000_000, answers={"q": "a"})
    claim, _ = claimed(pack)
    ctx = SyncContext(claim, Threads(gateway=1, tools=1))
    assert ctx.pack is pack
    assert ctx.snapshot == {"at": 3}
    assert ctx.effects == [effect]
    assert ctx.answers["q"] == "a"
    assert ctx.deadline == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert not ctx.cancelled
    claim.end("over")
    assert ctx.cancelled


def test_without_a_deadline_there_is_none():
    claim, _ = claimed(make_pack())
    assert SyncContext(claim, Threads(gateway=1, tools=1)).deadline is None


def test_the_log_names_the_handoff():
    claim, session = claimed(make_pack("clerk"))
    with structlog.testing.capture_logs() as lines:
        SyncContext(claim, Threads(gateway=1, tools=1)).log.info("hello", n=1)
    assert lines == [
        {
            "event": "hello",
            "log_level": "info",
            "n": 1,
            "session": session.name,
            "step": 1,
            "attempt": 1,
            "stage": "clerk",
            "role": "clerk",
        }
    ]


def test_the_snapshot_is_what_was_checkpointed_last():
    @agent("clerk")
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        before = ctx.snapshot
        ctx.checkpoint({"at": 1})
        return Done({"before": before, "after": ctx.snapshot})

    assert run_agent(clerk, make_pack("clerk")).output == {"before": None, "after": {"at": 1}}


@tool("look")
async def look(n: int) -> int:
    await asyncio.sleep(0)
    return n


def test_calls_run_side_by_side():
    meeting = asyncio.Barrier(3)

    @tool("meet")
    async def meet(n: int) -> int:
        await meeting.wait()
        return n

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        return Done({"all": await asyncio.gather(*(ctx.call("meet", n=n) for n in range(3)))})

    assert run_agent(clerk, make_pack("clerk", tools=[meet]), tools=[meet]).output == {"all": [0, 1, 2]}


def test_a_return_waits_for_calls_that_still_run():
    written: list[int] = []
    release = asyncio.Event()

    @tool("pay", effect=True)
    async def pay(n: int, *, key: str) -> None:
        await release.wait()
        written.append(n)

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        running = asyncio.ensure_future(ctx.call("pay", n=1))
        asyncio.get_running_loop().call_later(0.02, release.set)
        await asyncio.sleep(0)
        return Done({"waits": not running.done()})

    outcome = run_agent(clerk, make_pack("clerk", tools=[pay]), tools=[pay])
    assert (outcome.output, written) == ({"waits": True}, [1])
    assert [one.status for one in outcome.effects] == ["done"]


def test_a_plain_agent_may_call_an_async_tool_and_the_other_way_round():
    @tool("plain")
    def plain(n: int) -> int:
        return n + 1

    @agent("a")
    def a(pack: Pack, ctx: SyncContext) -> Done:
        return Done({"n": ctx.call("look", n=1)})

    @agent("b")
    async def b(pack: Pack, ctx: Context) -> Done:
        found: Any = await ctx.call("plain", n=1)
        return Done({"n": found})

    assert run_agent(a, make_pack("a", tools=[look]), tools=[look]).output == {"n": 1}
    assert run_agent(b, make_pack("b", tools=[plain]), tools=[plain]).output == {"n": 2}
