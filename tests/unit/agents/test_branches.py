"""`ctx.branches()`: all that count, page by page, and nothing for who merges nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from passdown.agents import BranchResult, Context, Done, Options, Pack, SyncContext, agent
from passdown.agents.claim import ActiveClaim
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.port import Port
from passdown.agents.testing import make_pack, run_agent
from passdown.agents.threads import Threads
from passdown.contracts.errors import ContractError, Denied, Fenced, Unavailable
from passdown.contracts.gateway import AgentInfo, BranchPage, Claim
from passdown.contracts.pack import PAGE_ITEMS
from tests.unit.agents.helpers import Flaky, runtime_of
from tests.unit.agents.joining import branch, branches, join

THREADS = Threads(gateway=2, tools=1)


def names(found: list[BranchResult]) -> list[str]:
    return [one.branch for one in found]


class Pages(MemoryGateway):
    """Counts the pages that were asked for; may answer with some of its own."""

    def __init__(self, *pages: BranchPage) -> None:
        super().__init__()
        self.pages = list(pages)
        self.asked: list[int] = []

    def branches(self, claim: Claim, first: int = 0) -> BranchPage:
        self.asked.append(first)
        return self.pages.pop(0) if self.pages else super().branches(claim, first)


def merging(
    gateway: MemoryGateway, merged: list[BranchResult], port: Port | None = None, **fields: Any
) -> ActiveClaim:
    """Return a held claim of an attempt that merges."""
    pack = make_pack("judge", join=join(fields.pop("counted", len(merged)), **fields))
    gateway.submit(pack, branches=merged)
    held = gateway.claim(pack, "c" * 32, AgentInfo(name="test"))
    return ActiveClaim(pack, held, {}, port or Port(gateway))


def read_plain(claim: ActiveClaim) -> list[BranchResult]:
    return list(SyncContext(claim, THREADS).branches())


def read_async(claim: ActiveClaim) -> list[BranchResult]:
    async def read() -> list[BranchResult]:
        return [one async for one in Context(claim, THREADS).branches()]

    return asyncio.run(read())


Read = Callable[[ActiveClaim], list[BranchResult]]
both = pytest.mark.parametrize("read", [read_plain, read_async])


@both
@pytest.mark.parametrize("count", [0, 1, PAGE_ITEMS, PAGE_ITEMS + 1, 2 * PAGE_ITEMS + 50])
def test_all_that_count_come_in_the_order_of_their_places(read: Read, count: int):
    merged = branches(count)
    gateway = Pages()
    assert read(merging(gateway, merged[::-1])) == merged
    assert gateway.asked == list(range(0, max(count, 1), PAGE_ITEMS))


def test_a_page_is_read_when_the_one_before_was_handed_out():
    gateway = Pages()
    loop = SyncContext(merging(gateway, branches(PAGE_ITEMS + 1)), THREADS).branches()
    assert gateway.asked == []
    for _ in range(PAGE_ITEMS):
        next(loop)
    assert gateway.asked == [0]
    assert next(loop).place == PAGE_ITEMS
    assert gateway.asked == [0, PAGE_ITEMS]


@both
def test_each_call_begins_anew(read: Read):
    claim = merging(MemoryGateway(), branches(3))
    assert read(claim) == read(claim)


@pytest.mark.parametrize("kind", [SyncContext, Context])
def test_rule_04_an_attempt_that_merges_nothing_reads_no_branches(kind: Any):
    gateway = Pages()
    pack = make_pack("clerk")
    gateway.submit(pack, branches=branches(2))
    claim = ActiveClaim(pack, gateway.claim(pack, "c" * 32, AgentInfo(name="t")), {}, Port(gateway))
    with pytest.raises(Denied, match="may not read branches: this attempt merges nothing"):
        kind(claim, THREADS).branches()
    assert gateway.asked == []
    with pytest.raises(Denied):
        MemoryGateway.branches(gateway, claim.claim)


@both
def test_where_a_person_chose_a_branch_it_is_the_only_one(read: Read):
    gateway = Pages()
    merged = branches(3 * PAGE_ITEMS)
    chosen = merged[PAGE_ITEMS + 5]
    claim = merging(gateway, merged, counted=1, how="chosen", branch=chosen.branch)
    assert read(claim) == [chosen]
    assert gateway.asked == [0, PAGE_ITEMS]


@both
def test_the_chosen_one_must_be_there(read: Read):
    claim = merging(MemoryGateway(), branches(3), counted=1, how="chosen", branch="gone")
    with pytest.raises(ContractError, match="0 branches were read where 1 count"):
        read(claim)


@both
@pytest.mark.parametrize(("counted", "said"), [(4, "3 branches were read where 4"), (2, "3 .* where 2")])
def test_what_was_read_must_be_what_counted(read: Read, counted: int, said: str):
    with pytest.raises(ContractError, match=said):
        read(merging(MemoryGateway(), branches(3), counted=counted))


@both
def test_pages_that_lead_back_are_not_followed_for_ever(read: Read):
    gateway = Pages(BranchPage(branches=branches(1), next=1), BranchPage(branches=[branch(1)], next=1))
    with pytest.raises(ContractError, match="leads back to place 1"):
        read(merging(gateway, branches(9)))
    assert gateway.asked == [0, 1]


@both
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_store_that_is_away_for_a_moment_is_asked_again(read: Read, when: Any):
    gateway = MemoryGateway()
    flaky = Flaky(gateway, {"branches": [when]})
    claim = merging(gateway, branches(PAGE_ITEMS + 2), Port(flaky.gateway))
    assert len(read(claim)) == PAGE_ITEMS + 2
    assert flaky.asked == ["branches"] * 3


@both
def test_a_store_that_stays_away_ends_the_drain(read: Read):
    gateway = MemoryGateway()
    flaky = Flaky(gateway, {"branches": ["before"] * 100})
    claim = merging(gateway, branches(2), Port(flaky.gateway, patience_seconds=0.05))
    with pytest.raises(Unavailable):
        read(claim)
    assert claim.unavailable is not None


@both
def test_a_claim_that_is_over_reads_nothing(read: Read):
    gateway = Pages()
    claim = merging(gateway, branches(2))
    claim.end("its lease was lost")
    with pytest.raises(Fenced, match="its lease was lost"):
        read(claim)
    assert gateway.asked == []


@both
def test_a_fenced_reading_ends_the_claim(read: Read):
    gateway = MemoryGateway()
    claim = merging(gateway, branches(2))
    gateway.lose(claim.pack.session_id)
    with pytest.raises(Fenced):
        read(claim)
    assert claim.ended is not None


def test_a_loop_may_be_left():
    @agent("judge")
    async def judge(pack: Pack, ctx: Context) -> Done:
        async for one in ctx.branches():
            return Done({"first": one.output})
        return Done()

    @agent("clerk")
    def clerk(pack: Pack, ctx: SyncContext) -> Done:
        return Done({"first": next(ctx.branches()).output, "of": pack.join.counted if pack.join else None})

    assert run_agent(judge, branches=branches(5)).output == {"first": {"n": 0}}
    assert run_agent(clerk, branches=branches(5)).output == {"first": {"n": 0}, "of": 5}


def test_a_cancelled_reader_ends():
    gateway = MemoryGateway()
    started: list[str] = []

    @agent("judge")
    async def judge(pack: Pack, ctx: Context) -> Done:
        async for one in ctx.branches():
            started.append(one.branch)
            await asyncio.sleep(30)
        return Done()

    quick = Options(linger_seconds=0, cancel_grace_seconds=0.1, patience_seconds=1)
    pack = make_pack("judge", join=join(2), time_limit_seconds=0.05)
    session = gateway.submit(pack, branches=branches(2), max_attempts=1)
    with runtime_of(gateway, judge, options=quick) as runtime:
        runtime.drain("judge")
    assert started == ["b0"]
    assert "time limit" in session.feedback[0].text
