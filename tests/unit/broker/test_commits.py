"""What a decision writes: queue, lease, dues and tickets follow the state, and what stays is left alone."""

from typing import Any

import pytest

from passdown.agents.results import Escalate, NeedsInput, Question
from passdown.broker.app import App
from passdown.broker.controller import Controller
from passdown.broker.stores.base import Commit, Enqueue, Lease
from tests.unit.broker.rig import ROLE, Rig, pay, paying, plan, two_stages


@pytest.fixture
def commits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> list[Commit]:
    """All commits of the rig, in order."""
    seen: list[Commit] = []
    inner = rig.store.commit

    def commit(batch: list[Commit], take: Any = None) -> Any:
        seen.extend(batch)
        return inner(batch, take)

    monkeypatch.setattr(rig.store, "commit", commit)
    return seen


def test_opening_enqueues_and_sets_what_is_due(rig: Rig, commits: list[Commit]) -> None:
    session = rig.open(plan(deadline_seconds=60.0, priority=3), key="k")
    (one,) = commits
    assert isinstance(one.queue, Enqueue)
    assert (one.queue.role, one.queue.step, one.queue.attempt, one.queue.priority) == (ROLE, 1, 1, 3)
    assert (one.expected, one.lease, one.tickets) == (0, None, None)
    assert one.dues is not None
    assert [(entry.kind, entry.after_ms) for entry in one.dues] == [("deadline", 60_000)]
    assert (one.row.session_id, one.row.key, one.row.status) == (session.id, "k", "queued")


def test_a_claim_takes_the_pack_off_and_begins_a_lease(rig: Rig, commits: list[Commit]) -> None:
    rig.open(plan(deadline_seconds=60.0))
    rig.claim()
    one = commits[-1]
    assert one.queue == "withdraw"
    assert one.lease == Lease(claim_id="claim-00000001", role=ROLE, lease_ms=10_000)
    assert (one.dues, one.tickets) == (None, None)


def test_what_happens_within_a_claim_leaves_queue_lease_and_dues_alone(
    rig: Rig, commits: list[Commit]
) -> None:
    rig.gateway.register_tools([pay.spec])
    rig.open(paying(deadline_seconds=60.0))
    attempt = rig.claim()
    rig.gateway.checkpoint(attempt.claim, 1, {"at": 1}, {}, [])
    attempt.pay()
    for one in commits[-2:]:
        assert (one.queue, one.lease, one.dues, one.tickets) == (None, None, None, None)


def test_a_return_ends_the_lease_and_enqueues_the_next(rig: Rig, commits: list[Commit]) -> None:
    rig.open(two_stages())
    rig.claim().give()
    one = commits[-1]
    assert isinstance(one.queue, Enqueue)
    assert (one.queue.step, one.queue.attempt, one.lease) == (2, 1, "end")


def test_the_last_return_ends_everything(rig: Rig, commits: list[Commit]) -> None:
    rig.open(plan(deadline_seconds=60.0))
    rig.claim().give()
    assert (commits[-1].queue, commits[-1].lease, commits[-1].dues) == (None, "end", [])
    assert commits[-1].row.status == "done"


def test_a_ticket_has_a_row_while_it_is_open(rig: Rig, commits: list[Commit]) -> None:
    session = rig.open()
    rig.claim().give(Escalate("which?"))
    rows = commits[-1].tickets
    assert rows is not None
    assert [(row.ticket_no, row.kind, row.queue, row.why) for row in rows] == [
        (1, "escalation", "operators", "which?")
    ]
    session.resolve(1, "send-back", "this one")
    assert commits[-1].tickets == []


def test_a_question_to_a_producer_has_none(rig: Rig, commits: list[Commit]) -> None:
    rig.open()
    rig.claim().give(NeedsInput([Question("why", "Why?")]))
    assert commits[-1].tickets is None
    assert commits[-1].row.status == "waiting-input"


def test_a_pause_withdraws_what_is_queued_and_counts_until_then(rig: Rig, commits: list[Commit]) -> None:
    session = rig.open()
    session.pause(for_s=5)
    one = commits[-1]
    assert one.queue == "withdraw"
    assert one.dues is not None
    assert [(entry.kind, entry.after_ms) for entry in one.dues] == [("resume-at", 5_000)]
    assert one.row.status == "paused"


def test_who_is_called_off_is_told_and_who_has_a_write_under_way_keeps_its_lease(
    rig: Rig, commits: list[Commit]
) -> None:
    rig.gateway.register_tools([pay.spec])
    session = rig.open(paying(), key="a")
    rig.claim()
    session.cancel()
    assert commits[-1].lease == "tell"

    other = rig.open(paying(), key="b")
    attempt = rig.claim(claim_id="claim-00000002")
    reply = attempt.pay()
    other.cancel()
    assert (commits[-1].lease, other.status()) == ("cancel", "running")
    rig.gateway.report(attempt.claim, reply.effect_id, "done")
    rig.lose(attempt)
    assert (commits[-1].lease, other.status()) == ("tell", "cancelled")


def test_a_lost_claim_comes_again_alone(rig: Rig, commits: list[Commit]) -> None:
    rig.open()
    rig.lose(rig.claim())
    one = commits[-1]
    assert isinstance(one.queue, Enqueue)
    assert (one.queue.attempt, one.queue.solo, one.lease) == (2, True, "end")


def test_only_what_somebody_is_told_of_is_marked(rig: Rig, commits: list[Commit]) -> None:
    """A reply queue is told the end; an exchange each change of the status, and no more (`core.telling`)."""
    rig.open()
    rig.claim().give()
    assert not any(one.tell for one in commits)
    commits.clear()
    rig.open(two_stages(), reply_to="q")
    rig.claim().give()
    rig.claim(claim_id="claim-00000002").give()
    assert [one.tell for one in commits] == [False, False, False, False, True]


def test_an_exchange_is_told_each_change(rig: Rig, commits: list[Commit]) -> None:
    controller = Controller(rig.store, rig.bells, patience_s=0.0, events_to="events")
    rig.broker.app = App(rig.store, rig.app.transport, rig.bells, controller)
    rig.open(plan())
    attempt = rig.claim()
    rig.gateway.checkpoint(attempt.claim, 1, {"at": 1}, {}, [])
    attempt.give()
    assert [one.tell for one in commits] == [True, True, False, True]
