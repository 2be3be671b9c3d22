import json
from typing import Any

import pytest
from msgspec import UNSET

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, RETURN_BUDGET, decode, encode
from passdown.contracts.errors import Fenced
from passdown.contracts.plans import Grant, Level, Next, Returns
from passdown.contracts.replies import Accepted, Rejected
from passdown.contracts.returns import DoneReturn, EscalateReturn, EvidenceItem, NeedsInputReturn, Question
from tests.unit.core import situations
from tests.unit.core.plans import READ, one, two
from tests.unit.core.spec import Session, like

DECISION = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
PROOF = EvidenceItem(claim="it is so", source="https://example.org")


def claimed(**fields: Any) -> Session:
    return Session(two(**fields)).submit().claim()


def rejected(session: Session, body: str) -> str:
    """Give a text, check that it counts as a failed attempt, and return what was wrong with it."""
    reply = session.do(cmd.Give(fence=session.fence, body=body))
    assert isinstance(reply, Rejected), reply
    (event,) = (one for one in session.last if isinstance(one, ev.ReturnRejected))
    assert event.problem == reply.problem
    session.stands("queued", failures=1, claim=None)
    assert session.pack.cause == "retry"
    assert session.pack.feedback[-1].text == reply.problem
    return reply.problem


def altered(session: Session, **fields: Any) -> str:
    """Return a good `done` with some fields of the wire changed."""
    return json.dumps({**json.loads(session.body().body), **fields})


def test_a_return_that_fits_is_accepted_and_followed() -> None:
    session = claimed(returns=Returns(schema=DECISION))
    assert session.do(session.body({"ok": True})) == Accepted()
    session.then(
        like(ev.Returned, kept=False),
        like(ev.StageEntered, stage="tell", step=2, reason="done"),
        like(ev.PackIssued, step=2, attempt=1, cause="first"),
    )
    assert session.pack.inputs == {"ok": True}


def test_rule_02_a_second_different_return_of_a_claim_is_fenced() -> None:
    session = claimed()
    second = session.body({"x": 2})
    session.done({"x": 1})
    session.refused_and_recorded(Fenced, second)
    assert session.state.data == {"x": 1}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sessionId": "s0-other"}, "/sessionId"),
        ({"step": 2}, "/claimId"),
        ({"attempt": 2}, "/claimId"),
        ({"claimId": "claim-00" + "2"}, "/claimId"),
        ({"stage": "tell"}, "/stage"),
        ({"packDigest": "0" * 64}, "/packDigest"),
    ],
)
def test_rule_02_a_return_is_bound_to_its_claim_and_its_pack(fields: dict[str, Any], problem: str) -> None:
    session = claimed()
    assert problem in rejected(session, altered(session, **fields))


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("", "not UTF-8 JSON"),
        ("not json", "not UTF-8 JSON"),
        ("\ud800", "not UTF-8 JSON"),
        ("[1]", "return"),
        ("{}", "/spec"),
        ('{"spec":"passdown.return/2"}', "newer"),
        ('{"spec":"passdown.pack/1"}', "/spec"),
        ("[" * 5_000, "return"),
        ('{"spec":"passdown.return/1","result":"maybe"}', "maybe"),
    ],
)
def test_rule_11_junk_is_a_failed_attempt_and_never_more(body: str, problem: str) -> None:
    assert problem in rejected(claimed(), body)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"extra": 1}, "extra"),
        ({"uncertainty": {"level": 2}}, "/uncertainty/level"),
        ({"output": {"n": 2**70}}, "/output/n"),
        ({"output": [1]}, "/output"),
        ({"output": None}, "/output"),
        ({"evidence": [{"claim": "c"}]}, "/evidence/0"),
    ],
)
def test_rule_11_a_return_that_does_not_fit_says_where(fields: dict[str, Any], problem: str) -> None:
    session = claimed()
    assert problem in rejected(session, altered(session, **fields))


def test_rule_11_a_return_over_the_budget_is_a_failed_attempt_with_the_sizes() -> None:
    session = claimed()
    problem = rejected(session, altered(session, output={"big": "x" * RETURN_BUDGET}))
    assert "pass bulk as a resource" in problem
    assert len(problem) < 2_100


def test_rule_11_ten_megabytes_of_return_are_a_failed_attempt() -> None:
    assert "budget is 65536" in rejected(claimed(), "[" * 10_000_000)


