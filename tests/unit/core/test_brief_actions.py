"""What each allowed action will do, and the recommended next step: from kind, plan and ledger alone."""

import json
from typing import Any, get_args

import pytest
from msgspec.structs import replace

from passdown.broker.core.brief import brief
from passdown.broker.core.brief_actions import actions, recommended
from passdown.broker.core.brief_facts import Facts
from passdown.broker.core.parts import Ticket
from passdown.contracts.brief import Brief
from passdown.contracts.plans import Grant, Next, Plan
from passdown.contracts.ticket_events import Resolution, TicketKind
from tests.unit.core.briefly import brief_of, log_of
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, stage, two, writer
from tests.unit.core.spec import CLERK, Session


def does(found: Brief) -> dict[str, str]:
    return {one.action: one.does for one in found.actions}


def proposed(approvals: int = 1, **fields: Any) -> Session:
    grants = [Grant(tool="refund", approve="approvers", approvals=approvals), Grant(tool="mail")]
    session = Session(two(stage(), **{"tools": grants, **fields}), REFUND, MAIL)
    session.submit({"order": "4711"}).claim()
    session.intend("refund", ARGS)
    return session


def test_an_approval_says_exactly_what_will_run() -> None:
    found = brief_of(proposed())
    assert does(found) == {
        "approve": "refund runs once with exactly these arguments",
        "deny": "refund does not run; stage work goes on, and its agent is told that it was denied",
        "edit": "refund runs once with the arguments that you give in their place; both are kept",
        "cancel": "the session is called off; nothing that was done is undone, and what is under way is settled first",
    }
    exactly = {one.action: one.exactly for one in found.actions}
    assert exactly["approve"]
    assert json.loads(exactly["approve"].text) == ARGS
    assert exactly["approve"].source == "the pending call of tool refund"
    assert exactly["deny"] is None


def test_arguments_that_are_decided_on_are_never_cut() -> None:
    session = writer("approvers")
    session.intend("refund", {**ARGS, "memo": "x" * 30_000})
    exactly = brief_of(session).actions[0].exactly
    assert exactly
    assert exactly.cut == 0
    assert json.loads(exactly.text)["memo"] == "x" * 30_000


@pytest.mark.parametrize(
    ("fields", "then"),
    [
        ({"on_denied": "tell"}, "the plan's on_denied leads to stage tell"),
        ({"on_denied": "fail"}, "the session fails"),
    ],
)
def test_a_denial_says_what_follows(fields: dict[str, Any], then: str) -> None:
    assert does(brief_of(proposed(**fields)))["deny"] == f"refund does not run; {then}"


def test_of_several_approvals_it_says_which_this_is() -> None:
    session = proposed(approvals=2)
    first = (
        "refund runs once with exactly these arguments, once 1 more person approved: yours is number 1 of 2"
    )
    assert does(brief_of(session))["approve"] == first
    session.resolve("edit", {**ARGS, "cents": 800})
    found = brief_of(session)
    assert found.ticket
    assert found.ticket.approved_by == ["user:bob"]
    last = "refund runs once with exactly these arguments, for yours is the last of 2 approvals"
    assert does(found)["approve"] == last
    assert "approvals given before are void" in does(found)["edit"]
    exactly = found.actions[0].exactly
    assert exactly
    assert json.loads(exactly.text)["cents"] == 800, "those that the first one gave"
    session.resolve("approve", by=CLERK, version=2)
    assert brief_of(session).effects.shown[0].decision.count("by user:") == 2


@pytest.mark.parametrize(
    ("following", "then"),
    [
        (Next(), "then the session ends"),
        (Next(to="end"), "then the session ends"),
        (Next(to="tell"), "then stage tell follows"),
        (Next(field="so", cases={"yes": "tell", "no": "end"}), "then its field so decides: yes leads to tell, no leads to end"),
        (Next(suggest=["tell", "work"]), "then one of tell, work follows, or the session ends"),
    ],
)  # fmt: skip
def test_an_escalation_says_where_each_action_leads(following: Next, then: str) -> None:
    session = Session(two(stage(), next=following)).submit().claim().escalate()
    found = does(brief_of(session))
    assert found["complete"] == f"your output is taken as that of stage work, if it fits its contract; {then}"
    assert found["send-back"].startswith("stage work is tried again by role worker with your feedback")
    targets = (
        "tell, work" if "tell" in (following.to, *following.cases.values(), *following.suggest) else "work"
    )
    assert found["redirect"] == f"the session goes on in the stage that you name, one of: {targets}"


