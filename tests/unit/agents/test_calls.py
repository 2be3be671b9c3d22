import asyncio
import math
from typing import Any

import pytest

from passdown.agents import (
    Conflict,
    Context,
    ContractError,
    Denied,
    Done,
    EffectUncertain,
    NotDone,
    Pack,
    Suspended,
    SyncContext,
    agent,
    tool,
)
from passdown.agents.calls import UNREADABLE
from passdown.agents.claim import NOTES_WAITING
from passdown.agents.testing import (
    Approve,
    Deny,
    Edit,
    Happened,
    NeverHappened,
    make_pack,
    pack_tool,
    run_agent,
)


class Bank:
    """The outside world: what was written, by key."""

    def __init__(self) -> None:
        self.written: list[tuple[str, int, str]] = []


@pytest.fixture
def bank() -> Bank:
    return Bank()


@tool("orders.read")
def read(order: str) -> dict[str, str]:
    return {"order": order}


def payer(bank: Bank, **options: Any) -> Any:
    @tool("pay", effect=True, **options)
    def pay(order: str, cents: int = 100, *, key: str) -> dict[str, Any]:
        bank.written.append((order, cents, key))
        return {"id": len(bank.written)}

    return pay


def run(fn: Any, *tools: Any, grants: tuple[Any, ...] | None = None, **options: Any) -> Any:
    clerk = agent("clerk")(fn)
    return run_agent(clerk, make_pack("clerk", tools=grants or tools), tools=tools, **options)


# Reading calls


def test_a_reading_call_runs_and_is_noted():
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done(ctx.call("orders.read", order="a"))

    outcome = run(work, read)
    assert outcome.output == {"order": "a"}
    assert [(one.tool, one.args, one.result, one.kept) for one in outcome.reads] == [
        ("orders.read", {"order": "a"}, {"order": "a"}, True)
    ]


def test_a_reading_call_that_fails_is_noted_and_raises():
    @tool("breaks")
    def breaks() -> None:
        raise KeyError("gone")

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(KeyError):
            ctx.call("breaks")
        return Done()

    outcome = run(work, breaks)
    assert [(one.tool, one.result_digest) for one in outcome.reads] == [("breaks", "")]


def test_notes_are_flushed_before_they_are_too_many():
    seen: list[int] = []

    def work(pack: Pack, ctx: SyncContext) -> Done:
        for n in range(NOTES_WAITING + 10):
            ctx.call("orders.read", order=str(n))
        return Done()

    outcome = run(work, read)
    seen.extend(int(one.args["order"]) for one in outcome.reads)
    assert seen == list(range(NOTES_WAITING + 10))


@pytest.mark.parametrize("stops_after", [1, NOTES_WAITING * 4])
def test_denied_calls_are_noted_and_bounded(stops_after: int):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        for _ in range(stops_after):
            with pytest.raises(Denied, match=r"stage clerk does not grant it; it grants orders\.read"):
                ctx.call("users.delete", user="all")
        return Done()

    outcome = run(work, read)
    assert len(outcome.denied) == stops_after
    assert outcome.denied[0].tool == "users.delete"


@pytest.mark.parametrize(
    ("args", "pointer"),
    [
        ({"order": 3}, "/order"),
        ({}, "/order"),
        ({"order": "a", "more": 1}, "/more"),
        ({"order": math.nan}, "/order"),
    ],
)
def test_arguments_that_do_not_fit_are_an_error_with_their_place(args: dict[str, Any], pointer: str):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(ContractError) as caught:
            ctx.call("orders.read", **args)
        return Done({"pointer": caught.value.pointer, "what": caught.value.what})

    outcome = run(work, read)
    assert outcome.output == {"pointer": pointer, "what": "arguments of orders.read"}
    assert len(outcome.denied) == 1
    assert outcome.reads == []


