from passdown.broker.core.bounds import ANSWERS_BYTES
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB
from tests.unit.core import situations
from tests.unit.core.plans import one
from tests.unit.core.spec import BOB, Session, like


def test_answers_of_earlier_rounds_stay_as_far_as_their_share_goes() -> None:
    session = Session(one()).submit().claim()
    for n in range(4):
        session.ask(f"q{n}").answer(f"q{n}", "x" * (4 * KIB)).claim()
    session.ask("last")
    kept = [asked.id for asked in session.state.questions]
    assert kept == ["q2", "q3", "last"]
    assert 2 * 4 * KIB < ANSWERS_BYTES <= 3 * 4 * KIB
    assert session.state.left_out == 2


def test_an_answer_says_by_whom() -> None:
    session = situations.waiting_input().answer("why", 1, BOB)
    (answered, open_) = session.state.questions
    assert (answered.by, answered.value, answered.answered) == (BOB, 1, True)
    assert (open_.by, open_.answered) == ("", False)


def test_completing_puts_the_output_in_the_place_of_what_was_owed() -> None:
    session = situations.escalation().pause()
    session.resolve("complete", {"by": "hand"}).then("TicketResolved", "StageEntered").stands(
        "paused", step=2
    )
    assert session.state.data["by"] == "hand"


def test_a_ticket_that_decides_takes_the_place_of_the_next_pack() -> None:
    session = situations.failure().stands("waiting-human", owed=None)
    session.resolve("send-back", "x").then("TicketResolved", like(ev.PackIssued, cause="rework"))


def test_redirecting_forgets_the_questions_of_the_step() -> None:
    session = situations.question_ticket().answer("why", 1).resolve("redirect", "work")
    session.then("TicketResolved", "StageEntered", "PackIssued").stands("queued", questions=[])
    assert session.pack.answers == []


def test_feedback_keeps_its_order_and_says_which_attempt() -> None:
    session = situations.running(max_attempts=9).fail("one").claim().lose().claim().escalate()
    session.resolve("send-back", "three")
    told = [(item.attempt, item.kind, item.text[:5]) for item in session.pack.feedback]
    assert told == [(1, "error", "one"), (2, "lost", "the w"), (3, "sent-back", "three")]
