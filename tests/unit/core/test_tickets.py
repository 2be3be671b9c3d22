import pytest

from passdown.contracts import events as ev
from passdown.contracts.plans import Level
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, one
from tests.unit.core.spec import BOB, Session, like


@pytest.mark.parametrize(
    ("name", "queue"),
    [
        ("escalation", "leads"),
        ("failure", "operators"),
        ("question ticket", "desk"),
        ("approval", "approvers"),
        ("effect ticket", "operators"),
        ("human stage", "desk"),
    ],
)
def test_a_ticket_is_on_the_plan_s_queue_else_the_first_of_the_path_else_the_operators(
    name: str, queue: str
) -> None:
    assert situations.ALL[name]().state.tickets[-1].queue == queue


def test_a_changed_mind_goes_to_the_escalation_path() -> None:
    session = situations.running(escalation=[Level(queue="leads")])
    session.report(session.run("refund", ARGS)).lose().claim()
    session.intend("refund", {**ARGS, "cents": 1})
    session.then("EffectProposed", like(ev.TicketOpened, kind="approval", queue="leads"))


def test_tickets_are_numbered_within_their_session_and_never_again() -> None:
    session = situations.failure()
    for number in (2, 3, 4):
        session.resolve("send-back", "again").claim().fail()
        assert session.state.tickets[0].ticket_no == number
    session.stands("waiting-human", tickets_opened=4)


def test_a_ticket_stands_in_its_cause_s_commit() -> None:
    session = Session(one(max_attempts=1)).submit().claim().lose()
    session.then("LeaseLost", "TicketOpened")


def test_who_ended_the_last_tickets_and_how_is_known() -> None:
    session = situations.failure().resolve("send-back", "again", BOB).claim().fail().cancel()
    assert [(one_.ticket_no, one_.by, one_.how) for one_ in session.state.decided] == [
        (1, BOB, "send-back"),
        (2, "user:ann", "withdrawn: cancelled"),
    ]


def test_one_effect_is_asked_about_once() -> None:
    session = situations.running()
    effect = session.run("refund", ARGS)
    session.report(effect)
    for _ in range(3):
        session.report(effect, "failed", error="it did not")
    assert len(session.state.tickets) == 1


def test_moving_on_withdraws_what_people_were_asked_about_the_stage_but_not_about_effects() -> None:
    session = situations.disputed().escalate()
    assert [ticket.kind for ticket in session.state.tickets] == ["effect", "escalation"]
    session.resolve("redirect", "tell", ticket=2).then("TicketResolved", "StageEntered")
    assert [ticket.kind for ticket in session.state.tickets] == ["effect"]


def test_a_long_reason_is_cut_in_the_ticket_and_whole_in_the_event() -> None:
    session = situations.running().escalate("r" * 10_000)
    assert len(session.state.tickets[0].why) < 540
    (event,) = (one_ for one_ in session.last if isinstance(one_, ev.Escalated))
    assert len(event.reason) == 10_000
