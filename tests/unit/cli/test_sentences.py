"""One line for each event, whatever is in it."""

from typing import Any, get_args

import msgspec
import pytest

from passdown.broker.cli.views.sentences import GOOD, TROUBLE, sentence
from passdown.broker.cli.views.transitions import Transition, transition
from passdown.broker.core.state import TRANSITIONS
from passdown.contracts import events as ev
from passdown.contracts import reserved
from passdown.contracts.join_events import LateEffect
from passdown.contracts.pack import Parent
from passdown.contracts.plans import PlanRef
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    Fence,
    NeedsInputReturn,
    Question,
    RefusedReturn,
)
from tests.unit.cli.desk import Desk

BOB = "user:bob"
JOIN = "s0-1.j-2"
EFFECT = "s0-1.e-0123456789abcdef"
EVIL = "a\x1b[31m\nb"
BOUND: dict[str, Any] = {
    "session_id": "s0-1",
    "step": 1,
    "attempt": 1,
    "claim_id": "c" * 32,
    "pack_digest": "d",
    "stage": "pay",
    "next_step": None,
}

SAID: list[tuple[ev.Event, str]] = [
    (
        ev.SessionOpened(
            session_id="s0-1",
            task_id="t",
            task_name="Acme",
            key="k",
            plan=PlanRef(name="p", version=2, digest="d"),
            inputs={},
        ),
        "p@2 for the task 'Acme', key k",
    ),
    (
        ev.SessionOpened(
            session_id="s0-1",
            task_id="t",
            task_name="Acme",
            key="k",
            plan=PlanRef(name="p", version=2, digest="d"),
            inputs={},
            parent=Parent(session_id="s0-0", join_id="j", branch="b"),
        ),
        "p@2 for the task 'Acme', key k, branch b of s0-0",
    ),
    (ev.StageEntered(stage="pay", step=2, reason="done"), "step 2 is stage pay (done)"),
    (
        ev.StageEntered(stage="pay", step=2, reason="done", human=True),
        "step 2 is stage pay, a person's (done)",
    ),
    (
        ev.StageEntered(stage="pay", step=2, reason="send-back", feedback="look again"),
        "step 2 is stage pay (send-back); sent back: look again",
    ),
    (
        ev.PackIssued(
            step=2, attempt=1, cause="first", role="cashier", digest="d", bytes=1536, lease_ms=60_000
        ),
        "attempt 1 of step 2 to role cashier: first, 1.5 KiB, lease 1m",
    ),
    (
        ev.PackIssued(
            step=2,
            attempt=2,
            cause="retry",
            role="cashier",
            digest="d",
            bytes=10,
            lease_ms=500,
            solo=True,
            left_out=3,
            changes=["the tool x is no longer granted"],
        ),
        (
            "attempt 2 of step 2 to role cashier: retry, 10 bytes, lease 0.5s, solo, 3 left out for size; changed since the plan"
            " was pinned: the tool x is no longer granted"
        ),
    ),
    (ev.Claimed(attempt=1, claim_id="c" * 32), "attempt 1 held by claim cccccccc"),
    (
        ev.Claimed(attempt=1, claim_id="c" * 32, agent="cashier", agent_version="7", model="m"),
        "attempt 1 held by claim cccccccc of cashier 7 m",
    ),
    (
        ev.ClaimReleased(claim_id="c" * 32, reason=EVIL),
        "claim cccccccc ended without a failure: a\\x1b[31m …",
    ),
    (ev.Checkpointed(claim_id="c" * 32, data={"a": 1}), "snapshot of 7 bytes"),
    (ev.EffectDone(effect_id=EFFECT, result={"id": 1}), 'e-0123456789ab happened: {"id":1}'),
    (ev.EffectFailed(effect_id=EFFECT, error="closed"), "e-0123456789ab wrote nothing: closed"),
    (ev.EffectUnknown(effect_id=EFFECT, why="lost"), "nobody knows whether e-0123456789ab happened: lost"),
    (ev.EffectSettled(effect_id=EFFECT, status="done"), "e-0123456789ab did happen, says its verify: null"),
    (
        ev.EffectSettled(effect_id=EFFECT, status="not-done", repeat=True, how="person"),
        "e-0123456789ab did not happen, says a person; it may be tried again",
    ),
    (
        ev.ToolCalled(
            tool="orders.read", args={"a": 1}, args_digest="f" * 64, result_digest="e" * 64, kept=True
        ),
        'orders.read {"a":1} gave eeeeeeeeeeee, kept',
    ),
    (
        ev.ToolCalled(tool="orders.read", args=None, args_digest="f" * 64, result_digest="e" * 64),
        "orders.read arguments ffffffffffff gave eeeeeeeeeeee",
    ),
    (
        ev.ToolCalled(
            tool="orders.read", args={}, args_digest="f" * 64, result_digest="", error="KeyError: 1"
        ),
        "orders.read {} raised KeyError: 1",
    ),
    (ev.ToolDenied(tool="x", why="not granted"), "x: not granted"),
    (ev.Returned(body=DoneReturn(output={"a": 1}, **BOUND)), 'done: {"a":1}'),
    (
        ev.Returned(body=NeedsInputReturn(questions=[Question(id="q", text="?")], **BOUND), kept=True),
        "needs-input: 1 question; kept until its effects are settled",
    ),
    (ev.Returned(body=RefusedReturn(reason="no", **BOUND)), "refused: no"),
    (ev.Returned(body=EscalateReturn(reason="odd", **BOUND)), "escalate: odd"),
    (
        ev.ReturnFenced(fence=Fence(step=1, attempt=1, claim_id="c" * 32), digest="d", why="late"),
        "without effect: late",
    ),
    (
        ev.InputRequested(attempt=1, questions=[Question(id="q", text="Why?")], ask="producer"),
        "of producer: q: Why?",
    ),
    (ev.InputProvided(attempt=1, id="q", value="because"), 'q of attempt 1: "because"'),
    (ev.Escalated(reason="odd", recommended="ask", risks=["a", "b"]), "odd; recommended: ask; risks: a; b"),
    (
        ev.TicketOpened(
            ticket_no=1, kind="approval", queue="q", why="see it", actions=["approve"], about=EFFECT
        ),
        "ticket 1 (approval about e-0123456789ab) in q: see it",
    ),
    (
        ev.TicketOpened(ticket_no=2, kind="failure", queue="q", why="3 failed", actions=[]),
        "ticket 2 (failure) in q: 3 failed",
    ),
    (
        ev.TicketOpened(
            ticket_no=3, kind="permission", queue="q", why="w", actions=[], about=EFFECT, approvals=2
        ),
        "ticket 3 (permission about e-0123456789ab, 2 people must agree) in q: w",
    ),
    (ev.TicketReleased(ticket_no=1, holder=BOB, why="given-back"), "ticket 1: user:bob gave it back"),
    (
        ev.TicketReleased(ticket_no=1, holder=BOB, why="given-back", reason=EVIL),
        "ticket 1: user:bob gave it back: a\\x1b[31m …",
    ),
    (ev.TicketReleased(ticket_no=1, holder=BOB, why="lapsed"), "ticket 1: the claim of user:bob ran out"),
    (ev.TicketReleased(ticket_no=1, holder=BOB, why="access"), "ticket 1: user:bob may no longer hold it"),
    (ev.TicketReassigned(ticket_no=1, to_queue="leads", reason="hm"), "ticket 1 to queue leads: hm"),
    (ev.TicketReassigned(ticket_no=1, to=BOB, claim_id="t"), "ticket 1 to user:bob"),
    (ev.TicketWoken(ticket_no=1), "ticket 1 is offered again"),
    (ev.TicketCommented(ticket_no=1, text="look\nhere"), "on ticket 1: look …"),
    (ev.TicketApproved(ticket_no=1, action="a"), "ticket 1: one approval of several"),
    (
        ev.TicketApproved(ticket_no=1, action="a", args={"a": 1}, note="less"),
        'ticket 1: one approval of several with {"a":1}: less',
    ),
    (ev.TicketEscalated(ticket_no=1, level=2, queue="leads"), "ticket 1 to level 2, queue leads"),
    (ev.TicketExpired(ticket_no=1, to="tell"), "nobody resolved ticket 1 in time; on to tell"),
    (ev.TicketExpired(ticket_no=1, to="fail"), "nobody resolved ticket 1 in time; the session fails"),
    (ev.TicketResolved(ticket_no=1, resolution="approve"), "ticket 1: approve"),
    (
        ev.TicketResolved(ticket_no=1, resolution="edit", value={"a": 1}, note="less"),
        'ticket 1: edit {"a":1}: less',
    ),
    (ev.TicketWithdrawn(ticket_no=1, why="over"), "ticket 1: over"),
    (ev.TicketWithdrawn(ticket_no=1, why="over", holder=BOB), "ticket 1, held by user:bob: over"),
    (ev.Paused(reason="lunch"), "until it is resumed: lunch"),
    (ev.Resumed(), "the session goes on"),
    (
        ev.Ending(status="cancelled", reason="enough"),
        "will be cancelled once its effects are settled and its branches have ended: enough",
    ),
    (
        ev.Ending(status="done", reason=""),
        "will be done once its effects are settled and its branches have ended",
    ),
    (ev.Cancelled(reason="enough"), "enough"),
    (ev.Expired(reason="late"), "late"),
    (ev.Failed(reason="3 attempts"), "3 attempts"),
    (ev.Completed(), "the plan ran to its end"),
    (ev.Refused(reason="no", policy="p"), "no (policy p)"),
    (ev.FannedOut(join_id=JOIN, branches=3, digest="d", opening=3), "3 branches of join j-2"),
    (ev.FannedOut(join_id="j", branches=1, digest="d", opening=1), "1 branch of join j"),
    (
        ev.BranchesOpened(join_id=JOIN, opened=500, opening=1000),
        "500 branches of join j-2 by now, now those up to 1000",
    ),
    (ev.BranchesOpened(join_id=JOIN, opened=3, opening=3), "3 branches of join j-2 by now"),
    (
        ev.JoinConflict(join_id=JOIN, fields=["a"], counted=3, why="the branches disagree in a"),
        "3 branches of join j-2 count: the branches disagree in a",
    ),
    (ev.JoinShort(join_id=JOIN, why="2 of 3", outcomes={"done": 2}), "join j-2: 2 of 3"),
    (
        ev.Joined(
            join_id=JOIN, how="enough", counted=2, digest="d", upto=3, outcomes={"refused": 1, "done": 2}
        ),
        "join j-2 is closed, enough branches ended (2 branches counted; 2 done, 1 refused)",
    ),
    (
        ev.Joined(join_id=JOIN, how="chosen", counted=1, digest="d", upto=3, branch="de"),
        "join j-2 is closed, a person chose branch de",
    ),
    (
        ev.Joined(join_id=JOIN, how="left", counted=0, digest="d", upto=0, why="too few", to="tell"),
        "join j-2 is closed, nothing is merged (0 branches counted; none): too few; on to tell",
    ),
    (
        ev.Joined(
            join_id=JOIN,
            how="left",
            counted=4,
            digest="d",
            upto=4,
            outcomes={"done": 4},
            why="a person gave the output",
        ),
        "join j-2 is closed, a person gave the output (4 branches counted; 4 done)",
    ),
    (
        ev.BranchesTold(join_id=JOIN, what="cancel", upto=500),
        "the first 500 branches of join j-2 were called off",
    ),
    (
        ev.BranchesTold(join_id=JOIN, what="rework"),
        "chosen branches of join j-2 go on with a person's feedback",
    ),
    (
        ev.JoinDrained(join_id=JOIN, outcomes={"done": 3}),
        "all branches of join j-2 have ended: 3 done",
    ),
    (
        ev.JoinDrained(
            join_id=JOIN,
            outcomes={"done": 3},
            effects=[LateEffect(branch="b", effect_id=EFFECT, tool="t")],
            more=2,
        ),
        "all branches of join j-2 have ended: 3 done; 3 effects done by branches that do not count",
    ),
    (ev.Reopened(feedback="again\nand again"), "sent back: again …"),
    (reserved.PenMoved(pen=2, visit_id="v-1"), '{"type":"PenMoved","pen":2,"visitId":"v-1"}'),
]


