import pytest

from passdown.broker.core.recovery import retry_at
from passdown.contracts import events as ev
from passdown.contracts.plans import FAIL, Backoff, Level, Stage
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, REFUND, one, two
from tests.unit.core.spec import START, Session, like


@pytest.mark.parametrize(
    ("failures", "seconds"),
    [(1, 1.0), (2, 2.0), (3, 4.0), (9, 256.0), (10, 300.0), (65, 300.0), (10**6, 300.0)],
)
def test_the_wait_doubles_up_to_its_most(failures: int, seconds: float) -> None:
    assert retry_at(Stage(), failures, START) == START + int(seconds * 1000)


def test_the_wait_is_what_the_plan_says() -> None:
    stage = Stage(backoff=Backoff(first_seconds=0.5, factor=3.0, most_seconds=4.0))
    assert [retry_at(stage, n, 0) for n in (1, 2, 3, 4)] == [500, 1_500, 4_000, 4_000]


def test_a_constant_or_absent_wait_is_possible() -> None:
    assert [retry_at(Stage(backoff=Backoff(factor=1.0)), n, 0) for n in (1, 100)] == [1_000, 1_000]
    assert retry_at(Stage(backoff=Backoff(first_seconds=0.0)), 100, 0) == 0


def test_a_retry_waits_its_backoff_as_queued_and_is_issued_by_its_due_entry() -> None:
    slow = Backoff(first_seconds=10.0)
    session = Session(one(backoff=slow)).submit().claim().fail()
    session.then(like(ev.ReturnRejected, retry_at=START + 10_000)).stands("queued", issued=None)
    session.due("retry-at").then(like(ev.PackIssued, cause="retry", attempt=2))
    assert session.at == START + 10_000
    session.claim().lose().then(like(ev.LeaseLost, retry_at=START + 30_000))


# recovery


@pytest.mark.parametrize("how", ["lose", "fail", "release"])
def test_rerun_runs_it_again_from_the_top(how: str) -> None:
    session = Session(one(recovery="rerun")).submit().claim().checkpoint({"half": 1}, {"mail:a": 1})
    getattr(session, how)()
    assert isinstance(session.last[-1], ev.PackIssued)
    assert session.last[-1].from_top
    assert session.pack.snapshot is None
    assert session.state.snapshot is None


@pytest.mark.parametrize("how", ["lose", "fail", "release"])
def test_continue_runs_it_again_from_the_last_snapshot(how: str) -> None:
    session = Session(one(recovery="continue")).submit().claim().checkpoint({"half": 1}, {"mail:a": 1})
    getattr(session, how)()
    assert session.pack.snapshot
    assert (session.pack.snapshot.data, session.pack.snapshot.counters) == ({"half": 1}, {"mail:a": 1})
    # Another lost attempt, which checkpointed nothing, starts from the same place.
    session.claim()
    getattr(session, how)()
    assert session.pack.snapshot
    assert session.pack.snapshot.data == {"half": 1}


@pytest.mark.parametrize("recovery", ["rerun", "continue", "human"])
def test_an_attempt_that_goes_on_after_people_keeps_the_snapshot_whatever_the_recovery(recovery: str) -> None:
    session = Session(one(recovery=recovery)).submit().claim().checkpoint({"half": 1})
    session.ask("why").answer("why", 1).then(
        "InputProvided", like(ev.PackIssued, cause="input", from_top=False)
    )
    assert session.pack.snapshot
    session.pause().resume()
    assert session.pack.cause == "resume"
    assert session.pack.snapshot


def test_human_leaves_a_lost_attempt_to_a_person() -> None:
    session = Session(one(recovery="human", escalation=[Level(queue="leads")])).submit().claim().lose()
    session.then("LeaseLost", like(ev.TicketOpened, kind="failure", queue="leads")).stands("waiting-human")
    session.resolve("send-back", "try again").then("TicketResolved", like(ev.PackIssued, cause="rework"))


@pytest.mark.parametrize("how", ["fail", "release"])
def test_human_is_about_lost_attempts_only(how: str) -> None:
    session = Session(one(recovery="human")).submit().claim()
    getattr(session, how)()
    assert session.pack.cause == "retry"


def test_human_decides_once_the_unknown_effects_are_settled() -> None:
    """The settle attempt does not make it an ordinary retry."""
    session = situations.intended(recovery="human").lose()
    session.then("EffectUnknown", "LeaseLost", like(ev.PackIssued, cause="settle"))
    session.claim().settle(e1="found").then(
        "EffectSettled", "ClaimReleased", like(ev.TicketOpened, kind="failure")
    )


def test_human_decides_also_where_a_person_settled_the_effect() -> None:
    session = situations.effect_ticket(recovery="human")
    session.resolve("done").then("TicketResolved", "EffectSettled", like(ev.TicketOpened, kind="failure"))


