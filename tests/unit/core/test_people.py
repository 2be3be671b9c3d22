from typing import Any

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, RETURN_BUDGET
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied, NotFound
from passdown.contracts.plans import Next, Plan, Returns, Stage
from passdown.contracts.ticket_events import Resolution
from tests.unit.core import situations
from tests.unit.core.plans import READ, one, stage, two
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, Session, like

NUMBER = {"type": "integer"}


def asked(*names: str, ask: str = "producer", schema: Any = True, **fields: Any) -> Session:
    return Session(two(ask=ask, **fields)).submit().claim().ask(*names, schema=schema)


def say(session: Session, name: str, value: Any = 1, *, step: int = 1, attempt: int = 1) -> cmd.Answer:
    return cmd.Answer(step=step, attempt=attempt, id=name, value=value)


# Questions


def test_needs_input_asks_the_producer_without_a_ticket() -> None:
    session = asked("why")
    session.then("Returned", like(ev.InputRequested, attempt=1, ask="producer"))
    session.stands("waiting-input", tickets=[], owed=None)


def test_needs_input_asks_a_queue_with_a_ticket() -> None:
    session = asked("why", "when", ask="desk")
    session.then(
        "Returned",
        like(ev.InputRequested, ask="desk"),
        like(
            ev.TicketOpened,
            kind="question",
            queue="desk",
            why="why?; when?",
            about="1",
            actions=["answer", "redirect", "cancel"],
        ),
    ).stands("waiting-input")


def test_the_next_attempt_is_issued_when_all_are_answered_and_honours_the_answers() -> None:
    session = asked("why", "when")
    session.answer("when", "now").then(like(ev.InputProvided, id="when", value="now")).stands("waiting-input")
    session.answer("why", "because", BOB).then("InputProvided", like(ev.PackIssued, cause="input", attempt=2))
    told = [(one_.id, one_.attempt, one_.text, one_.value, one_.by) for one_ in session.pack.answers]
    assert told == [("why", 1, "why?", "because", BOB), ("when", 1, "when?", "now", ANN)]


def test_a_second_pause_works_like_the_first() -> None:
    session = asked("why").answer("why", 1).claim().ask("why", "how")
    session.answer("why", 2).stands("waiting-input").answer("how", 3)
    session.then("InputProvided", like(ev.PackIssued, cause="input", attempt=3))
    assert [(one_.attempt, one_.id, one_.value) for one_ in session.pack.answers] == [
        (1, "why", 1),
        (2, "why", 2),
        (2, "how", 3),
    ]


def test_rule_01_an_answer_to_an_earlier_round_answers_no_later_one() -> None:
    """Answers are keyed by the question's instance, never by its place or its name alone."""
    session = asked("why").answer("why", 1).claim().ask("why")
    session.refuses(Conflict, say(session, "why", 2, attempt=1), ANN, match="is answered")
    session.stands("waiting-input")


def test_rule_01_an_answer_to_an_earlier_step_answers_no_later_one() -> None:
    plan = Plan(name="p", start="work", stages={"work": stage(next=Next(to="work"))})
    session = Session(plan).submit().claim().ask("why").answer("why", 1).claim().done().claim().ask("why")
    session.refuses(
        NotFound, say(session, "why", step=1), ANN, match="there is no open question '1/why of step 1'"
    )
    session.answer("why", 2).then("InputProvided", "PackIssued")
    ids = {cmd.command_id(session.id, say(session, "why", step=step), ANN) for step in (1, 2)}
    assert len(ids) == 2, "the second answer would be taken for a repetition of the first"


def test_an_answer_must_name_its_question() -> None:
    session = asked("why")
    session.refuses(NotFound, say(session, "when"), ANN, match="there is no open question '1/when'")
    session.refuses(NotFound, say(session, "why", attempt=2), ANN, match="open are: 1/why")


def test_whoever_comes_second_is_told_who_answered_and_what() -> None:
    session = asked("why", "when").answer("why", {"so": 1}, BOB)
    error = session.refuses(Conflict, say(session, "why"), CLERK)
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (BOB, '{"so":1}')


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        ("three", ContractError, "/why"),
        (float("nan"), ContractError, "NaN"),
        ("x" * RETURN_BUDGET, BudgetExceeded, "answer"),
    ],
)
def test_rule_11_an_answer_that_does_not_fit_changes_nothing(value: Any, kind: Any, problem: str) -> None:
    session = asked("why", schema=NUMBER)
    session.refuses(kind, say(session, "why", value), ANN, match=problem)
    session.answer("why", 3)


def test_rule_12_an_answer_that_no_pack_could_carry_is_a_ticket_and_is_not_left_out() -> None:
    session = asked("why").answer("why", "x" * (RETURN_BUDGET - 10))
    session.then("InputProvided", like(ev.TicketOpened, kind="budget")).stands("waiting-human")


