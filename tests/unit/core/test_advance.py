from typing import Any

from passdown.contracts import events as ev
from passdown.contracts.codec import KIB
from passdown.contracts.errors import BudgetExceeded, ContractError
from passdown.contracts.plans import Grant, Level, Next, Plan, Stage
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, READ, one, stage, two, writing
from tests.unit.core.spec import START, Session, like

NEEDS_B = {"type": "object", "required": ["b"]}


def loop(**fields: Any) -> Plan:
    """Two stages that lead to each other for ever."""
    stages = {"ping": stage(**{"next": Next(to="pong"), **fields}), "pong": stage(next=Next(to="ping"))}
    return Plan(name="loop", start="ping", stages=stages)


def round_trip(session: Session) -> Session:
    return session.claim().done().claim().done()


# Moving on


def test_inputs_are_overlaid_by_the_outputs_of_finished_stages_in_step_order() -> None:
    session = Session(loop()).submit({"a": 0, "b": 0})
    session.claim().done({"b": 1, "c": 1})
    assert session.pack.inputs == {"a": 0, "b": 1, "c": 1}
    session.claim().done({"c": 2})
    assert session.pack.inputs == {"a": 0, "b": 1, "c": 2}


def test_what_belongs_to_a_step_ends_with_it() -> None:
    grants = [Grant(tool="orders.read")]
    session = Session(two(tools=grants, recovery="continue"), READ).submit().claim()
    session.checkpoint({"half": 1}).fail().claim().ask("why").answer("why", 1).claim()
    session.lose().claim().done()
    session.stands(
        "queued",
        step=2,
        attempt=1,
        snapshot=None,
        failures=0,
        lost=0,
        questions=[],
        feedback=[],
        reads=[],
        left_out=0,
    )
    pack = session.pack
    assert (pack.snapshot, pack.answers, pack.feedback, pack.reads) == (None, [], [], [])


def test_an_effect_done_in_one_step_is_told_in_the_next() -> None:
    session = situations.running()
    effect = session.run("refund", ARGS)
    session.report(effect, result={"id": 1}).done()
    (told,) = session.pack.effects
    assert (told.effect_id, told.step, told.status, told.result) == (effect, 1, "done", {"id": 1})


# Bounds on loops


def test_a_stage_is_entered_as_often_as_it_may_and_then_a_person_is_asked() -> None:
    session = Session(loop(max_entries=2, escalation=[Level(queue="leads")])).submit()
    round_trip(session)
    session.claim().done().claim().done({"last": 1})
    session.then("Returned", like(ev.TicketOpened, kind="failure", queue="operators")).stands("waiting-human")
    (ticket,) = session.state.tickets
    assert "the move to ping would go beyond the bound of 2 entries" in ticket.why
    assert session.state.data["last"] == 1, "the return that led to it stands"


def test_a_session_takes_as_many_steps_as_it_may_and_then_a_person_is_asked() -> None:
    plan = loop()
    session = Session(Plan(name="loop", start="ping", max_steps=3, stages=plan.stages)).submit()
    round_trip(session).claim().done()
    session.then("Returned", like(ev.TicketOpened, kind="failure")).stands("waiting-human", step=3)
    assert "3 steps" in session.state.tickets[0].why


def test_the_bound_holds_for_every_kind_of_move() -> None:
    session = Session(one(on_refused="work", max_entries=1)).submit().claim().refuse()
    session.then("Returned", like(ev.TicketOpened, kind="failure")).stands("waiting-human")

    session = Session(one(on_failed="work", max_entries=1, max_attempts=1)).submit().claim().fail()
    session.then("ReturnRejected", like(ev.TicketOpened, kind="failure")).stands("waiting-human")
    session.resolve("redirect", "work").then("TicketResolved", like(ev.TicketOpened, kind="failure"))

    session = (
        situations.Session(writing("q", on_denied="work", max_entries=1), *situations_tools())
        .submit()
        .claim()
    )
    session.intend("refund", ARGS)
    session.resolve("deny").then("TicketResolved", like(ev.TicketOpened, kind="failure")).stands(
        "waiting-human"
    )


def situations_tools() -> tuple[Any, Any]:
    from tests.unit.core.plans import REFUND

    return REFUND, MAIL


def test_who_decides_at_a_bound_may_redirect_complete_or_send_back() -> None:
    session = Session(loop(max_entries=1)).submit().claim().done().claim().done()
    session.resolve("redirect", "pong").then("TicketResolved", "StageEntered", "PackIssued")
    assert session.state.stage == "pong"


