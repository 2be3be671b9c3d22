"""Many callers at once: each act is done once, and nobody waits for ever."""

from collections import Counter
from collections.abc import Callable

from passdown.broker.stores.base import Committed, Repeated, Stale, Store
from tests.conformance.building import (
    Clock,
    ask,
    claim,
    do,
    done,
    entry,
    events_of,
    names,
    opened,
    pack,
    renew,
    step,
    take,
)
from tests.conformance.driver import Driven
from tests.conformance.together import together


class ThreadSuite(Driven):
    def test_sessions_move_side_by_side(self, store: Store) -> None:
        def run(n: int) -> None:
            for version in range(20):
                done(store, step(f"s0-{n}", version, queue=pack(f"role-{n}", attempt=version + 1)))

        together(8, run)
        for n in range(8):
            assert store.events(f"s0-{n}") == events_of(f"s0-{n}", 1, 20)

    def test_rule_2_of_many_steps_from_one_version_one_is_written(self, store: Store) -> None:
        done(store, step("s0-a"))
        outcomes = together(16, lambda n: do(store, step("s0-a", 1, command=f"by {n}"))[0])
        assert Counter(type(outcome) for outcome in outcomes) == {Committed: 1, Stale: 15}
        assert store.load("s0-a").version == 2

    def test_one_command_from_many_callers_is_done_once(self, store: Store) -> None:
        act = step("s0-a", queue=pack())
        outcomes = together(16, lambda _: do(store, act)[0])
        assert Counter(type(outcome) for outcome in outcomes) == {Committed: 1, Repeated: 15}
        assert store.events("s0-a") == act.events

    def test_compare_and_set_loses_no_step(self, connect: Callable[[], Store]) -> None:
        stores = [connect(), connect()]

        def run(n: int) -> int:
            store, written = stores[n % 2], 0
            while written < 10:
                version = store.load("s0-a").version
                outcome = do(store, step("s0-a", version, command=f"{n}/{written}"))[0]
                written += isinstance(outcome, Committed)
            return written

        assert sum(together(6, run)) == 60
        assert stores[0].events("s0-a") == events_of("s0-a", 1, 60)

    def test_each_pack_is_given_to_one_drain(self, store: Store) -> None:
        opened(store, *(f"s0-{n}" for n in range(120)))

        def drain(_: int) -> list[str]:
            mine: list[str] = []
            while got := names(take(store, slots=3)):
                mine += got
            return mine

        taken = [name for mine in together(8, drain) for name in mine]
        assert sorted(taken) == sorted(f"s0-{n}" for n in range(120))

    def test_each_due_entry_is_given_to_one_tick(self, store: Store) -> None:
        done(store, *(step(f"s0-{n}", dues=[entry(after_ms=0)]) for n in range(60)))

        def sweep(_: int) -> list[str]:
            mine: list[str] = []
            while got := [one.session_id for one in store.due(ask(limit=7)).entries]:
                mine += got
            return mine

        given = [name for mine in together(4, sweep) for name in mine]
        assert sorted(given) == sorted(f"s0-{n}" for n in range(60))

    def test_a_limit_holds_while_many_take(self, store: Store) -> None:
        opened(store, *(f"s0-{n}" for n in range(40)))
        taken = together(8, lambda _: names(take(store, slots=4, role_limit=10)))
        assert sum(len(mine) for mine in taken) == 10

    def test_commits_renewals_and_reads_do_not_stand_in_each_others_way(
        self, store: Store, clock: Clock
    ) -> None:
        opened(store, *(f"s0-{n}" for n in range(6)))
        for n in range(6):
            claim(store, f"s0-{n}")

        def run(n: int) -> None:
            name = f"s0-{n % 6}"
            for version in range(2, 12):
                if n < 6:
                    done(store, step(name, version))
                else:
                    assert renew(store, name) == "held"
                    assert store.load(name).state is not None

        together(12, run)
        assert [store.load(f"s0-{n}").version for n in range(6)] == [12] * 6