def test_the_backoff_of_a_lost_attempt_outlives_its_settling() -> None:
    session = situations.intended(backoff=Backoff(first_seconds=10.0)).lose()
    session.claim().settle(e1="found").then("EffectSettled", "ClaimReleased").stands("queued", issued=None)
    session.due("retry-at").then(like(ev.PackIssued, cause="retry"))
    assert session.at == START + 10_000


# max_attempts


@pytest.mark.parametrize(
    ("on_failed", "last", "status"),
    [(None, "TicketOpened", "waiting-human"), (FAIL, "Failed", "failed"), ("tell", "PackIssued", "queued")],
)
def test_what_follows_when_attempts_are_used_up(on_failed: str | None, last: str, status: str) -> None:
    session = Session(two(max_attempts=3, on_failed=on_failed)).submit()
    session.claim().lose().claim().fail("boom").claim().fail("again")
    assert type(session.last[-1]).__name__ == last
    session.stands(status)
    if on_failed is None:
        assert session.state.tickets[0].why == "3 attempts did not count; the last: again"
    if on_failed == FAIL:
        assert session.state.outcome
        assert session.state.outcome.reason == "3 attempts did not count; the last: again"
    if on_failed == "tell":
        assert session.state.stage == "tell"


def test_rounds_of_questions_are_not_failures() -> None:
    session = Session(one(max_attempts=1)).submit()
    for n in range(10):
        session.claim().ask(f"q{n}").answer(f"q{n}", n)
    session.stands("queued", failures=0, attempt=11)


def test_a_pause_is_no_failure() -> None:
    session = Session(one(max_attempts=1)).submit()
    for _ in range(5):
        session.pause().resume()
    session.stands("queued", failures=0, attempt=6)


def test_sending_back_forgives_the_failures_before() -> None:
    """Else the next failure would give up at once."""
    session = Session(one(max_attempts=2)).submit().claim().fail().claim().fail()
    session.then("ReturnRejected", "TicketOpened")
    session.resolve("send-back", "mind the date").stands("queued", failures=0)
    session.claim().fail().then("ReturnRejected", like(ev.PackIssued, cause="retry"))
    session.claim().fail().then("ReturnRejected", "TicketOpened")


def test_a_worker_that_dies_each_time_is_given_up_and_its_packs_run_alone() -> None:
    session = Session(one(max_attempts=3)).submit()
    solo: list[bool] = []
    while session.state.issued:
        solo.append(session.state.issued.solo)
        session.claim().lose()
    assert solo == [False, True, True]
    session.stands("waiting-human")


def test_a_pack_that_killed_its_worker_once_stays_solo_whoever_forgives_it() -> None:
    session = Session(one(max_attempts=1)).submit().claim().lose()
    session.resolve("send-back", "again").then("TicketResolved", like(ev.PackIssued, solo=True))
    session = Session(one(max_attempts=1)).submit().claim().lose().retry()
    session.then("TicketWithdrawn", like(ev.PackIssued, solo=True))


@pytest.mark.parametrize("how", ["input", "human"])
def test_a_pack_that_comes_back_with_an_answer_does_not_run_alone(how: str) -> None:
    """What was asked of somebody and came back is new work, not the pack that was lost."""
    session = situations.running(approve="approvers").lose().claim()
    if how == "input":
        session.ask("why").answer("why", 1)
    else:
        session.intend("refund", ARGS)
        session.resolve("approve")
    assert (session.pack.cause, session.state.lost) == (how, 1)
    assert session.state.issued
    assert not session.state.issued.solo
    session.claim().fail()
    assert session.state.issued.solo


def test_lost_settle_attempts_count_and_in_the_end_a_person_says_what_happened() -> None:
    session = situations.intended(max_attempts=2).lose()
    session.claim().lose().then("LeaseLost", like(ev.PackIssued, cause="settle", solo=True))
    session.claim().lose().then("LeaseLost", like(ev.TicketOpened, kind="effect")).stands(
        "waiting-human", failures=3, settles_lost=2
    )
    session.resolve("not-done").then("TicketResolved", "EffectSettled", like(ev.TicketOpened, kind="failure"))


def test_a_settle_attempt_that_is_released_is_tried_again() -> None:
    session = situations.settle_running().release()
    session.then("ClaimReleased", like(ev.PackIssued, cause="settle")).stands("queued", failures=1)


def test_causes_are_what_they_say() -> None:
    causes = [one.cause for one in every_cause().events if isinstance(one, ev.PackIssued)]
    assert causes == ["first", "retry", "input", "human", "resume", "settle", "retry", "rework"]


def every_cause() -> Session:
    grants = situations.writing("approvers").stages["work"].tools
    session = Session(one(tools=grants, max_attempts=3), REFUND, situations.MAIL).submit().claim()
    session.fail().claim().ask("why").answer("why", 1).claim()
    session.intend("refund", ARGS)
    session.resolve("approve").pause().resume().claim()
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="found").claim().escalate().resolve("send-back", "better")
    return session
