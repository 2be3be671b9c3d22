"""What was no doorbell is kept, and keeps nobody waiting."""

import threading

import structlog

from passdown.broker.junk import MOST_WAITING, JunkKeeper
from passdown.broker.push.judging import KEPT
from passdown.broker.stores.base import Quarantine
from passdown.contracts.errors import Unavailable
from tests.integration.site import wait_until


def test_it_is_kept_with_its_source_and_reason() -> None:
    kept: list[Quarantine] = []
    keeper = JunkKeeper(kept.append)
    keeper.keep("passdown.desk", b"\xff", "not JSON")
    wait_until(lambda: kept, "it is kept")
    assert kept == [Quarantine(source="passdown.desk", reason="not JSON", body=b"\xff")]
    keeper.keep("passdown.desk", b"2", "again")
    wait_until(lambda: len(kept) == 2, "so is the next")


def test_rule_12_only_its_beginning_is_kept() -> None:
    kept: list[Quarantine] = []
    JunkKeeper(kept.append).keep("q", b"[" * (KEPT + 1), "deep")
    wait_until(lambda: kept, "it is kept")
    assert len(kept[0].body) == KEPT
    assert str(KEPT + 1) in kept[0].reason


def test_a_store_that_hangs_keeps_no_consumer_waiting_and_no_memory() -> None:
    hung = threading.Event()

    def put(_: Quarantine) -> None:
        hung.wait()

    keeper = JunkKeeper(put)
    with structlog.testing.capture_logs() as said:
        for _ in range(3 * MOST_WAITING):
            keeper.keep("q", b"x", "junk")
    assert MOST_WAITING <= len(said) <= 2 * MOST_WAITING
    hung.set()


def test_a_store_that_is_away_or_broken_is_said_and_the_next_is_kept() -> None:
    kept: list[bytes] = []

    def put(what: Quarantine) -> None:
        if what.body == b"away":
            raise Unavailable("store", "gone")
        if what.body == b"broken":
            raise KeyError("x")
        kept.append(what.body)

    with structlog.testing.capture_logs() as said:
        keeper = JunkKeeper(put)
        for body in (b"away", b"broken", b"good"):
            keeper.keep("q", body, "junk")
        wait_until(lambda: kept == [b"good"], "the good one")
    assert [one["event"] for one in said] == ["pool.junk_not_kept"] * 2
