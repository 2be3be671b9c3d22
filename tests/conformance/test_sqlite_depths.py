"""How many packs wait is counted as seldom as it costs, for counting keeps every other writer waiting."""

import sqlite3

import pytest

from passdown.broker.stores.sqlite.depths import MOST_ROLES, Depths


class Queue:
    """A connection on which counting takes its time, and what was counted."""

    def __init__(self) -> None:
        self.monotonic_s = 0.0
        self.takes_s = 0.045
        self.waiting = 1_000_000
        self.counted: list[str] = []

    def execute(self, _: str, args: tuple[str]) -> "Queue":
        self.monotonic_s += self.takes_s
        self.counted.append(args[0])
        return self

    def fetchone(self) -> tuple[int]:
        return (self.waiting,)


class Asking:
    """Asks for room at times of the store's, in milliseconds."""

    def __init__(self) -> None:
        self.queue = Queue()
        self.depths = Depths(lambda: self.queue.monotonic_s)

    def at(self, now: int, role: str = "desk", most: int = 1_000_000) -> int | None:
        db: sqlite3.Connection = self.queue  # type: ignore[assignment]
        return self.depths.room(db, role, now, most)


@pytest.fixture
def asking() -> Asking:
    return Asking()


def test_a_count_is_good_for_twenty_times_what_it_took(asking: Asking) -> None:
    """Producers that press on a full queue: before, ten counts a second, half of the writer's time."""
    assert [asking.at(now) for now in range(1_000, 1_900, 10)] == [1_000_000] * 90
    assert len(asking.queue.counted) == 1
    asking.at(1_900)
    assert len(asking.queue.counted) == 2


def test_a_quick_one_is_soon_made_anew_where_it_would_refuse(asking: Asking) -> None:
    asking.queue.takes_s = 0.0001
    assert asking.at(1_000) == 1_000_000
    asking.queue.waiting = 5
    assert asking.at(1_099) == 1_000_000
    assert asking.at(1_100) is None
    assert len(asking.queue.counted) == 2


def test_what_is_added_counts_until_the_next_count(asking: Asking) -> None:
    asking.queue.waiting, asking.queue.takes_s = 7, 0.0
    assert [asking.at(1_000 + n, most=10) for n in range(4)] == [None, None, None, 10]
    assert len(asking.queue.counted) == 1


def test_a_clock_that_steps_back_makes_no_count_good_for_long(asking: Asking) -> None:
    asking.at(1_000_000)
    asking.at(10)
    assert len(asking.queue.counted) == 2


def test_rule_12_of_many_roles_the_oldest_count_is_forgotten(asking: Asking) -> None:
    asking.queue.waiting, asking.queue.takes_s = 0, 0.0
    for n in range(MOST_ROLES):
        asking.at(0, f"role-{n}")
    asking.at(2_000, "role-0")  # counted anew, and so no longer the oldest
    asking.at(2_000, "one-more")
    assert len(vars(asking.depths)["_counted"]) == MOST_ROLES
    asking.queue.counted.clear()
    for role in ("role-0", "one-more", "role-2", "role-1"):
        asking.at(999 if role == "role-2" else 2_000, role)
    assert asking.queue.counted == ["role-1"]