def test_a_return_of_exactly_the_budget_is_good() -> None:
    session = claimed()
    size = len(session.body({"big": ""}).body)
    session.done({"big": "x" * (RETURN_BUDGET - size)}).then(
        "Returned", "StageEntered", like(ev.TicketOpened, kind="budget")
    )


def test_an_output_that_does_not_fit_the_schema_is_rejected_with_the_place() -> None:
    session = claimed(returns=Returns(schema=DECISION))
    assert "/ok" in rejected(session, session.body({"ok": "yes"}).body)


def test_a_result_that_the_stage_does_not_take_is_rejected() -> None:
    session = claimed(returns=Returns(results=["done", "escalate"]))
    session.refuse().then(like(ev.ReturnRejected, kind="contract"), "PackIssued")
    assert "expected one of done, escalate, got 'refused'" in session.pack.feedback[0].text


@pytest.mark.parametrize(
    ("wanted", "given", "fits"),
    [
        ("required", [], False),
        ("required", [PROOF], True),
        ("optional", [], True),
        ("optional", [PROOF], True),
        ("none", [], True),
        ("none", [PROOF], True),
    ],
)
def test_evidence_must_come_where_it_is_required_and_may_always(wanted: Any, given: Any, fits: bool) -> None:
    session = claimed(returns=Returns(evidence=wanted))
    session.do(session.body({}, evidence=given))
    assert isinstance(session.last[0], ev.Returned) == fits


def test_the_agent_that_failed_says_why() -> None:
    session = claimed()
    session.fail("KeyError: 'orderId'\nat line 3")
    session.then(
        like(ev.ReturnRejected, kind="error", problem="KeyError: 'orderId'\nat line 3", digest=""),
        "PackIssued",
    )
    assert session.pack.feedback[0].kind == "error"


@pytest.mark.parametrize("problem", ["nul \0 nul", "\u202eright to left", "line\n" * 10, "\ud800 alone"])
def test_rule_11_the_failure_path_cannot_fail_on_a_text(problem: str) -> None:
    session = claimed()
    session.fail(problem)
    assert session.pack.feedback[0].text == problem.encode("utf-8", "backslashreplace").decode()


def test_rule_12_the_text_of_a_failure_is_cut() -> None:
    session = claimed().fail("x" * 1_000_000)
    assert len(session.pack.feedback[0].text) < 2_100
    assert session.pack.feedback[0].text.endswith("more characters)")


# Needs-input


def test_two_questions_of_one_id_are_rejected() -> None:
    session = claimed()
    session.ask("why", "why").then(like(ev.ReturnRejected, kind="contract"), "PackIssued")
    assert "two questions have the same id" in session.pack.feedback[0].text


def test_a_question_whose_schema_does_not_compile_is_rejected_with_its_place() -> None:
    session = claimed()
    session.ask("why", schema={"type": "nonsense"}).then(
        like(ev.ReturnRejected, kind="contract"), "PackIssued"
    )
    assert "/questions/0/schema" in session.pack.feedback[0].text


def test_rule_12_questions_that_would_fill_the_state_are_rejected() -> None:
    session = claimed()
    asked = [Question(id=str(n), text="x" * KIB) for n in range(20)]
    body = NeedsInputReturn(**session.bound(), questions=asked)
    assert "the questions of a return" in rejected(session, encode(body).decode())


# Escalate


def test_an_escalation_goes_to_the_first_level_of_the_path_with_what_it_hands_over() -> None:
    path = [Level(queue="leads", hand_over=DECISION), Level(queue="boss", after_seconds=60.0)]
    session = claimed(escalation=path)
    session.escalate(
        "too risky", recommended="call them", risks=["fraud"], hand_over={"ok": True}, evidence=[PROOF]
    )
    session.then(
        "Returned",
        like(
            ev.Escalated,
            reason="too risky",
            recommended="call them",
            risks=["fraud"],
            evidence=[PROOF],
            hand_over={"ok": True},
        ),
        like(ev.TicketOpened, kind="escalation", queue="leads", why="too risky"),
    ).stands("waiting-human")


@pytest.mark.parametrize("hand_over", [UNSET, None, {}, {"ok": 1}])
def test_what_is_handed_over_must_fit_the_level(hand_over: Any) -> None:
    session = claimed(escalation=[Level(queue="leads", hand_over=DECISION)])
    body = EscalateReturn(**session.bound(), reason="help", hand_over=hand_over)
    assert "/handOver" in rejected(session, encode(body).decode())


