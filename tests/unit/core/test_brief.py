"""The brief as a whole: every section from the ledger and the log, deterministic, bounded, its completeness computed."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core.brief import MOST_LINES, WEIGHTS, brief
from passdown.broker.core.brief_effects import MOST_EFFECTS, UNDO
from passdown.broker.core.brief_render import render
from passdown.broker.core.brief_text import span
from passdown.contracts.brief import Brief, BriefEffect
from passdown.contracts.codec import decode, encode
from passdown.contracts.commands import CommentTicket, ToolNote
from passdown.contracts.plans import Grant, Level, Next, Plan, Returns, Subject
from passdown.contracts.returns import EvidenceItem
from tests.unit.core.briefly import brief_of, log_of
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one, stage, two, writer
from tests.unit.core.spec import ANN, BOB, CLERK, Session

WHOLE = Plan(
    name="whole",
    start="work",
    subjects={"order": Subject(fields=["order"])},
    stages={
        "work": stage(
            goal="Refund order {inputs.order}.",
            constraints=["at most 50 euros", "only\nonce"],
            done_when=["the customer knows"],
            tools=[Grant(tool="orders.read"), Grant(tool="refund", approve="approvers"), Grant(tool="mail")],
            returns=Returns(evidence="optional"),
            escalation=[Level(queue="people")],
            risk="high",
            next=Next(to="tell"),
        ),
        "tell": stage(),
    },
)
SECTIONS = [
    "Goal",
    "Constraints",
    "Done when",
    "Where it stands",
    "Subjects",
    "Latest valid state",
    "Effects",
    "Evidence",
    "What the agent claims",
    "Last error",
    "Open risks",
    "Allowed actions",
    "Recommended next step",
    "How it got here",
    "Questions",
    "Comments",
    "Earlier tickets",
    "Completeness",
]


def worked() -> Session:
    """Return a session that mailed, was denied one refund and had one approved that then failed, and escalated."""
    session = Session(WHOLE, READ, REFUND, MAIL).submit({"order": "4711"}, task_name="Acme").claim()
    session.note(ToolNote(tool="orders.read", args={"id": "4711"}, result={"order": "4711"}, kept=True))
    session.report(session.run("mail", {"to": "a@b.c"}), result={"sent": 1})
    session.checkpoint({"mailed": True})
    session.intend("refund", {**ARGS, "cents": 90_000})
    session.resolve("deny", note="far too much").claim()
    session.intend("refund", ARGS)
    session.resolve("approve", note="fine").claim()
    session.report(session.run("refund", ARGS), "failed", error="the bank is closed")
    session.ask("when").answer("when", "tomorrow").claim()
    evidence = [EvidenceItem(claim="mailed", source="mail")]
    return session.escalate("the bank is closed", recommended="try later", risks=["angry"], evidence=evidence)


def effects(found: Brief) -> list[BriefEffect]:
    return found.effects.shown


def test_every_section_is_there_in_order_and_the_whole_is_deterministic() -> None:
    session = worked()
    found = brief_of(session)
    text = render(found)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == SECTIONS
    assert (encode(brief_of(session)), render(brief_of(session))) == (encode(found), text)
    assert decode(encode(found), Brief) == found
    assert set(json.loads(encode(found))) >= {"spec", "ticket", "claims", "comments", "earlier", "lastError"}


def test_a_later_log_changes_nothing() -> None:
    session = worked()
    state, log, number = session.state, log_of(session), session.state.tickets[-1].ticket_no
    session.resolve("send-back", "again")
    assert brief(state, log_of(session), session.plan, number) == brief(state, log, session.plan, number)


def test_goal_constraints_and_where_it_stands() -> None:
    session = worked()
    found = brief_of(session)
    assert found.goal == "Refund order {inputs.order}."
    assert found.goal_filled
    assert found.goal_filled.text == "Refund order 4711."
    assert (found.task.text, found.task.source) == ("Acme", "whoever submitted it")
    assert found.constraints == ["at most 50 euros", "only once"]
    assert found.done_when == ["the customer knows"]
    assert (found.standing.status, found.standing.stage, found.standing.step) == ("waiting-human", "work", 1)
    assert found.standing.why == "The agent handed over to people."
    assert [one.text for one in found.standing.said] == ["the bank is closed"]
    assert (found.state.kind, found.state.content.text) == ("snapshot", '{"mailed":true}')
    assert "[from the checkpoint of attempt 1, event " in render(found)
    assert brief_of(Session(one()).submit({"a": 1})).state.content.text == '{"a":1}'


def test_constraints_that_the_newest_plan_added_hold_as_well() -> None:
    session = worked()
    state, log, number = session.state, log_of(session), session.state.tickets[-1].ticket_no
    stages = {"work": replace(WHOLE.stages["work"], constraints=["only\nonce", "ask twice"])}
    newest = replace(WHOLE, version=2, stages=stages)
    found = brief(state, log, session.plan, number, newest)
    assert found.constraints == ["at most 50 euros", "only once", "ask twice"]


def test_ages_are_relative_to_the_state() -> None:
    session = Session(WHOLE, READ, REFUND, MAIL).submit({"order": "1"}).claim().tick(65_000).escalate()
    session.tick(7_200_000).do(CommentTicket(ticket_no=1, comment_id="c", text="on it"), BOB)
    found = brief_of(session)
    assert found.ticket
    assert (found.at, found.ticket.age_ms) == (session.at, 7_200_000)
    assert found.standing.age_ms == 7_265_000
    assert "opened 2h before" in render(found)
    assert "entered 2h 1m before" in render(found)
    assert [span(ms) for ms in (-5, 0, 61_000, 90_000_000)] == ["0s", "0s", "1m 1s", "1d 1h"]


def test_decision_and_effect_are_two_lines() -> None:
    found = brief_of(worked())
    mail, denied, refund = effects(found)
    assert (mail.status, mail.decision) == ("done", "none needed: the stage grants it")
    assert (json.loads(mail.args.text), mail.result and mail.result.text) == ({"to": "a@b.c"}, '{"sent":1}')
    assert (mail.undo, refund.undo) == (UNDO, "")
    assert (denied.status, denied.outcome) == ("denied", "did not run")
    assert denied.decision.startswith("denied by user:bob in ticket 1, event ")
    assert (denied.error and denied.error.text) == "far too much"
    assert refund.decision.startswith("approved by user:bob in ticket 2, event ")
    assert refund.outcome.startswith("failed, event ")
    assert (refund.error and refund.error.text, refund.result) == ("the bank is closed", None)
    assert found.effects.counts == {"denied": 1, "done": 1, "failed": 1}
    text = render(found)
    assert f"   decision: {refund.decision}\n   effect: {refund.outcome}\n" in text


def test_an_edit_shows_what_was_proposed_and_what_ran() -> None:
    session = writer("approvers")
    session.intend("refund", ARGS)
    session.resolve("edit", {**ARGS, "cents": 800}).claim()
    session.report(session.run("refund", ARGS), result={"id": "r-1"})
    (refund,) = effects(brief_of(session))
    assert json.loads(refund.args.text)["cents"] == 800
    assert refund.proposed_args
    assert json.loads(refund.proposed_args.text)["cents"] == 900
    assert refund.decision.startswith("edited and approved by user:bob")


def test_what_the_state_left_in_the_log_is_shown_from_there() -> None:
    session = Session(WHOLE, READ, REFUND, MAIL).submit({"order": "1"}).claim()
    for n in range(20):
        session.report(
            session.run("mail", {"to": f"{n}", "text": "x" * 3000}), result={"n": n, "y": "y" * 1000}
        )
    assert session.state.effects[0].args is None
    first = effects(brief_of(session))[0]
    assert first.args.text.startswith('{"text":"xxx')
    assert first.args.cut
    assert first.result
    assert first.result.text.startswith('{"n":0,')


def test_of_many_effects_the_open_and_the_failed_and_the_newest_are_shown() -> None:
    session = Session(WHOLE, READ, REFUND, MAIL).submit({"order": "1"}).claim()
    for n in range(MOST_EFFECTS + 20):
        session.report(session.run("mail", {"to": f"{n}"}), "failed" if n == 3 else "done")
    found = brief_of(session).effects
    assert [one.ordinal for one in found.shown] == [4, *range(22, MOST_EFFECTS + 21)]
    assert (found.left_out, found.counts) == (20, {"done": MOST_EFFECTS + 19, "failed": 1})


def test_an_unknown_effect_is_said_so_and_whole() -> None:
    session = writer()
    session.run("refund", ARGS)
    session.lose()
    (refund,) = effects(brief_of(session))
    assert refund.outcome.startswith("unknown: nobody knows whether it happened")
    assert (refund.undo, json.loads(refund.args.text)) == (UNDO, ARGS)
    found = brief_of(session)
    assert "1 effect unknown: it may have happened" in found.risks.known
    assert "effects" in found.completeness.missing


def test_risks_questions_comments_and_earlier_tickets() -> None:
    session = worked()
    number = session.state.tickets[-1].ticket_no
    session.do(CommentTicket(ticket_no=number, comment_id="2", text="me too"), CLERK)
    found = brief_of(session)
    assert "stage of high risk" in found.risks.known
    assert "1 effect failed" in found.risks.known
    assert [one.text for one in found.risks.said] == ["angry"]
    (question,) = found.questions
    assert (question.asked.text, question.answer and question.answer.text) == ("when?", "tomorrow")
    assert [(one.text, one.source) for one in found.comments] == [("me too", "a comment of user:carla")]
    assert [(one.ticket_no, one.how) for one in found.earlier] == [
        (1, "deny by user:bob, in approvers"),
        (2, "approve by user:bob, in approvers"),
    ]
    assert [one.note and one.note.text for one in found.earlier] == ["far too much", "fine"]


def test_the_last_error_may_be_that_of_a_reading_call() -> None:
    session = Session(WHOLE, READ, REFUND, MAIL).submit({"order": "1"}).claim()
    session.note(ToolNote(tool="orders.read", args={"id": "1"}, error="KeyError: no order 1"))
    found = brief_of(session.escalate("no such order")).last_error
    assert found
    assert (found.text, found.source) == ("KeyError: no order 1", "tool orders.read")


def test_the_last_error_is_the_last_of_any_kind() -> None:
    session = Session(two(recovery="continue"), READ, REFUND, MAIL).submit().claim().fail("boom")
    found = brief_of(session).last_error
    assert found
    assert (found.text, found.source) == ("boom", "agent:worker, whose return was rejected")
    session.claim()
    session.lose()
    lost = brief_of(session).last_error
    assert lost
    assert lost.text == "a worker was lost: its lease ran out"


def test_how_it_got_here_has_at_most_ten_lines() -> None:
    loop = Plan(
        name="loop",
        start="work",
        stages={
            "work": stage(next=Next(to="tell"), max_entries=100),
            "tell": stage(next=Next(to="work"), max_entries=100),
        },
    )
    session = Session(loop).submit()
    for _ in range(30):
        session.claim().done()
    found = brief_of(session)
    assert len(found.history) == MOST_LINES
    assert found.history[0].startswith("up to event ")
    assert "22 stage entries, 22 attempts, 0 decisions" in found.history[0]
    assert found.history[-1].endswith("step 31, stage work, 1 attempt")
    few = brief_of(worked())
    assert few.history[0] == "event 2: step 1, stage work, 4 attempts"
    assert [line.partition(": ")[2] for line in few.history[1:]] == [
        "ticket 1 (approval): denied by user:bob",
        "ticket 2 (approval): approved by user:bob",
    ]


def test_completeness_is_the_weight_of_what_is_there() -> None:
    assert sum(WEIGHTS.values()) == 100
    assert brief_of(worked()).completeness.missing == []
    assert brief_of(worked()).completeness.score == 100
    bare = (
        Session(Plan(name="bare", start="work", stages={"work": stage(goal="")})).submit().claim().escalate()
    )
    found = brief_of(bare)
    assert found.completeness.missing == [
        "goal",
        "constraints",
        "done_when",
        "subjects",
        "latest valid state",
    ]
    assert found.completeness.score == 100 - 10 - 10 - 10 - 15 - 10
    assert f"{found.completeness.score} of 100; missing: goal, " in render(found)


@pytest.mark.parametrize("number", [1, 2])
def test_a_ticket_that_is_decided_says_by_whom_and_allows_nothing(number: int) -> None:
    found = brief_of(worked(), number)
    assert found.ticket
    assert found.ticket.closed == ("deny by user:bob" if number == 1 else "approve by user:bob")
    assert (found.actions, found.standing.why) == ([], "A write needs a person's yes before it runs.")
    assert f"closed: {found.ticket.closed}" in render(found)


def test_without_a_ticket_it_is_of_the_session() -> None:
    session = Session(one()).submit()
    waiting = brief(session.state, log_of(session), session.plan, None)
    assert (waiting.ticket, waiting.actions, waiting.recommended.rule) == (None, [], "wait")
    assert waiting.claims is None
    session.claim().refuse("against the rules", "no-gifts")
    ended: Any = brief(session.state, log_of(session), session.plan, None)
    assert ended.standing.why == "It has ended: refused."
    assert [one.text for one in ended.standing.said] == ["against the rules", "no-gifts"]
    assert ended.recommended.rule == "over"
    assert ANN not in {one.source for one in ended.standing.said}
