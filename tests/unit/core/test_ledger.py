from collections.abc import Callable
from typing import Literal

import pytest

from passdown.broker.core.bounds import READS_KEPT
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import INLINE_LIMIT, KIB, decode
from passdown.contracts.plans import Grant, Next
from passdown.contracts.replies import Recorded
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, READ, REFUND, one
from tests.unit.core.spec import Session


def event_at(session: Session, seq: int) -> ev.Event:
    return decode(session.log[seq - 1], ev.Logged).event


@pytest.mark.parametrize(("size", "inline"), [(INLINE_LIMIT - 2, True), (INLINE_LIMIT - 1, False)])
def test_a_result_over_4_kib_stands_in_its_event_only_and_the_reply_says_which(
    size: int, inline: bool
) -> None:
    session = situations.running()
    effect = session.run("mail", {"to": "a"})
    session.report(effect, result="x" * size).release().claim()
    reply = session.intend("mail", {"to": "a"})
    assert isinstance(reply, Recorded)
    row = session.effect(effect)
    assert (reply.result is not None, reply.seq is None, row.result_out) == (inline, inline, not inline)
    event = event_at(session, row.result_seq)
    assert isinstance(event, ev.EffectDone)
    assert event.result == "x" * size


def test_a_result_that_left_the_state_later_is_found_in_its_event_too() -> None:
    session = situations.running()
    effects = [session.run("mail", {"to": str(n)}) for n in range(8)]
    for n, effect in enumerate(effects):
        session.report(effect, result=[n, "x" * 3_000])
    session.release().claim()
    reply = session.intend("mail", {"to": "0"})
    assert isinstance(reply, Recorded)
    assert reply.seq is not None
    event = event_at(session, reply.seq)
    assert isinstance(event, ev.EffectDone)
    assert event.result == [0, "x" * 3_000]


def test_a_settled_result_is_found_in_the_event_that_settled_it() -> None:
    session = situations.settle_running()
    effect = session.state.effects[0].effect_id
    verdict = cmd.Verdict(effect_id=effect, found="found", result="x" * (5 * KIB))
    session.do(cmd.Settle(fence=session.fence, verdicts=[verdict]))
    reply = session.claim().intend("refund", ARGS)
    assert isinstance(reply, Recorded)
    assert reply.seq
    event = event_at(session, reply.seq)
    assert isinstance(event, ev.EffectSettled)
    assert event.result == "x" * (5 * KIB)


def test_a_result_of_a_person_is_the_effect_s_result() -> None:
    session = situations.effect_ticket().resolve("done", {"id": "by hand"}).claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Recorded)
    assert reply.result == {"id": "by hand"}


def test_a_result_of_null_needs_no_look_into_the_log() -> None:
    session = situations.running()
    effect = session.run("mail", {"to": "a"})
    session.report(effect, result=None).release().claim()
    assert session.intend("mail", {"to": "a"}) == Recorded(
        effect_id=effect, status="done", result=None, seq=None
    )


def test_large_arguments_leave_the_state_once_the_effect_has_ended_and_their_event_is_named() -> None:
    session = situations.running()
    args = {"to": "a", "text": "x" * (5 * KIB)}
    effect = session.run("mail", args)
    assert session.effect(effect).args == args
    session.report(effect)
    row = session.effect(effect)
    assert row.args is None
    event = event_at(session, row.args_seq)
    assert isinstance(event, ev.EffectIntended)
    assert event.args == args


def test_an_effect_whose_arguments_left_the_state_is_still_the_same_effect() -> None:
    session = situations.running()
    effect = session.run("mail", {"to": "a", "text": "x" * (5 * KIB)})
    session.report(effect, "failed").release().claim()
    assert session.run("mail", {"to": "a", "text": "x" * (5 * KIB)}) == effect


def test_large_edited_arguments_are_left_out_and_not_mistaken_for_the_proposed_ones() -> None:
    session = situations.running(approve="approvers")
    session.intend("refund", ARGS)
    session.resolve("edit", {**ARGS, "memo": "m" * (5 * KIB)}).claim()
    effect = session.run("refund", ARGS)
    session.report(effect).release()
    (told,) = session.pack.effects
    assert (told.args, told.omitted) == (None, True)


def test_a_repeat_still_runs_the_edited_arguments_after_many_other_effects() -> None:
    session = situations.running(approve="approvers")
    session.intend("refund", ARGS)
    less = {**ARGS, "cents": 1}
    session.resolve("edit", less).claim()
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="unsure").resolve("not-done").claim()
    for n in range(20):
        session.report(session.run("mail", {"to": str(n)}), result="x" * 2_000)
    session.run("refund", ARGS)
    assert session.last[-1].args == less  # type: ignore[union-attr]


def not_done(session: Session) -> None:
    """A write that its person says did not happen, so that it may be repeated; its agent does not."""
    found: dict[str, Literal["unsure"]] = {f"e{len(session.state.effects)}": "unsure"}
    session.lose().claim().settle(**found).resolve("not-done")


def not_run(session: Session) -> None:
    """A proposal that is approved and not run, and is left at that."""
    session.resolve("approve").claim().done().resolve("deny")


@pytest.mark.parametrize(("approve", "end"), [(None, not_done), ("approvers", not_run)])
def test_rule_12_what_a_step_that_is_over_might_have_run_leaves_its_bulk_in_the_log(
    approve: str | None, end: Callable[[Session], None]
) -> None:
    grants = [Grant(tool="refund", approve=approve)]
    session = Session(one(tools=grants, next=Next(to="work"), max_entries=20), REFUND).submit()
    for n in range(12):
        session.claim().intend("refund", {**ARGS, "order": str(n), "memo": "x" * 12_000})
        end(session)
        if session.state.step == n + 1:
            session.claim().done()
    assert [row.effect_id for row in session.state.effects if row.args] == [
        session.state.effects[-1].effect_id
    ]


def test_rows_are_numbered_in_the_order_of_their_first_event() -> None:
    session = situations.running()
    session.run("mail", {"to": "a"})
    session.run("mail", {"to": "b"})
    assert [(row.ordinal, row.args["to"]) for row in session.state.effects if row.args] == [
        (1, "a"),
        (2, "b"),
    ]


def test_as_many_reads_stay_as_may() -> None:
    session = Session(one(tools=[Grant(tool="orders.read")]), READ).submit().claim()
    for n in range(READS_KEPT + 3):
        session.note(cmd.ToolNote(tool="orders.read", args={"id": n}))
    assert len(session.state.reads) == READS_KEPT
    assert session.state.reads[0].args == {"id": 3}
    assert session.state.left_out == 3