def test_a_narrowed_parameter_is_checked_here_too(bank: Bank):
    pay = payer(bank)

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(ContractError):
            ctx.call("pay", order="a", cents=5001)
        return Done(ctx.call("pay", order="a", cents=5000))

    outcome = run(work, pay, grants=(pack_tool(pay, narrowed={"cents": {"maximum": 5000}}),))
    assert outcome.output == {"id": 1}
    assert len(bank.written) == 1


LIMITS: dict[str, Any] = {"narrowed": {"cents": {"maximum": 500}}, "permit": {"cents": {"maximum": 5000}}}


def test_a_call_beyond_the_grant_and_within_the_permit_goes_to_a_person(bank: Bank):
    pay = payer(bank)

    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done(ctx.call("pay", order="a", cents=900))

    outcome = run(work, pay, grants=(pack_tool(pay, **LIMITS),), people={"pay": Approve()})
    assert outcome.output == {"id": 1}
    assert [(order, cents) for order, cents, _ in bank.written] == [("a", 900)]
    assert outcome.denied == []
    assert outcome.causes == ["first", "human"]


@pytest.mark.parametrize("cents", [5001, "many"])
def test_rule_05_a_call_beyond_the_permit_is_refused_here(bank: Bank, cents: Any):
    pay = payer(bank)

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(ContractError) as caught:
            ctx.call("pay", order="a", cents=cents)
        return Done({"pointer": caught.value.pointer})

    outcome = run(work, pay, grants=(pack_tool(pay, **LIMITS),))
    assert outcome.output == {"pointer": "/cents"}
    assert len(outcome.denied) == 1
    assert bank.written == []


def test_rule_05_a_reading_tool_stays_within_its_grant():
    """No broker makes such a pack; a worker that meets one does not read either."""
    limits: dict[str, Any] = {"narrowed": {"order": {"const": "a"}}, "permit": {"order": True}}

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(ContractError):
            ctx.call("orders.read", order="b")
        return Done({})

    assert run(work, read, grants=(pack_tool(read, **limits),)).reads == []


# Effects


def test_an_effect_gets_its_id_as_key_and_is_on_record(bank: Bank):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done(ctx.call("pay", order="a"))

    outcome = run(work, payer(bank))
    (effect,) = outcome.effects
    assert bank.written == [("a", 100, effect.effect_id)]
    assert (effect.status, effect.args, effect.result) == ("done", {"order": "a", "cents": 100}, {"id": 1})


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("rerun", [False, True])
def test_after_a_crash_nothing_runs_twice(bank: Bank, rerun: bool, kind: str):
    def find(order: str, *, key: str) -> Any:
        from passdown.agents import Absent, Found

        found = [n for n, one in enumerate(bank.written, 1) if one[2] == key]
        return Found({"id": found[0]}) if found else Absent()

    pay = payer(bank, identity=["order"], verify=find, dedupes=True)

    def plain(pack: Pack, ctx: SyncContext) -> Done:
        if ctx.snapshot is None:
            ctx.call("pay", order="a")
            ctx.checkpoint({"a": True})
        ctx.call("pay", order="b")
        return Done(ctx.call("pay", order="c"))

    async def waits(pack: Pack, ctx: Context) -> Done:
        if ctx.snapshot is None:
            await ctx.call("pay", order="a")
            await ctx.checkpoint({"a": True})
        await ctx.call("pay", order="b")
        return Done(await ctx.call("pay", order="c"))

    points: list[Any] = [
        ("before_claim", 1), ("after_claim", 1), ("before_intent", 2), ("after_intent", 2), ("before_write", 1),
        ("before_write", 3), ("after_write", 1), ("after_write", 2), ("after_write", 3), ("before_report", 2),
        ("after_report", 2), ("before_checkpoint", 1), ("after_checkpoint", 1), ("before_give", 1), ("after_give", 1),
    ]  # fmt: skip
    for crash in points:
        bank.written.clear()
        outcome = run(plain if kind == "plain" else waits, pay, crash=crash, rerun=rerun)
        assert outcome.output == {"id": 3}, crash
        assert [order for order, _, _ in bank.written] == ["a", "b", "c"], crash
        assert len({key for _, _, key in bank.written}) == 3, crash