def test_questions_on_a_queue_are_answered_by_name_all_at_once() -> None:
    session = asked("why", "when", ask="desk")
    for value in ({"why": 1}, {"why": 1, "when": 2, "who": 3}, [1, 2], None):
        session.refuses(
            ContractError, session.resolution("answer", value), BOB, match="expected an object with why, when"
        )
    session.resolve("answer", {"why": 1, "when": 2})
    session.then(
        "InputProvided",
        "InputProvided",
        like(ev.TicketResolved, resolution="answer"),
        like(ev.PackIssued, cause="input"),
    )


def test_questions_on_a_queue_may_be_answered_one_by_one_too() -> None:
    session = asked("why", "when", ask="desk")
    session.answer("why", 1).then("InputProvided").answer("when", 2, BOB)
    session.then("InputProvided", like(ev.TicketResolved, resolution="answer"), "PackIssued").stands(
        "queued", tickets=[]
    )


def test_a_ticket_that_was_answered_in_part_asks_for_the_rest() -> None:
    session = asked("why", "when", ask="desk").answer("why", 1)
    session.resolve("answer", {"when": 2}).then("InputProvided", "TicketResolved", "PackIssued")


def test_a_question_may_be_redirected_and_is_forgotten_then() -> None:
    session = asked("why", ask="desk", next=Next(to="tell"))
    session.resolve("redirect", "tell").then(
        "TicketResolved", like(ev.StageEntered, stage="tell"), "PackIssued"
    )
    session.refuses(NotFound, say(session, "why"), ANN)


def test_a_session_that_is_over_takes_no_answer() -> None:
    session = asked("why").cancel()
    session.refuses(Conflict, say(session, "why"), ANN, match="the session is cancelled")


def test_answers_wait_for_a_paused_session() -> None:
    session = asked("why").pause().answer("why", 1).then("InputProvided").stands("paused", issued=None)
    session.resume().then("Resumed", like(ev.PackIssued, cause="input"))


# Tickets


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        ("escalation", ["complete", "send-back", "redirect", "cancel"]),
        ("failure", ["complete", "send-back", "redirect", "cancel"]),
        ("question ticket", ["answer", "redirect", "cancel"]),
        ("approval", ["approve", "deny", "edit", "cancel"]),
        ("effect ticket", ["done", "not-done"]),
        ("human stage", ["complete", "redirect", "cancel"]),
    ],
)
def test_rule_08_a_ticket_allows_what_it_names_and_nothing_else(name: str, actions: list[Resolution]) -> None:
    session = situations.ALL[name]()
    assert session.state.tickets[-1].actions == actions
    every: list[Resolution] = [
        "answer", "approve", "deny", "edit", "complete", "send-back", "redirect", "cancel", "done", "not-done",
    ]  # fmt: skip
    for resolution in every:
        if resolution not in actions:
            session.refuses(Denied, session.resolution(resolution, {}), BOB, match="it allows")


def test_rule_08_the_loser_of_two_decisions_is_told_who_won_and_what_was_decided() -> None:
    session = situations.failure().resolve("send-back", "again", BOB)
    error = session.refuses(Conflict, session.resolution("cancel", ticket=1), CLERK, match="no longer open")
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (BOB, "send-back")


def test_a_ticket_that_was_withdrawn_says_why() -> None:
    session = situations.approval().cancel()
    error = session.refuses(Conflict, session.resolution("approve", ticket=1), BOB)
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (ANN, "withdrawn: cancelled")


def test_rule_12_of_tickets_long_gone_only_the_log_knows_who_decided() -> None:
    session = situations.failure()
    for _ in range(17):
        session.resolve("send-back", "again").claim().fail()
    assert len(session.state.decided) == 16
    session.refuses(
        Conflict, session.resolution("cancel", ticket=1), BOB, match="see the log for who decided"
    )


def test_rule_08_a_decision_carries_the_version_of_its_ticket() -> None:
    session = situations.failure()
    stale = cmd.Resolve(ticket_no=1, version=2, resolution="cancel")
    session.refuses(Conflict, stale, BOB, match="is at version 1, not 2")


@pytest.mark.parametrize("number", [0, -1, 2])
def test_a_ticket_that_was_never_opened_does_not_exist(number: int) -> None:
    session = situations.failure()
    session.refuses(NotFound, session.resolution("cancel", ticket=number), BOB)


def test_complete_gives_the_output_of_the_stage() -> None:
    session = situations.escalation().resolve("complete", {"go": 2}, note="done by hand")
    session.then(
        like(ev.TicketResolved, resolution="complete", value={"go": 2}, note="done by hand"),
        like(ev.StageEntered, stage="tell", reason="done"),
        "PackIssued",
    )
    assert session.pack.inputs["go"] == 2


