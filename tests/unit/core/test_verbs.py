from typing import Any

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, ContractError, Denied, PlanError
from passdown.contracts.plans import FAIL, Grant, People, Plan, Stage
from tests.unit.core import situations
from tests.unit.core.plans import MAIL, one
from tests.unit.core.spec import ANN, BOB, START, Session, like

# Pause and resume (the table in test_table says what each leads to everywhere)


def test_a_pause_withdraws_a_queued_pack_and_reissues_it_with_cause_resume() -> None:
    session = situations.queued()
    digest = session.pack.digest
    session.pause().then(like(ev.Paused, until=None)).stands("paused", issued=None)
    session.resume().then("Resumed", like(ev.PackIssued, cause="resume", attempt=2))
    assert session.pack.digest != digest


def test_a_running_claim_goes_on_and_what_it_would_issue_waits() -> None:
    session = situations.running().pause().stands("paused").done({"x": 1})
    session.then("Returned", "StageEntered").stands("paused", step=2, issued=None)
    session.resume().then("Resumed", like(ev.PackIssued, cause="first", step=2))


@pytest.mark.parametrize("how", ["fail", "lose", "release"])
def test_a_claim_that_ends_without_a_return_while_paused_is_retried_afterwards(how: str) -> None:
    session = situations.running().pause()
    getattr(session, how)()
    session.stands("paused", issued=None).resume().then("Resumed", like(ev.PackIssued, cause="retry"))


def test_a_session_that_ends_while_paused_is_not_paused_any_more() -> None:
    Session(one()).submit().claim().pause().done().then("Returned", "Completed").stands("done", paused=False)


def test_attempts_used_up_while_paused_become_a_ticket_once_resumed() -> None:
    session = (
        Session(one(max_attempts=1)).submit().claim().pause().fail().then("ReturnRejected").stands("paused")
    )
    session.resume().then("Resumed", like(ev.TicketOpened, kind="failure"))


def test_a_pause_may_end_by_itself() -> None:
    session = situations.queued().pause(5_000).then(like(ev.Paused, until=START + 5_000))
    session.due("resume-at").then("Resumed", "PackIssued").stands("queued", resume_at=None)


def test_a_pause_that_was_ended_by_hand_does_not_end_the_next_one() -> None:
    session = situations.queued().pause(5_000).resume().pause(9_000)
    session.tick(6_000).do(cmd.Due(kind="resume-at", subject="", due_at=START + 5_000))
    session.nothing().stands("paused")


@pytest.mark.parametrize("for_ms", [0, -1])
def test_rule_11_a_pause_of_no_time_is_refused(for_ms: int) -> None:
    session = situations.queued()
    session.refuses(ContractError, cmd.Pause(seen=1, for_ms=for_ms), match="1 ms or longer")


def test_a_retry_that_waits_its_backoff_waits_on_after_a_pause() -> None:
    session = situations.backoff().pause().tick(20_000).resume()
    session.then("Resumed", like(ev.PackIssued, cause="retry"))
    session = situations.backoff().pause().resume().then("Resumed").stands("queued", issued=None)
    session.due("retry-at").then("PackIssued")


def test_a_person_s_stage_is_paused_and_resumed_without_a_pack() -> None:
    session = (
        situations.human_stage().pause().stands("paused").resume().then("Resumed").stands("waiting-human")
    )
    session.resolve("complete", {}).then("TicketResolved", "StageEntered", "PackIssued")


def test_a_settle_pack_is_reissued_as_a_settle_pack() -> None:
    session = situations.settle_queued().pause().resume().then("Resumed", like(ev.PackIssued, cause="settle"))
    session.claim().settle(e1="found").then(
        "EffectSettled", "ClaimReleased", like(ev.PackIssued, cause="retry")
    )


def test_reasons_are_kept_and_cut() -> None:
    session = situations.queued()
    session.do(cmd.Pause(seen=1, reason="lunch" + "!" * 10_000))
    (event,) = session.last
    assert isinstance(event, ev.Paused)
    assert event.reason.startswith("lunch!")
    assert len(event.reason) < 600


def test_a_reason_no_one_can_encode_is_made_visible() -> None:
    session = situations.queued().cancel("\ud800")
    session.then(like(ev.Cancelled, reason="\\ud800"))


# Retry


def retry(session: Session) -> cmd.Retry:
    return cmd.Retry(seen=session.state.seq)


def test_retry_reopens_a_failed_session_with_its_failures_forgotten() -> None:
    session = Session(one(max_attempts=2, on_failed=FAIL, recovery="continue")).submit()
    session.claim().checkpoint({"half": 1}).fail("one").claim().fail("two").stands("failed")
    session.retry().then(like(ev.PackIssued, cause="retry", attempt=3, fresh=True)).stands(
        "queued", failures=0, outcome=None
    )
    assert [told.text for told in session.pack.feedback] == ["one", "two"]
    assert session.pack.snapshot
    session.claim().fail().then("ReturnRejected", "PackIssued").claim().fail().then(
        "ReturnRejected", "Failed"
    )