def test_equal_calls_are_counted_so_that_two_are_two(bank: Bank):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done({"ids": [ctx.call("pay", order="a")["id"], ctx.call("pay", order="a")["id"]]})

    outcome = run(work, payer(bank))
    assert outcome.output == {"ids": [1, 2]}
    assert [effect.n for effect in outcome.effects] == [1, 2]


def test_calls_side_by_side_are_counted_in_the_order_of_calls(bank: Bank):
    async def work(pack: Pack, ctx: Context) -> Done:
        calls = [ctx.call("pay", order="a", cents=n) for n in range(5)]
        results = await asyncio.gather(*reversed(calls))
        return Done({"n": len(results)})

    pay = payer(bank, identity=["order"])
    outcome = run(work, pay)
    assert sorted((effect.n, effect.args["cents"]) for effect in outcome.effects) == [
        (n + 1, n) for n in range(5)
    ]
    assert len(bank.written) == 5


def test_not_done_is_failed_and_may_be_tried_again(bank: Bank):
    tries: list[str] = []

    @tool("pay", effect=True)
    def pay(*, key: str) -> str:
        tries.append(key)
        if len(tries) == 1:
            raise NotDone("card refused")
        return "paid"

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(NotDone, match="pay wrote nothing: card refused"):
            ctx.call("pay")
        return Done({"then": ctx.call("pay")})

    outcome = run(work, pay)
    assert outcome.output == {"then": "paid"}
    assert [effect.status for effect in outcome.effects] == ["failed", "done"]
    assert outcome.effects[0].error == "card refused"
    assert len(set(tries)) == 2


def test_a_failed_effect_with_something_recorded_after_it_raises_again(bank: Bank):
    """The agent took another way after the failure: a rerun must take it again."""

    @tool("card", effect=True)
    def card(*, key: str) -> str:
        raise NotDone("refused")

    def work(pack: Pack, ctx: SyncContext) -> Done:
        try:
            ctx.call("card")
        except NotDone:
            return Done(ctx.call("pay", order="a"))
        return Done()

    outcome = run(work, card, payer(bank), crash=("before_give", 1), rerun=True)
    assert outcome.output == {"id": 1}
    assert outcome.writes == ["card", "pay"]


