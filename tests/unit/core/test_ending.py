"""Ends that must wait for effects open outside or for branches (DESIGN §6, §8): `Ending`, and what comes after it."""

from collections.abc import Callable
from typing import Any

import pytest

from passdown.broker.core.decide import dues
from passdown.broker.core.parts import Outcome
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, Fenced
from passdown.contracts.plans import END, FAIL, Next
from tests.unit.core import situations
from tests.unit.core.joins import Parent, named, spread
from tests.unit.core.plans import ARGS
from tests.unit.core.spec import Session, like

Way = Callable[[Session], Session]


def cancelled(session: Session) -> Session:
    return session.cancel("enough")


def expired(session: Session) -> Session:
    return session.due("deadline")


def by_ticket(session: Session) -> Session:
    """A person calls it off on the approval that waits beside what is unknown."""
    return session.resolve("cancel", ticket=session.state.tickets[0].ticket_no)


WAYS: dict[str, tuple[Way, str]] = {"cancel": (cancelled, "cancelled"), "deadline": (expired, "expired")}


def with_deadline(situation: Callable[..., Session], **fields: Any) -> Session:
    return situation(deadline_seconds=60.0, **fields)


@pytest.mark.parametrize("way", WAYS)
def test_without_anything_open_outside_a_session_ends_at_once(way: str) -> None:
    act, status = WAYS[way]
    session = act(with_deadline(situations.running))
    session.then("Cancelled" if way == "cancel" else "Expired").stands(status, claim=None)


@pytest.mark.parametrize("way", WAYS)
def test_rule_03_with_a_write_under_way_it_ends_once_the_worker_says_how_it_ended(way: str) -> None:
    act, status = WAYS[way]
    session = act(with_deadline(situations.intended))
    session.then(like(ev.Ending, status=status)).stands("running", ending=status)
    effect = session.state.effects[0].effect_id
    session.report(effect).then("EffectDone", "Cancelled" if way == "cancel" else "Expired").stands(status)


@pytest.mark.parametrize("phase", ["done", "failed"])
def test_the_commit_that_settles_the_last_one_ends_it(phase: Any) -> None:
    session = situations.running()
    first, second = session.run("mail", {"to": "a"}), session.run("mail", {"to": "b"})
    session.cancel().report(first).then("EffectDone").stands("running")
    session.report(second, phase)
    assert isinstance(session.last[-1], ev.Cancelled)


@pytest.mark.parametrize("how", ["lose", "release", "fail"])
def test_a_claim_that_ends_meanwhile_leaves_its_write_to_be_settled(how: str) -> None:
    session = situations.ending()
    getattr(session, how)()
    assert isinstance(session.last[0], ev.EffectUnknown)
    assert isinstance(session.last[-1], ev.PackIssued)
    assert session.last[-1].cause == "settle"
    session.claim().settle(e1="found").then("EffectSettled", "ClaimReleased", "Cancelled").stands("cancelled")


def test_a_settle_pack_in_the_queue_stays_there() -> None:
    session = situations.settle_queued().cancel().then("Ending").stands("queued")
    session.claim().settle(e1="found").then("EffectSettled", "ClaimReleased", "Cancelled")


def test_a_settle_attempt_that_runs_goes_on() -> None:
    session = situations.settle_running().cancel().then("Ending").stands("running")
    session.settle(e1="unsure").then("ClaimReleased", like(ev.TicketOpened, kind="effect")).stands(
        "waiting-human"
    )
    session.resolve("done").then("TicketResolved", "EffectSettled", "Cancelled").stands("cancelled")


def test_a_ticket_on_an_unknown_effect_stays_open() -> None:
    session = situations.effect_ticket().cancel().then("Ending").stands("waiting-human")
    session.resolve("not-done").then("TicketResolved", "EffectSettled", "Cancelled")


def test_truth_that_arrives_meanwhile_ends_it() -> None:
    session = situations.effect_ticket().cancel()
    row = session.state.effects[0]
    session.report(row.effect_id, claim_id=row.claims[0]).then("EffectDone", "TicketWithdrawn", "Cancelled")


def test_a_kept_return_is_dropped() -> None:
    session = situations.kept_return().cancel().then("Ending")
    session.stands("waiting-human", kept=None)
    session.resolve("done").then("TicketResolved", "EffectSettled", "Cancelled")
    assert session.state.outcome
    assert session.state.outcome.output is None


@pytest.mark.parametrize("way", ["cancel", "ticket"])
def test_other_tickets_are_withdrawn(way: str) -> None:
    session = situations.running(approve="approvers")
    session.run("mail", {"to": "a"})
    session.intend("refund", ARGS)
    if way == "cancel":
        session.cancel().then("TicketWithdrawn", "Ending").stands("queued", tickets=[])
    else:
        by_ticket(session).then("TicketResolved", "Ending").stands("queued", tickets=[])
    assert session.pack.cause == "settle"


@pytest.mark.parametrize("name", ["intended", "settle queued", "effect ticket"])
def test_ending_lifts_a_pause(name: str) -> None:
    session = situations.ALL[name]().pause()
    session.cancel()
    assert not session.state.paused
    if name == "settle queued":
        session.then("Ending", like(ev.PackIssued, cause="settle"))


def test_an_unknown_effect_of_a_paused_session_is_settled_once_it_is_ending() -> None:
    session = (
        situations.intended().pause().lose().then("EffectUnknown", "LeaseLost").stands("paused", issued=None)
    )
    session.cancel().then("Ending", like(ev.PackIssued, cause="settle"))