def test_an_escalation_without_a_path_goes_to_the_operators() -> None:
    session = claimed().escalate("x" * 5_000)
    (ticket,) = session.state.tickets
    assert ticket.queue == "operators"
    assert len(ticket.why) < 540


# Next


@pytest.mark.parametrize(
    ("output", "suggested", "following", "stage_or_problem"),
    [
        ({}, None, Next(to="tell"), "tell"),
        ({}, "work", Next(to="tell"), "tell"),
        ({"go": "a"}, None, Next(field="go", cases={"a": "tell", "b": "work"}), "tell"),
        ({"go": "b"}, None, Next(field="go", cases={"a": "tell", "b": "work"}), "work"),
        ({"go": True}, None, Next(field="go", cases={"true": "tell"}), "tell"),
        ({"go": 3}, None, Next(field="go", cases={"3": "tell"}), "tell"),
        ({"go": "c"}, None, Next(field="go", cases={"a": "tell"}), "`next` does not map go=c; it knows a"),
        ({}, None, Next(field="go", cases={"a": "tell"}), "`next` does not map go=null; it knows a"),
        ({}, "tell", Next(suggest=["tell"]), "tell"),
        ({}, "work", Next(suggest=["tell"]), "`next` does not map done; it knows tell"),
        ({}, None, Next(suggest=["tell"]), "`next` does not map done; it knows tell"),
        ({}, None, Next(suggest=["tell"], to="work"), "work"),
    ],
)
def test_where_done_leads(output: Any, suggested: str | None, following: Next, stage_or_problem: str) -> None:
    session = claimed(next=following)
    session.done(output, next_step=suggested)
    if stage_or_problem in ("tell", "work"):
        session.then("Returned", like(ev.StageEntered, stage=stage_or_problem), "PackIssued")
    else:
        session.then("ReturnRejected", "PackIssued")
        assert stage_or_problem in session.pack.feedback[0].text


def test_done_without_a_next_ends_the_session_with_the_output() -> None:
    session = Session(one()).submit({"a": 1}).claim().done({"b": 2})
    session.then("Returned", "Completed").stands("done")
    assert session.state.outcome
    assert session.state.outcome.output == {"b": 2}


def test_an_empty_output_is_an_output() -> None:
    session = Session(one()).submit().claim().done({})
    assert session.state.outcome
    assert session.state.outcome.output == {}


@pytest.mark.parametrize(
    ("target", "events", "status"),
    [
        (None, ("Returned", "Refused"), "refused"),
        ("tell", ("Returned", "StageEntered", "PackIssued"), "queued"),
        ("end", ("Returned", "Completed"), "done"),
    ],
)
def test_refused_is_a_normal_outcome(target: str | None, events: tuple[str, ...], status: str) -> None:
    session = claimed(on_refused=target).refuse("not allowed", "policy 7")
    session.then(*events).stands(status)
    if target is None:
        assert session.state.outcome
        assert (session.state.outcome.reason, session.state.outcome.policy) == ("not allowed", "policy 7")


# A settle attempt takes no return (DESIGN §6: junk is unsure)


@pytest.mark.parametrize("how", ["give", "fail", "junk"])
def test_a_settle_attempt_that_gives_no_verdicts_leaves_it_to_a_person(how: str) -> None:
    session = situations.settle_running()
    {"give": session.done, "fail": session.fail, "junk": lambda: junk(session)}[how]()
    session.then(
        "ReturnRejected", like(ev.TicketOpened, kind="effect", about=session.state.effects[0].effect_id)
    )
    session.stands("waiting-human", feedback=session.state.feedback[:1])


def junk(session: Session) -> None:
    session.do(cmd.Give(fence=session.fence, body="junk"))


def test_a_kept_return_outlives_a_settle_attempt_that_fails() -> None:
    session = situations.intended().done({"go": 1}).claim().fail().stands("waiting-human", owed=None)
    assert session.state.kept
    session.resolve("done").then("TicketResolved", "EffectSettled", "StageEntered", "PackIssued")
    assert session.pack.inputs["go"] == 1


def test_the_log_holds_the_return_as_it_was_read() -> None:
    session = Session(two(tools=[Grant(tool="orders.read")]), READ).submit().claim()
    body = session.body({"x": 1}, evidence=[PROOF], usage={"tokens": 5})
    session.do(body)
    (event,) = (one for one in session.last if isinstance(one, ev.Returned))
    assert event.body == decode(body.body.encode(), DoneReturn)