def test_in_a_person_s_stage_there_is_no_agent_to_send_back_to() -> None:
    stages = {"ask": Stage(queue="desk", next=Next(to="ask"), max_entries=1)}
    session = Session(Plan(name="p", start="ask", stages=stages)).submit()
    session.resolve("complete", {"a": 1}).then(
        "TicketResolved", like(ev.TicketOpened, kind="failure", queue="desk")
    )
    assert "send-back" not in session.state.tickets[0].actions


# Stages of people, and inputs that do not fit


def test_a_person_s_stage_opens_a_ticket_and_issues_nothing() -> None:
    session = Session(two(Stage(queue="desk", goal="sign it", deadline_seconds=9.0))).submit().claim().done()
    session.then(
        "Returned",
        like(ev.StageEntered, stage="tell", human=True, deadline=START + 9_000),
        like(
            ev.TicketOpened,
            kind="stage",
            queue="desk",
            why="sign it",
            actions=["complete", "redirect", "cancel"],
        ),
    ).stands("waiting-human", human=True, issued=None, owed=None)


def test_inputs_that_do_not_fit_the_next_stage_are_a_ticket() -> None:
    session = Session(two(stage(inputs=NEEDS_B))).submit().claim().done({"c": 1})
    session.then(
        "Returned",
        "StageEntered",
        like(ev.TicketOpened, kind="failure", actions=["redirect", "complete", "cancel"]),
    ).stands("waiting-human", step=2, owed=None)
    assert '"b" is a required property' in session.state.tickets[0].why


def test_inputs_that_do_not_fit_can_be_mended_by_going_back() -> None:
    session = Session(two(stage(inputs=NEEDS_B))).submit().claim().done({"c": 1})
    session.resolve("redirect", "work").claim().done({"b": 1})
    session.then("Returned", "StageEntered", "PackIssued").stands("queued", stage="tell")


def test_inputs_that_do_not_fit_are_not_retried() -> None:
    session = Session(two(stage(inputs=NEEDS_B))).submit().claim().done({"c": 1})
    from passdown.contracts import commands as cmd

    session.refuses(ContractError, cmd.Retry(seen=session.state.seq), match="do not fit stage tell")


def test_inputs_that_do_not_fit_a_person_s_stage_are_a_ticket_on_its_queue() -> None:
    session = Session(two(Stage(queue="desk", inputs=NEEDS_B))).submit().claim().done()
    session.then("Returned", "StageEntered", like(ev.TicketOpened, kind="failure", queue="desk"))


# What stands in the way of a pack


def test_a_stage_whose_tool_was_never_registered_is_entered_but_not_issued() -> None:
    session = situations.missing_tool()
    session.then("SessionOpened", "StageEntered").stands("queued", issued=None)
    session.due("retry-at").nothing()
    session.register(MAIL)
    session.due("retry-at").then(like(ev.PackIssued, cause="first", attempt=1))


def test_a_stage_that_waits_for_its_tool_ends_with_its_deadline() -> None:
    session = Session(one(tools=[Grant(tool="never")], deadline_seconds=60.0)).submit()
    session.due("deadline").then("Expired").stands("expired")


def test_rule_12_a_pack_that_the_broker_cannot_make_small_enough_is_a_ticket_and_the_return_stands() -> None:
    session = Session(two(), READ).submit({"a": "x" * (40 * KIB)}).claim().done({"b": "x" * (30 * KIB)})
    session.then("Returned", "StageEntered", like(ev.TicketOpened, kind="budget")).stands(
        "waiting-human", stage="tell"
    )
    assert set(session.state.data) == {"a", "b"}


def test_rule_12_a_pack_over_budget_is_not_retried_and_a_smaller_output_mends_it() -> None:
    from passdown.contracts import commands as cmd

    session = Session(two(stage(next=Next(to="work"))), READ).submit({"a": "x" * (40 * KIB)})
    session.claim().done({"b": "x" * (30 * KIB)})
    session.refuses(BudgetExceeded, cmd.Retry(seen=session.state.seq), match="the pack of this step")
    session.resolve("complete", {"a": "by reference"}).then("TicketResolved", "StageEntered", "PackIssued")


def test_nothing_is_issued_while_a_person_decides() -> None:
    session = situations.disputed().done({"go": 1})
    session.then("Returned", "StageEntered").stands("waiting-human", step=2, issued=None)
    session.resolve("done").then("TicketResolved", like(ev.PackIssued, step=2, cause="first"))


def test_a_session_that_ends_withdraws_what_people_were_asked() -> None:
    session = Session(two(Stage(queue="desk", next=Next()))).submit().claim().done().cancel()
    session.then("TicketWithdrawn", "Cancelled").stands("cancelled", tickets=[])
