import asyncio
import threading
from typing import Any

import pytest
import structlog

from passdown.agents import Agent, Context, Done, Pack, SyncContext, agent, tool
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.memory_session import Session
from passdown.agents.testing import make_pack, run_agent
from passdown.contracts.codec import RETURN_BUDGET
from passdown.contracts.errors import Fenced
from tests.unit.agents.helpers import QUICK, Flaky, runtime_of, wait_until

ENDS = [
    KeyError("orderId"), SystemExit(3), MemoryError(), KeyboardInterrupt(), GeneratorExit(), StopIteration(),
    RecursionError(), asyncio.CancelledError(), ValueError("\x00 \ud800" + "x" * 100_000),
]  # fmt: skip


def plain_agent(act: Any, **options: Any) -> Agent:
    @agent("clerk", **options)
    def clerk(pack: Pack, ctx: SyncContext) -> Any:
        return act(ctx)

    return clerk


def async_agent(act: Any, **options: Any) -> Agent:
    @agent("clerk", **options)
    async def clerk(pack: Pack, ctx: Context) -> Any:
        return act(ctx)

    return clerk


def always(value: object) -> Any:
    def act(_: object) -> object:
        return value

    return act


BOTH = pytest.mark.parametrize("make", [plain_agent, async_agent])


def raiser(error: BaseException) -> Any:
    def act(_: object) -> None:
        raise error

    return act


@BOTH
@pytest.mark.parametrize("error", ENDS, ids=lambda error: type(error).__name__)
def test_whatever_an_agent_raises_is_a_failed_attempt(make: Any, error: BaseException):
    outcome = run_agent(make(raiser(error)), make_pack("clerk"), max_attempts=2)
    assert (outcome.status, outcome.attempts) == ("failed", 2)
    expected = (
        "RuntimeError" if isinstance(error, StopIteration) and make is async_agent else type(error).__name__
    )
    assert expected in outcome.problems[0].text
    assert outcome.problems[0].kind == "error"
    outcome.problems[0].text.encode()
    assert len(outcome.problems[0].text) < 2100


@BOTH
@pytest.mark.parametrize("junk", [None, {}, "done", Done({"x": float("nan")}), Done({"x": object()}), Done])
def test_junk_is_a_broken_contract(make: Any, junk: object):
    outcome = run_agent(make(always(junk)), make_pack("clerk"), max_attempts=1)
    assert (outcome.status, [one.kind for one in outcome.problems]) == ("failed", ["contract"])


def test_a_forgotten_async_is_said():
    async def later() -> Done:
        return Done()

    outcome = run_agent(plain_agent(always(later())), make_pack("clerk"), max_attempts=1)
    assert "got coroutine" in outcome.problems[0].text


@BOTH
def test_an_oversized_return_fails_with_its_size(make: Any):
    outcome = run_agent(make(always(Done({"x": "y" * RETURN_BUDGET}))), make_pack("clerk"), max_attempts=1)
    assert f"its budget is {RETURN_BUDGET}" in outcome.problems[0].text


def test_a_return_that_the_broker_rejects_comes_back_as_feedback():
    def act(ctx: SyncContext) -> Done:
        return Done({"yes": True} if ctx.pack.feedback else {"yes": "maybe"})

    pack = make_pack("clerk", returns={"type": "object", "properties": {"yes": {"type": "boolean"}}})
    outcome = run_agent(plain_agent(act), pack)
    assert outcome.output == {"yes": True}
    assert outcome.problems[0].kind == "contract"


def start(gateway: MemoryGateway, clerk: Agent, **options: Any) -> tuple[Session, threading.Thread, Any]:
    session = gateway.submit(make_pack("clerk", lease_seconds=0.03))
    runtime = runtime_of(gateway, clerk, **options)
    runtime.start()
    thread = threading.Thread(target=runtime.drain, args=("clerk",), daemon=True)
    thread.start()
    return session, thread, runtime


@pytest.mark.parametrize("fate", ["lose", "cancel"])
def test_a_plain_agent_is_told_that_its_claim_is_over(fate: str):
    broker, started, errors = MemoryGateway(), threading.Event(), list[BaseException]()

    def act(ctx: SyncContext) -> Done:
        if ctx.pack.attempt > 1:
            return Done({"attempt": ctx.pack.attempt})
        started.set()
        wait_until(lambda: ctx.cancelled, "it is told")
        try:
            ctx.checkpoint({})
        except Fenced as error:
            errors.append(error)
            raise
        return Done({"late": True})

    session, thread, runtime = start(broker, plain_agent(act))
    assert started.wait(5)
    getattr(broker, fate)(session.name)
    thread.join(10)
    assert len(errors) == 1
    if fate == "lose":
        assert session.status == "done"
    runtime.stop(0)