def test_complete_of_the_last_stage_ends_the_session() -> None:
    session = Session(one()).submit().claim().escalate().resolve("complete", {"go": 2})
    session.then("TicketResolved", "Completed").stands("done")
    assert session.state.outcome
    assert session.state.outcome.output == {"go": 2}


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "JSON object"), ([], "JSON object"), ({"go": "x"}, "/go"), ({"go": 9}, "`next`")],
)
def test_rule_11_an_output_that_does_not_fit_the_stage_is_refused_from_people_too(
    value: Any, problem: str
) -> None:
    schema = {"type": "object", "properties": {"go": NUMBER}, "required": ["go"]}
    session = (
        Session(two(returns=Returns(schema=schema), next=Next(field="go", cases={"1": "tell"})))
        .submit()
        .claim()
    )
    session.escalate()
    session.refuses(ContractError, session.resolution("complete", value), BOB, match=problem)
    session.resolve("complete", {"go": 1})


def test_rule_12_outputs_of_people_do_not_fill_the_state() -> None:
    stages = {"ask": Stage(queue="desk", next=Next(to="ask"))}
    session = Session(Plan(name="p", start="ask", stages=stages)).submit()
    session.resolve("complete", {"a": "x" * (60 * KIB)}).resolve("complete", {"b": "x" * (60 * KIB)})
    body = session.resolution("complete", {"c": "x" * (60 * KIB)})
    session.refuses(BudgetExceeded, body, BOB, match="session inputs with this output")
    session.resolve("complete", {"a": 1, "c": "x" * (60 * KIB)})


def test_send_back_gives_feedback_and_the_step_is_done_again() -> None:
    session = situations.escalation().resolve("send-back", {"hint": "look at page 2"}, note="please")
    session.then("TicketResolved", like(ev.PackIssued, cause="rework", attempt=2))
    (told,) = session.pack.feedback
    assert (told.kind, told.text) == ("sent-back", '{"hint":"look at page 2"}\nplease')


@pytest.mark.parametrize(
    ("value", "note", "text"), [("mind the date", "", "mind the date"), (None, "hm", "hm")]
)
def test_what_is_sent_back_reads_as_it_was_written(value: Any, note: str, text: str) -> None:
    session = situations.escalation().resolve("send-back", value, note=note)
    assert session.pack.feedback[0].text == text


def test_sending_back_without_a_word_is_refused() -> None:
    session = situations.escalation()
    session.refuses(ContractError, session.resolution("send-back"), BOB, match="says what to do better")


@pytest.mark.parametrize("target", ["tell", "work"])
def test_redirect_leads_where_the_plan_allows(target: str) -> None:
    session = situations.escalation().resolve("redirect", target)
    session.then(
        "TicketResolved", like(ev.StageEntered, stage=target, reason="redirect", step=2), "PackIssued"
    )


def test_redirect_leads_back_to_a_stage_that_was_seen() -> None:
    session = Session(two(), READ).submit().claim().done().claim().escalate()
    session.resolve("redirect", "work").then(
        "TicketResolved", like(ev.StageEntered, stage="work"), "PackIssued"
    )


@pytest.mark.parametrize("target", ["end", "nowhere", "tell", None, 1, ["tell"]])
def test_rule_08_redirect_leads_nowhere_else(target: Any) -> None:
    session = (
        Session(Plan(name="p", start="work", stages={"work": stage(), "tell": stage()})).submit().claim()
    )
    session.escalate()
    session.refuses(Denied, session.resolution("redirect", target), BOB, match="the plan allows work")


def test_cancel_ends_the_session() -> None:
    situations.escalation().resolve("cancel", note="no more").then(
        "TicketResolved", like(ev.Cancelled, reason="no more")
    )


def test_rule_08_people_act_under_the_same_session_and_are_named_in_its_log() -> None:
    from passdown.contracts.codec import decode

    session = situations.escalation().resolve("send-back", "better", BOB)
    resolved = next(
        one_
        for one_ in (decode(raw, ev.Logged) for raw in session.log)
        if isinstance(one_.event, ev.TicketResolved)
    )
    assert resolved.by == BOB
    assert session.pack.session_id == session.id


@pytest.mark.parametrize("name", ["escalation", "failure", "human stage"])
def test_what_a_person_decides_while_paused_is_issued_once_resumed(name: str) -> None:
    session = (
        situations.ALL[name]().pause().resolve("redirect", "work").then("TicketResolved", "StageEntered")
    )
    session.stands("paused", issued=None).resume().then("Resumed", "PackIssued")


def test_a_note_of_any_length_fits() -> None:
    session = situations.escalation().resolve("send-back", "x", note="n" * 1_000_000)
    assert len(session.pack.feedback[0].text) < 2_100


def test_an_agent_is_no_person_by_being_one_of_the_principals() -> None:
    """Who may resolve is decided by `authorize` in the shell; what the core holds is four eyes on effects."""
    situations.escalation().resolve("send-back", "x", AGENT).then("TicketResolved", "PackIssued")