@pytest.mark.parametrize(
    ("event", "line"), SAID, ids=lambda one: type(one).__name__ if isinstance(one, ev.Event) else ""
)
def test_an_event_is_one_line(event: ev.Event, line: str) -> None:
    assert sentence(event) == line
    assert line.isprintable()


@pytest.mark.parametrize(
    ("event", "begins", "ends"),
    [
        (
            ev.LeaseLost(claim_id="c" * 32, retry_at=1),
            "the worker of claim cccccccc was lost; again from ",
            ":00",
        ),
        (
            ev.StageEntered(stage="pay", step=2, reason="done", deadline=1),
            "step 2 is stage pay (done), deadline ",
            ":00",
        ),
        (
            ev.ReturnRejected(claim_id="c", kind="error", problem="KeyError", retry_at=1),
            "error: KeyError; again from ",
            ":00",
        ),
        (ev.Paused(until=1), "until ", ":00"),
        (
            ev.TicketResolved(ticket_no=1, resolution="approve", valid_until=1),
            "ticket 1: approve, good until ",
            ":00",
        ),
        (ev.TicketClaimed(ticket_no=1, claim_id="t", until=1), "ticket 1 held until ", ":00"),
        (
            ev.TicketClaimed(ticket_no=1, claim_id="t", until=1, taken_from=BOB, reason="ill"),
            "ticket 1 held until ",
            ":00, taken over from user:bob: ill",
        ),
        (ev.TicketExtended(ticket_no=1, until=1), "ticket 1 held until ", ":00"),
        (
            ev.TicketReassigned(ticket_no=1, to=BOB, claim_id="t", until=1),
            "ticket 1 to user:bob, until ",
            ":00",
        ),
        (ev.TicketSnoozed(ticket_no=1, until=1, reason="later"), "ticket 1 rests until ", ":00: later"),
    ],
)
def test_a_time_in_an_event_is_local(event: ev.Event, begins: str, ends: str) -> None:
    assert sentence(event).startswith(begins)
    assert sentence(event).endswith(ends)


def test_every_event_that_is_written_has_a_sentence_of_its_own() -> None:
    plain = sentence.dispatch(object)
    assert [kind.__name__ for kind in get_args(ev.WrittenEvent) if sentence.dispatch(kind) is plain] == []


def test_what_is_marked_is_an_event() -> None:
    assert set(TRANSITIONS) >= TROUBLE | GOOD


def test_a_transition_names_number_time_principal_and_event() -> None:
    logged = ev.Logged(seq=3, at=5, by="user:ann", prev="", event=ev.Resumed())
    assert transition(logged) == Transition(
        seq=3, at=5, by="user:ann", event="Resumed", text="the session goes on"
    )


def test_each_line_of_a_whole_session_is_printable(desk: Desk) -> None:
    for logged in desk.paid().events():
        assert sentence(logged.event).isprintable()
        assert msgspec.json.encode(transition(logged))