@pytest.mark.parametrize(
    "error",
    [KeyError("x"), TimeoutError(), SystemExit(1), MemoryError(), KeyboardInterrupt(), StopIteration()],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_any_other_end_is_unknown(error: BaseException, kind: str):
    @tool("pay", effect=True)
    def pay(*, key: str) -> None:
        raise error

    def plain(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(EffectUncertain) as caught:
            ctx.call("pay")
        assert caught.value.__cause__ is error
        with pytest.raises(Conflict, match="unknown"):
            ctx.call("pay")
        return Done({"caught": caught.value.tool})

    async def waits(pack: Pack, ctx: Context) -> Done:
        with pytest.raises(EffectUncertain) as caught:
            await ctx.call("pay")
        with pytest.raises(Conflict, match="unknown"):
            await ctx.call("pay")
        return Done({"caught": caught.value.tool})

    outcome = run(plain if kind == "plain" else waits, pay)
    assert [effect.status for effect in outcome.effects] == ["unknown"]
    assert type(error).__name__ in outcome.effects[0].error
    assert outcome.status == "waiting"
    assert outcome.ticket.kind == "effect"


def test_a_kept_return_counts_once_a_person_knows():
    @tool("pay", effect=True)
    def pay(*, key: str) -> None:
        raise KeyError("x")

    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(EffectUncertain):
            ctx.call("pay")
        return Done({"a": 1})

    assert run(work, pay, people={"pay": Happened({"id": 7})}).output == {"a": 1}


def test_what_never_happened_may_be_repeated_with_the_same_key():
    keys: list[str] = []

    @tool("pay", effect=True)
    def pay(*, key: str) -> str:
        keys.append(key)
        if len(keys) == 1:
            raise KeyError("x")
        return "paid"

    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done({"is": ctx.call("pay")})

    outcome = run(work, pay, people={"pay": NeverHappened()})
    assert outcome.output == {"is": "paid"}
    assert len(keys) == 2
    assert len(set(keys)) == 1


@pytest.mark.parametrize("junk", [math.nan, object(), {"x": {1: float("inf")}}, b"\xff", 2**80])
def test_a_junk_result_of_an_effect_that_happened_is_not_repeated(junk: Any):
    runs: list[str] = []

    @tool("pay", effect=True)
    def pay(*, key: str) -> Any:
        runs.append(key)
        return junk

    def work(pack: Pack, ctx: SyncContext) -> Done:
        try:
            return Done({"is": ctx.call("pay")})
        except ContractError as error:
            return Done({"error": str(error)})

    outcome = run(work, pay, crash=("before_give", 1), rerun=True)
    assert len(runs) == 1
    assert outcome.effects[0].status == "done"
    if not isinstance(junk, bytes):  # bytes become base64
        assert UNREADABLE in outcome.effects[0].result
        assert "the effect is done and will not run again" in outcome.output["error"]


# People


def test_an_action_that_needs_approval_ends_the_attempt(bank: Bank):
    seen: list[str] = []

    def work(pack: Pack, ctx: SyncContext) -> Done:
        try:
            return Done(ctx.call("pay", order="a"))
        except Exception:  # noqa: BLE001  (an agent's own)
            seen.append("caught")
            return Done()
        except Suspended:
            seen.append("suspended")
            raise

    pay = payer(bank)
    grants = (pack_tool(pay, approve=True),)
    outcome = run(work, pay, grants=grants)
    assert (outcome.status, outcome.ticket.kind, seen) == ("waiting", "approval", ["suspended"])
    assert bank.written == []
    outcome = run(work, pay, grants=grants, people={"pay": Approve()})
    assert outcome.output == {"id": 1}
    assert outcome.causes == ["first", "human"]


def test_what_a_person_edited_is_what_runs(bank: Bank):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        return Done(ctx.call("pay", order="a", cents=500))

    pay = payer(bank, identity=["order"])
    outcome = run(
        work, pay, grants=(pack_tool(pay, approve=True),), people={"pay": Edit({"order": "a", "cents": 5})}
    )
    assert outcome.status == "done"
    assert bank.written == [("a", 5, outcome.effects[0].effect_id)]


def test_what_a_person_denied_raises(bank: Bank):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(Denied, match="too much"):
            ctx.call("pay", order="a")
        return Done({"denied": True})

    pay = payer(bank)
    outcome = run(work, pay, grants=(pack_tool(pay, approve=True),), people={"pay": Deny("too much")})
    assert outcome.output == {"denied": True}
    assert bank.written == []


def test_edited_arguments_that_the_function_cannot_take_are_not_done(bank: Bank):
    def work(pack: Pack, ctx: SyncContext) -> Done:
        with pytest.raises(NotDone, match="does not fit"):
            ctx.call("pay", order="a")
        return Done()

    pay = payer(bank, identity=["order"])
    people = {"pay": Edit({"order": "a", "cents": "many"})}
    outcome = run(work, pay, grants=(pack_tool(pay, approve=True),), people=people)
    assert outcome.effects[0].status == "failed"
    assert bank.written == []


def test_a_changed_mind_after_a_lost_attempt_needs_a_person_or_a_word(bank: Bank):
    attempts: list[int] = []

    def work(pack: Pack, ctx: SyncContext) -> Done:
        attempts.append(pack.attempt)
        after = ctx.effects[0].effect_id if ctx.effects and says_so else None
        return Done(ctx.call("pay", after=after, order="a", cents=pack.attempt))

    says_so = False
    outcome = run(work, payer(bank), crash=("after_report", 1))
    assert outcome.status == "waiting"
    assert len(bank.written) == 1
    says_so = True
    outcome = run(work, payer(bank), crash=("after_report", 1))
    assert outcome.status == "done"
    assert len(bank.written) == 3