def test_what_a_running_claim_does_not_know_waits_for_the_claim_to_end() -> None:
    session = situations.intended()
    session.report(session.state.effects[0].effect_id, "unknown").cancel().then("Ending").stands("running")
    session.release().then("ClaimReleased", like(ev.PackIssued, cause="settle"))


def test_a_second_call_to_end_it_changes_nothing() -> None:
    session = with_deadline(situations.intended).cancel().cancel().nothing()
    session.tick(100_000).do(cmd.Due(kind="deadline", subject="1", due_at=session.state.deadline or 0))
    session.nothing().stands("running", ending="cancelled")


def test_rule_02_returns_are_fenced_while_ending() -> None:
    session = situations.ending()
    session.refused_and_recorded(Fenced, session.body({"x": 1}))
    session.then("ReturnFenced").stands("running")


@pytest.mark.parametrize("kind", ["checkpoint", "note", "intend"])
def test_nothing_new_is_taken_from_the_claim_while_ending(kind: str) -> None:
    session = situations.ending()
    bodies: dict[str, cmd.Body] = {
        "checkpoint": cmd.Checkpoint(fence=session.fence, number=1, data={}),
        "note": cmd.NoteTools(fence=session.fence, number=1, notes=[]),
        "intend": session.intent("mail", {"to": "a"}),
    }
    session.refuses(Fenced, bodies[kind], match="the session is being cancelled")


def test_an_ending_session_is_neither_paused_nor_retried_nor_answered() -> None:
    session = situations.ending_ticket()
    session.refuses(Conflict, cmd.Pause(seen=1), match="ending")
    session.refuses(Conflict, cmd.Retry(seen=1))
    session.refuses(Conflict, cmd.Answer(step=1, attempt=1, id="why", value=1), match="no longer open")
    session.resume().nothing()


def test_the_reason_is_kept_to_the_end() -> None:
    session = situations.intended().cancel("budget cut")
    session.report(session.state.effects[0].effect_id)
    session.then("EffectDone", like(ev.Cancelled, reason="budget cut"))
    assert session.state.outcome
    assert session.state.outcome.reason == "budget cut"


@pytest.mark.parametrize("name", [name for name in situations.OPEN if not name.startswith("ending")])
def test_a_session_can_be_called_off_wherever_it_stands(name: str) -> None:
    session = situations.ALL[name]().cancel()
    if session.state.ending:
        assert session.state.unfinished() or session.state.undrained()
    else:
        session.stands("cancelled")


@pytest.mark.parametrize(
    "situation",
    [
        situations.queued,
        situations.running,
        situations.backoff,
        situations.waiting_input,
        situations.question_ticket,
        situations.approval,
        situations.failure,
    ],
)
def test_a_deadline_ends_it_also_while_waiting(situation: Callable[..., Session]) -> None:
    session = with_deadline(situation).due("deadline")
    assert isinstance(session.last[-1], ev.Expired)
    session.stands("expired", tickets=[])


def test_a_deadline_ends_a_paused_session() -> None:
    with_deadline(situations.queued).pause().due("deadline").then("Expired").stands("expired")


# -- what is decided, and only waits for branches --


def refuses(parent: Parent) -> Outcome:
    parent.claim().refuse("no", policy="p-7")
    return Outcome(result="refused", reason="no", policy="p-7")


def gives(parent: Parent) -> Outcome:
    parent.claim().done({"sum": 1})
    return Outcome(result="done", output={"sum": 1})


def fails(parent: Parent) -> Outcome:
    parent.claim().fail("boom")
    return Outcome(result="failed", reason="1 attempts did not count; the last: boom")


def by_hand(parent: Parent) -> Outcome:
    parent.claim().escalate().resolve("complete", {"sum": 2})
    return Outcome(result="done", output={"sum": 2})


DECIDED: dict[str, tuple[Callable[[Parent], Outcome], dict[str, Any]]] = {
    "done": (gives, {}),
    "refused": (refuses, {}),
    "refused to the end": (
        lambda parent: Outcome(result="done", output=refuses(parent).output),
        {"on_refused": END},
    ),
    "failed": (fails, {"on_failed": FAIL}),
    "failed to the end": (
        lambda parent: Outcome(result="done", output=fails(parent).output),
        {"on_failed": END},
    ),
    "by hand": (by_hand, {}),
}


@pytest.mark.parametrize("way", DECIDED)
def test_rule_01_what_is_decided_is_not_lost_to_a_deadline_while_branches_end(way: str) -> None:
    act, fields = DECIDED[way]
    parent = spread(named(need="any"), next=Next(), max_attempts=1, deadline_seconds=60.0, **fields)
    expected = act(parent.ends(0).look())
    assert isinstance(parent.last[-1], ev.Ending)
    parent.stands("waiting-join", ending=expected.result, owed=None)
    assert {one.kind for one in dues(parent.state)} == {"branches"}
    parent.opens()
    assert dues(parent.state) == []
    parent.tick(100_000).do(cmd.Due(kind="deadline", subject="1", due_at=parent.state.deadline or 0))
    parent.nothing().cancel().nothing()
    parent.ends(1, "cancelled").ends(2, "cancelled").look().stands(
        expected.result, outcome=expected, kept=None
    )


def test_a_session_that_failed_after_its_branches_can_be_retried() -> None:
    parent = spread(named(need="any"), max_attempts=1, on_failed=FAIL).ends(0).look()
    fails(parent)
    parent.opens().ends(1, "cancelled").ends(2, "cancelled").look().stands("failed")
    parent.retry().then(like(ev.PackIssued, cause="retry", fresh=True)).claim().done().stands(
        "queued", stage="tell"
    )