def test_a_question_and_an_unknown_effect() -> None:
    asked = Session(one(ask="people")).submit().claim().ask("why")
    assert (
        does(brief_of(asked))["answer"]
        == "the questions are answered, and stage work goes on with the answers"
    )
    assert brief_of(asked).recommended.rule == "answer"
    unknown = writer()
    unknown.run("refund", ARGS)
    unknown.lose().claim().settle(e1="unsure")
    found = brief_of(unknown)
    assert found.ticket
    assert found.ticket.kind == "effect"
    assert does(found)["done"].startswith("it is on record that refund did happen")
    assert does(found)["not-done"].startswith(
        "it is on record that refund did not happen; it may be tried once more"
    )
    assert found.recommended.rule == "effect-unknown"


def on(kind: TicketKind, session: Session, *wanted: Resolution, about: str = "") -> Ticket:
    every: tuple[Resolution, ...] = get_args(Resolution)
    return Ticket(
        ticket_no=9,
        kind=kind,
        queue="q",
        why="w",
        actions=list(wanted or every),
        about=about,
        opened_at=session.at,
    )


@pytest.mark.parametrize("kind", get_args(TicketKind))
def test_every_kind_of_ticket_has_a_brief_with_each_action_and_a_step(kind: TicketKind) -> None:
    session = proposed()
    ticket = on(kind, session, about=session.state.effects[0].effect_id)
    state = replace(session.state, tickets=[ticket])
    facts = Facts(session.plan)
    for logged in log_of(session):
        facts.add(logged)
    said = actions(state, session.plan, ticket, facts)
    assert [one.action for one in said] == list(get_args(Resolution))
    assert all(one.does for one in said)
    assert (said[1].exactly is not None) == (kind in ("approval", "permission", "unmet"))
    assert recommended(state, ticket).step
    assert brief(state, log_of(session), session.plan, 9).actions == said


def test_tickets_on_joins_say_what_becomes_of_branches() -> None:
    session = proposed()
    ticket = on("conflict", session, "choose", "merge", "send-back", about="j")
    facts = Facts(session.plan)
    assert [one.does.partition(";")[0] for one in actions(session.state, session.plan, ticket, facts)] == [
        "the output of the branch that you name is taken as that of the join",
        "the branches that count by now are merged",
        "the branches that you name go on with your feedback, and are joined again",
    ]
    assert recommended(session.state, ticket).rule == "compare-branches"


def test_the_step_follows_the_ledger() -> None:
    assert brief_of(proposed()).recommended.rule == "compare-then-decide"
    nothing = Session(one()).submit().claim().escalate("approve everything!", recommended="approve")
    assert brief_of(nothing).recommended.rule == "nothing-written"
    done = writer()
    done.report(done.run("mail", {"to": "a"})).escalate()
    assert brief_of(done).recommended.rule == "after-writes"
    failed = writer()
    failed.report(failed.run("refund", ARGS), "failed", error="closed").escalate()
    assert brief_of(failed).recommended.rule == "failed-writes"
    assert "(last: effect 1)" in brief_of(failed).recommended.step


def test_the_same_call_done_before_is_pointed_out() -> None:
    session = proposed()
    session.resolve("approve").claim()
    session.report(session.run("refund", ARGS), result={"id": 1})
    session.intend("refund", ARGS, n=2)
    assert brief_of(session).recommended.rule == "done-before"


def test_what_is_unknown_comes_first() -> None:
    session = writer()
    session.run("refund", ARGS)
    session.lose()
    ticket = on("escalation", session)
    assert recommended(replace(session.state, tickets=[ticket]), ticket).rule == "settle-first"


def test_without_a_ticket_it_says_who_has_to_act() -> None:
    session = Session(Plan(name="p", start="work", stages={"work": stage()})).submit()
    assert recommended(session.state, None).rule == "wait"
    assert recommended(session.pause().state, None).rule == "paused"
    assert recommended(session.resume().claim().ask("why").state, None).rule == "answer"
    assert recommended(proposed().state, None) == recommended(proposed().state, None)
    assert recommended(proposed().state, None).step == "Decide what is open: ticket 1."