def test_retry_cuts_a_backoff_short() -> None:
    session = situations.backoff().retry()
    session.then(like(ev.PackIssued, cause="retry")).stands("queued", failures=0)


@pytest.mark.parametrize("name", ["failure", "escalation"])
def test_retry_withdraws_the_ticket_that_waited(name: str) -> None:
    session = situations.ALL[name]().retry()
    session.then(like(ev.TicketWithdrawn, why="retried by an operator"), "PackIssued").stands(
        "queued", tickets=[]
    )


@pytest.mark.parametrize("name", ["escalation", "failure"])
def test_rule_08_retry_is_no_way_round_a_ticket_that_the_initiator_must_not_decide(name: str) -> None:
    session = situations.ALL[name](people=People(exclude_initiator=True))
    session.refuses(Denied, retry(session), ANN, match="the plan leaves ticket 1 to others")
    session.do(retry(session), BOB)
    session.then("TicketWithdrawn", "PackIssued")


def test_whoever_must_not_decide_on_what_they_submitted_may_still_call_it_off() -> None:
    session = situations.failure(people=People(exclude_initiator=True))
    session.pause().resume().cancel().then("TicketWithdrawn", "Cancelled")


def test_retry_without_its_tool_says_what_to_register() -> None:
    session = Session(one(tools=[Grant(tool="mail")], max_attempts=1), MAIL).submit().claim().fail()
    session.registered.clear()
    session.refuses(PlanError, retry(session), match="stage work needs mail: register it, then retry")
    session.stands("waiting-human")
    session.register(MAIL)
    session.retry().then("TicketWithdrawn", "PackIssued")


def test_retry_after_the_deadline_is_refused() -> None:
    session = Session(one(max_attempts=1, on_failed=FAIL, deadline_seconds=60.0)).submit().claim().fail()
    session.tick(60_000).refuses(Conflict, retry(session), match="the stage's deadline has passed")


def test_retry_before_the_deadline_keeps_it() -> None:
    session = (
        Session(one(max_attempts=1, on_failed=FAIL, deadline_seconds=60.0)).submit().claim().fail().retry()
    )
    session.due("deadline").then("Expired")


def test_retry_during_a_settle_attempt_is_refused_also_once_there_is_nothing_to_settle() -> None:
    session = situations.settle_running()
    session.refuses(Conflict, retry(session), match="not known what happened outside")
    row = session.state.effects[0]
    session.report(row.effect_id, claim_id=row.claims[0])
    session.refuses(Conflict, retry(session), match="there is nothing to retry")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("queued", "the session is queued"),
        ("running", "the session is running"),
        ("waiting-input", "the session is waiting-input"),
        ("approval", "the session is waiting-human"),
        ("paused", "the session is paused"),
        ("effect ticket", "settle that first"),
        ("human stage", "with a person"),
        ("done", "the session is done"),
        ("cancelled", "the session is cancelled"),
    ],
)
def test_retry_says_why_there_is_nothing_to_retry(name: str, why: str) -> None:
    session = situations.ALL[name]()
    session.refuses(Conflict, retry(session), match=why)


def test_retry_of_a_paused_backoff_is_refused() -> None:
    session = situations.backoff().pause()
    session.refuses(Conflict, retry(session), match="the session is paused")


# Cancel


@pytest.mark.parametrize("name", situations.OVER)
@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_what_is_over_cannot_be_stopped_or_resumed(name: str, verb: str) -> None:
    session = situations.OVER[name]()
    bodies: dict[str, Any] = {
        "cancel": cmd.Cancel(seen=1),
        "pause": cmd.Pause(seen=1),
        "resume": cmd.Resume(seen=1),
    }
    error = session.refuses(Conflict, bodies[verb], match=f"cannot {verb}: the session has ended")
    assert isinstance(error, Conflict)
    assert error.decided == name


def test_cancelling_without_a_reason_is_possible() -> None:
    situations.queued().cancel().then(like(ev.Cancelled, reason="cancelled"))


def test_rule_01_a_worker_of_a_cancelled_session_is_fenced_and_changes_nothing() -> None:
    from passdown.contracts.errors import Fenced

    session = situations.running().cancel()
    session.refuses(
        Fenced,
        cmd.Checkpoint(fence=session.fence, number=1, data={}),
        match="none (the session is cancelled)",
    )
    session.refused_and_recorded(Fenced, session.body())
    session.stands("cancelled")


def test_a_session_whose_first_stage_is_a_person_s_is_cancelled_with_its_ticket() -> None:
    plan = Plan(name="p", start="ask", stages={"ask": Stage(queue="desk")})
    Session(plan).submit().cancel().then("TicketWithdrawn", "Cancelled").stands("cancelled", tickets=[])
