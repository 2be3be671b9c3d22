"""Plans and tools through the cache: always those of the registration that counts."""

import threading
from typing import Any

import pytest

from passdown.broker import catalog as module
from passdown.broker.catalog import CatalogCache
from passdown.broker.stores.base import Documents
from passdown.broker.stores.queries import FindCatalog, FindDocument
from passdown.contracts.codec import encode
from passdown.contracts.errors import NotFound, PlanError
from passdown.contracts.plans import Grant, Plan, PlanRef, plan_ref
from passdown.contracts.tools import tool_digest
from tests.unit.broker.rig import Rig, plan, spec


@pytest.fixture
def cache(rig: Rig) -> CatalogCache:
    return CatalogCache(rig.store)


def version(rig: Rig) -> int:
    return rig.store.load("").catalog


def register(rig: Rig, *plans: Plan, tool: str | None = None) -> int:
    tools = [] if tool is None else [spec(description=tool)]
    rig.store.put(
        Documents(
            plans=[(plan_ref(one), encode(one)) for one in plans],
            tools=[(tool_digest(one), one) for one in tools],
        )
    )
    return version(rig)


def numbered(number: int, **more: Any) -> Plan:
    made = plan("p", **more)
    return Plan(name=made.name, version=number, start=made.start, stages=made.stages)


class TestNames:
    def test_a_name_is_its_newest_version(self, rig: Rig, cache: CatalogCache) -> None:
        at = register(rig, *(numbered(n) for n in (1, 2, 10)))
        assert str(cache.plan("p", at)) == "p@10"
        assert str(cache.plan("p@2", at)) == "p@2"

    def test_what_is_not_registered_says_what_is(self, rig: Rig, cache: CatalogCache) -> None:
        with pytest.raises(NotFound, match="registered are: none"):
            cache.plan("p", version(rig))
        at = register(rig, *(plan(f"plan-{n:02d}") for n in range(30)))
        for name in ("p", "plan-01@2", "plan-01@", "plan-01@x", "@1", ""):
            with pytest.raises(NotFound, match=r"plan-00@1, .*plan-19@1 and 10 more"):
                cache.plan(name, at)

    def test_it_asks_the_store_once_for_each_registration(self, rig: Rig, cache: CatalogCache) -> None:
        at = register(rig, plan())
        asked = rig.listen()
        for _ in range(3):
            cache.plan("p", at)
        assert asked == ["find"]


class TestGiven:
    def given(self, cache: CatalogCache, made: Plan, at: int) -> Any:
        return cache.given(None, plan_ref(made), at)[0]

    def test_it_has_the_pinned_plan_the_newest_and_the_tools_that_it_grants(
        self, rig: Rig, cache: CatalogCache
    ) -> None:
        old, new = numbered(1, tools=[Grant(tool="look"), Grant(tool="gone")]), numbered(2)
        at = register(rig, old, new, tool="old")
        given = self.given(cache, old, at)
        assert (given.plan, given.newest) == (old, new)
        assert {name: one.description for name, (_, one) in given.registered.items()} == {"look": "old"}
        assert self.given(cache, new, at).newest is None

    def test_a_registration_is_seen_as_soon_as_it_was_heard_of(self, rig: Rig, cache: CatalogCache) -> None:
        made = plan(tools=[Grant(tool="look")])
        before = register(rig, made, tool="old")
        self.given(cache, made, before)
        after = register(rig, tool="new")
        assert self.given(cache, made, before).registered["look"][1].description == "old"
        cache.heard(after)
        # A session that was taken before is decided on with what is registered by now.
        assert self.given(cache, made, before).registered["look"][1].description == "new"
        cache.heard(before)
        assert self.given(cache, made, before).registered["look"][1].description == "new"

    def test_two_threads_at_two_registrations_do_not_mix_them_up(
        self, rig: Rig, cache: CatalogCache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One looks up the tools of the older registration while the other goes on to the newer."""
        made = plan(tools=[Grant(tool="look")])
        before = register(rig, made, tool="old")
        reached, go_on = threading.Event(), threading.Event()
        inner = rig.store.find

        def find(query: Any) -> Any:
            found = inner(query)
            if isinstance(query, FindDocument) and threading.current_thread().name == "slow":
                reached.set()
                go_on.wait(10)
            return found

        monkeypatch.setattr(rig.store, "find", find)
        slow = threading.Thread(target=self.given, args=(cache, made, before), name="slow")
        slow.start()
        assert reached.wait(10)
        after = register(rig, tool="new")
        cache.plan("p", after)
        go_on.set()
        slow.join()
        assert self.given(cache, made, after).registered["look"][1].description == "new"

    def test_a_plan_that_is_gone_is_named(self, rig: Rig, cache: CatalogCache) -> None:
        with pytest.raises(PlanError, match="its document 0000000000 is gone"):
            cache.given(None, PlanRef(name="p", version=1, digest="0" * 10), version(rig))

    def test_a_digest_of_something_else_is_no_plan(self, rig: Rig, cache: CatalogCache) -> None:
        at = register(rig, plan(tools=[Grant(tool="look")]), tool="old")
        self.given(cache, plan(tools=[Grant(tool="look")]), at)
        with pytest.raises(PlanError):
            cache.given(None, PlanRef(name="p", version=1, digest=tool_digest(spec(description="old"))), at)


class TestBounds:
    def test_documents_and_what_is_made_of_them_are_bounded(
        self, rig: Rig, cache: CatalogCache, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "_CACHED", 5)
        plans = [plan(f"plan-{n}") for n in range(20)]
        at = register(rig, *plans)
        for _ in range(2):
            for made in plans:
                assert cache.given(None, plan_ref(made), at)[0].plan == made
        assert len(vars(cache)["_documents"]) == 5
        assert len(vars(cache)["_names"].givens) <= 5


def test_the_store_answers_as_expected(rig: Rig) -> None:
    register(rig, plan(), tool="a")
    found: Any = rig.store.find(FindCatalog())
    assert (list(found.plans), list(found.tools)) == (["p@1"], ["look"])
