from typing import Any

import pytest

from passdown.broker.core.state import State
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import PACK_BUDGET
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError
from passdown.contracts.pack import Resource
from passdown.contracts.plans import Grant, Next, Plan, Stage, plan_ref
from passdown.contracts.replies import Opened
from tests.unit.core.plans import READ, one, stage, two
from tests.unit.core.spec import ANN, START, Session, like


def submit(session: Session, inputs: dict[str, Any], **more: Any) -> cmd.Submit:
    fields: dict[str, Any] = {"key": session.key, "plan": plan_ref(session.plan), "inputs": inputs, **more}
    return cmd.Submit(**fields)


def test_a_submit_opens_the_session_enters_the_first_stage_and_issues_its_pack() -> None:
    session = Session(two())
    reply = session.do(submit(session, {"a": 1}, task_name="Acme refund 4711", trace="00-1"), ANN)
    assert reply == Opened(session_id=session.id)
    session.then(
        like(ev.SessionOpened, session_id=session.id, key="k", inputs={"a": 1}, task_name="Acme refund 4711"),
        like(ev.StageEntered, stage="work", step=1, reason="start", human=False, deadline=None),
        like(ev.PackIssued, step=1, attempt=1, cause="first", role="worker", solo=False),
    )
    session.stands(
        "queued", by=ANN, step=1, attempt=1, stage="work", opened_at=START, data={"a": 1}, trace="00-1"
    )
    assert (session.pack.inputs, session.pack.cause, session.pack.trace) == ({"a": 1}, "first", "00-1")


def test_rule_01_the_same_key_again_is_the_same_session() -> None:
    """Also after the record of the first submit was dropped, and whatever became of the session."""
    session = Session(two()).submit().claim().done().claim().done().stands("done")
    assert session.do(submit(session, {"other": 1}), ANN) == Opened(session_id=session.id)
    session.nothing()


def test_the_same_key_for_another_plan_is_a_conflict() -> None:
    session = Session(two()).submit()
    error = session.refuses(Conflict, cmd.Submit(key="k", plan=plan_ref(one())), ANN)
    assert isinstance(error, Conflict)
    assert (error.winner, error.decided) == (ANN, "it runs two@1")


def test_a_session_without_a_task_name_gets_one_from_plan_and_key() -> None:
    assert Session(two()).submit().state.task_name == "two k"


def test_a_task_name_that_no_one_can_encode_is_made_visible() -> None:
    name = Session(two()).submit(task_name="a\ud800b" + "x" * 300).state.task_name
    assert name.startswith("a\\ud800bx")
    assert len(name) < 240


def test_a_deadline_counts_from_the_entry_of_the_stage() -> None:
    session = Session(one(deadline_seconds=1.5)).submit()
    assert session.state.deadline == START + 1_500


def test_a_plan_may_begin_with_a_person() -> None:
    plan = Plan(
        name="p",
        start="ask",
        stages={"ask": Stage(queue="desk", goal="look", next=Next(to="work")), "work": stage()},
    )
    session = Session(plan).submit({"a": 1})
    session.then(
        "SessionOpened",
        like(ev.StageEntered, stage="ask", human=True),
        like(ev.TicketOpened, kind="stage", queue="desk", why="look"),
    ).stands("waiting-human", issued=None, owed=None)
    session.resolve("complete", {"b": 2}).then("TicketResolved", "StageEntered", "PackIssued")
    assert session.pack.inputs == {"a": 1, "b": 2}


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

BAD: list[tuple[dict[str, Any], str]] = [
    ({"inputs": {"n": float("nan")}}, "NaN"),
    ({"inputs": {"n": 2**60}}, "integer beyond"),
    ({"inputs": {"n": "\ud800"}}, "lone surrogate"),
    ({"inputs": {"n": {1, 2}}}, "not JSON data"),
    ({"inputs": {"n": "x"}}, "/n"),
    ({"inputs": {}}, "n"),
    ({"inputs": {"n": 1}, "key": ""}, "key"),
    ({"inputs": {"n": 1}, "key": "k" * 201}, "key"),
    ({"inputs": {"n": 1}, "key": "\udfff"}, "lone surrogate"),
    ({"inputs": {"n": 1}, "trace": "t" * 513}, "trace"),
]


@pytest.mark.parametrize(("fields", "problem"), BAD, ids=[problem for _, problem in BAD])
def test_rule_11_a_submit_that_does_not_fit_opens_nothing(fields: dict[str, Any], problem: str) -> None:
    session = Session(one(inputs=SCHEMA))
    session.refuses(ContractError, submit(session, **fields), ANN, match=problem)


def test_rule_11_inputs_that_are_nested_without_end_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(80):
        deep = {"a": deep}
    session = Session(one())
    session.refuses(ContractError, submit(session, deep), ANN, match="nested deeper")


def test_rule_12_inputs_over_the_budget_are_refused_with_the_largest_named() -> None:
    session = Session(one())
    body = submit(session, {"small": 1, "big": "x" * PACK_BUDGET})
    error = session.refuses(BudgetExceeded, body, ANN, match="pass bulk as a resource")
    assert isinstance(error, BudgetExceeded)
    assert next(iter(error.largest)) == "inputs.big"


def test_rule_12_inputs_that_fit_but_no_pack_could_carry_are_refused_at_once() -> None:
    """What a sender brings over budget is refused there, and does not become a ticket."""
    session = Session(one(goal="g" * 2_000))
    session.refuses(BudgetExceeded, submit(session, {"big": "x" * (PACK_BUDGET - 1_000)}), ANN)


def test_rule_12_the_first_pack_is_measured_though_its_tool_is_not_registered_yet() -> None:
    session = Session(one(tools=[Grant(tool="orders.read")]))
    session.refuses(BudgetExceeded, submit(session, {"big": "x" * (PACK_BUDGET - 400)}), ANN)
    session.submit({"small": 1}).then("SessionOpened", "StageEntered").stands("queued", issued=None)


def test_rule_12_resources_count_as_well_also_before_a_person() -> None:
    plan = Plan(name="p", start="ask", stages={"ask": Stage(queue="desk")})
    session = Session(plan)
    many = [Resource(name=str(n), uri="https://example.org/" + "x" * 500) for n in range(150)]
    error = session.refuses(BudgetExceeded, submit(session, {}, resources=many), ANN)
    assert isinstance(error, BudgetExceeded)
    assert "resources" in error.largest


def test_resources_travel_by_reference() -> None:
    given = [Resource(name="contract", uri="file:///c.pdf", digest="d", bytes=9)]
    session = Session(one()).submit(resources=given)
    assert session.pack.resources == given


def test_rule_07_sessions_of_one_plan_share_nothing() -> None:
    """Two branches, say: what one does and loses leaves the other as it was, and its ids are its own."""
    left, right = (
        Session(two(), READ, key="left").submit({"a": 1}),
        Session(two(), READ, key="right").submit({"a": 1}),
    )
    before = right.state
    left.claim().checkpoint({"half": 1}).lose().claim().fail()
    assert right.state is before
    assert isinstance(right.state, State)
    assert left.id != right.id
    assert left.pack.snapshot is None or left.pack.session_id == left.id
    assert left.pack.digest != right.pack.digest