def test_a_late_return_is_given_and_fenced():
    broker, started, go_on = MemoryGateway(), threading.Event(), threading.Event()

    def act(ctx: SyncContext) -> Done:
        if ctx.pack.attempt == 1:
            started.set()
            go_on.wait(5)
        return Done({"attempt": ctx.pack.attempt})

    session, thread, runtime = start(broker, plain_agent(act))
    assert started.wait(5)
    broker.lose(session.name)
    go_on.set()
    thread.join(10)
    assert session.fenced == 1
    assert session.status == "done"
    assert session.given is not None
    assert session.given.attempt == 2
    runtime.stop(0)


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_async_agent_is_cancelled_after_a_grace(stubborn: bool):
    broker, started, seen = MemoryGateway(), threading.Event(), list[str]()

    @agent("clerk")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        if pack.attempt > 1:
            return Done()
        started.set()
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                seen.append("cancelled")
                if not stubborn:
                    raise

    quick = QUICK.__class__(cancel_grace_seconds=0.05, linger_seconds=0, poll_seconds=0.02)
    session, thread, runtime = start(broker, clerk, options=quick)
    assert started.wait(5)
    with structlog.testing.capture_logs() as lines:
        broker.lose(session.name)
        thread.join(10)
    assert not thread.is_alive()
    assert session.status == "done"
    assert seen == ["cancelled"]
    assert ("agent-stuck" in [line.get("action") for line in lines]) is stubborn
    runtime.stop(0)


def test_a_time_limit_cancels_an_async_agent():
    @agent("clerk", time_limit="30ms")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        await asyncio.sleep(3600)
        return Done()

    outcome = run_agent(clerk, make_pack("clerk"), max_attempts=1)
    assert outcome.problems[0].text == "the agent ran longer than its time limit of 0.03 s"


def test_a_time_limit_gives_up_the_lease_of_a_plain_agent():
    released = threading.Event()

    @agent("clerk", time_limit="30ms")
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        if pack.attempt == 1:
            wait_until(lambda: broker.sessions[pack.session_id].failures, "it is reported as failed")
            with pytest.raises(Fenced, match="time limit"):
                ctx.checkpoint({})
        released.set()
        return Done({"attempt": pack.attempt})

    broker = MemoryGateway()
    session, thread, runtime = start(broker, clerk)
    thread.join(10)
    assert session.status == "done"
    assert "time limit of 0.03 s" in session.feedback[0].text
    assert session.fenced == 1
    runtime.stop(0)


def test_an_effect_that_its_time_limit_cut_off_is_unknown_and_settled():
    @tool("pay", effect=True)
    async def pay(*, key: str) -> None:
        await asyncio.sleep(3600)

    @agent("clerk", time_limit="30ms")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        await ctx.call("pay")
        return Done()

    outcome = run_agent(clerk, make_pack("clerk", tools=[pay]), tools=[pay])
    assert [effect.status for effect in outcome.effects] == ["unknown"]
    assert outcome.causes == ["first", "settle"]


def test_a_plain_tool_that_ends_late_is_heard_and_settles_its_effect():
    go_on = threading.Event()

    @tool("pay", effect=True)
    def pay(*, key: str) -> dict[str, str]:
        go_on.wait(5)
        return {"paid": key}

    @agent("clerk", time_limit="30ms")
    async def clerk(pack: Pack, ctx: Context) -> Done:
        return Done(await ctx.call("pay"))

    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pay]))
    runtime = runtime_of(broker, clerk, tools=(pay,))
    with runtime:
        runtime.drain("clerk")
        assert [one.status for one in session.ledger.values()] == ["unknown"]
        go_on.set()
        wait_until(lambda: session.status == "queued", "the truth arrives")
        runtime.drain("clerk")
    assert session.status == "done"
    assert session.writes == ["pay"]


def test_a_pack_that_another_claim_holds_is_left():
    broker = MemoryGateway()
    pack = make_pack("clerk")
    broker.submit(pack)
    (offer,) = broker.take("clerk", 1).offers
    broker.claim(pack, "another-claim", plain_agent(Done).info)
    runtime = runtime_of(broker, plain_agent(always(Done())))
    assert runtime.runner.run(offer, lambda: None) is None
    assert broker.sessions[pack.session_id].claim_id == "another-claim"
    assert runtime.renewer.held() == []


@pytest.mark.parametrize("verb", ["claim", "effect", "report", "checkpoint", "give", "take"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lost_call_or_reply_changes_nothing(verb: str, when: Any):
    written: list[str] = []

    @tool("pay", effect=True)
    def pay(*, key: str) -> str:
        written.append(key)
        return "paid"

    def act(ctx: SyncContext) -> Done:
        ctx.checkpoint({"at": 1})
        return Done({"is": ctx.call("pay")})

    broker = MemoryGateway()
    session = broker.submit(make_pack("clerk", tools=[pay]))
    flaky = Flaky(broker, {verb: [when, when]})
    with runtime_of(flaky.gateway, plain_agent(act), tools=(pay,)) as runtime:
        runtime.drain("clerk")
        if when == "after" and verb == "take":
            broker.lose(session.name)  # a reservation whose reply was lost runs out
            runtime.drain("clerk")
    assert session.status == "done"
    assert len(written) == 1
    assert session.failures == 0
