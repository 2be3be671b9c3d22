from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core import claims
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import KIB, RETURN_BUDGET
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Fenced
from passdown.contracts.plans import Grant
from passdown.contracts.replies import Held
from passdown.contracts.returns import Fence
from passdown.contracts.tools import ToolSpec
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one, stage, two
from tests.unit.core.spec import AGENT, START, TICK, Session, like


def reading(**fields: Any) -> Session:
    """A claimed session whose stage may read orders and send mail."""
    grants = [Grant(tool="orders.read"), Grant(tool="mail")]
    return Session(two(tools=grants, **fields), READ, MAIL).submit().claim()


def read(args: Any = None, **fields: Any) -> cmd.ToolNote:
    known: dict[str, Any] = {
        "tool": "orders.read",
        "args": args or {"id": "1"},
        "result_digest": "r",
        **fields,
    }
    return cmd.ToolNote(**known)


# Claim


def test_rule_02_a_claim_holds_the_attempt_for_its_lease() -> None:
    session = Session(one(lease_seconds=7.5)).submit()
    issued = session.state.issued
    assert issued
    body = cmd.Claim(
        fence=Fence(step=1, attempt=1, claim_id="claim-xyz"),
        pack_digest=issued.digest,
        agent="cashier",
        agent_version="3",
        model="m-1",
    )
    assert session.do(body, "agent:cashier") == Held(lease_ms=7_500)
    session.then(
        like(ev.Claimed, attempt=1, claim_id="claim-xyz", agent="cashier", agent_version="3", model="m-1")
    )
    session.stands("running")
    assert session.state.claim
    assert session.state.claim.by == "agent:cashier"


def test_rule_02_a_second_claim_of_an_attempt_is_told_who_holds_it() -> None:
    session = situations.queued().claim("agent:first")
    issued = session.state.issued
    assert issued
    body = cmd.Claim(fence=session.next_fence(), pack_digest=issued.digest)
    error = session.refuses(Fenced, body, match="agent:first holds it")
    assert isinstance(error, Fenced)
    assert error.current == "1/1/claim-00"


@pytest.mark.parametrize(("step", "attempt"), [(1, 2), (2, 1), (2, 2)])
def test_rule_02_a_claim_of_another_attempt_is_refused(step: int, attempt: int) -> None:
    session = situations.queued()
    issued = session.state.issued
    assert issued
    body = cmd.Claim(fence=Fence(step=step, attempt=attempt, claim_id="claim-001"), pack_digest=issued.digest)
    session.refuses(Fenced, body, match="that attempt is over")


def test_rule_01_a_pack_that_was_delivered_late_is_not_claimed() -> None:
    session = situations.queued()
    late = cmd.Claim(fence=session.next_fence(), pack_digest=session.pack.digest)
    session.claim().done()
    session.refuses(Fenced, late, match="that attempt is over")


def test_a_pack_that_was_altered_cannot_be_claimed() -> None:
    session = situations.queued()
    body = cmd.Claim(fence=session.next_fence(), pack_digest="0" * 64)
    session.refuses(ContractError, body, match="its digest is not that of attempt 1/1")


def test_a_claim_of_a_session_that_is_over_says_so() -> None:
    session = situations.cancelled()
    body = cmd.Claim(fence=session.next_fence(), pack_digest="0" * 64)
    session.refuses(Fenced, body, match="none (the session is cancelled)")


@pytest.mark.parametrize("field", ["step", "attempt", "claim_id"])
@pytest.mark.parametrize("kind", ["checkpoint", "note", "intend", "release"])
def test_rule_02_what_carries_another_fence_is_refused(kind: str, field: str) -> None:
    session = situations.running()
    wrong: dict[str, Any] = {"step": 2, "attempt": 2, "claim_id": "claim-002"}
    fence = replace(session.fence, **{field: wrong[field]})
    bodies: dict[str, cmd.Body] = {
        "checkpoint": cmd.Checkpoint(fence=fence, number=1, data={}),
        "note": cmd.NoteTools(fence=fence, number=1, notes=[]),
        "intend": cmd.Intend(fence=fence, effect_id="e", tool="mail", args={}),
        "release": cmd.Release(fence=fence),
    }
    session.refuses(Fenced, bodies[kind], match="is not the current one, which is 1/1/claim-00")


# Checkpoint


def test_a_checkpoint_is_the_last_valid_state_of_the_step() -> None:
    session = situations.running(recovery="continue")
    session.checkpoint({"page": 1}, {"mail:a": 1}).then(
        like(ev.Checkpointed, data={"page": 1}, counters={"mail:a": 1})
    )
    session.checkpoint({"page": 2}).lose()
    assert session.pack.snapshot
    assert (session.pack.snapshot.data, session.pack.snapshot.attempt) == ({"page": 2}, 1)


def test_rule_03_no_checkpoint_while_an_effect_is_intended() -> None:
    """It could not tell a write that is under way from one that has happened."""
    session = situations.running()
    effect = session.run("refund", ARGS)
    body = cmd.Checkpoint(fence=session.fence, number=1, data={})
    error = session.refuses(Conflict, body, match="no checkpoint while refund is under way")
    assert isinstance(error, Conflict)
    assert error.winner == effect
    session.report(effect).checkpoint({"refunded": True}).then("Checkpointed")


def test_a_checkpoint_while_an_effect_is_unknown_is_good() -> None:
    session = situations.running()
    effect = session.run("refund", ARGS)
    session.report(effect, "unknown").checkpoint({"n": 1}).then("Checkpointed")


def test_a_settle_attempt_checkpoints_nothing() -> None:
    session = situations.settle_running()
    session.refuses(Conflict, cmd.Checkpoint(fence=session.fence, number=1, data={}), match="only settles")


@pytest.mark.parametrize(
    ("data", "problem"), [({"n": float("inf")}, "NaN and infinities"), ({"n": "\ud800"}, "lone surrogate")]
)
def test_rule_11_a_checkpoint_that_is_not_json_changes_nothing(data: Any, problem: str) -> None:
    session = situations.running()
    session.refuses(ContractError, cmd.Checkpoint(fence=session.fence, number=1, data=data), match=problem)


def test_rule_12_a_checkpoint_over_the_budget_is_refused() -> None:
    session = situations.running()
    body = cmd.Checkpoint(fence=session.fence, number=1, data="x" * RETURN_BUDGET)
    session.refuses(BudgetExceeded, body, match="checkpoint has")


def test_rule_12_a_checkpoint_that_would_fill_the_state_is_refused() -> None:
    session = situations.running()
    for n in range(3):
        session.run("mail", {"to": str(n), "text": "x" * (25 * KIB)})
    for row in session.state.effects:
        session.report(row.effect_id, "unknown")
    body = cmd.Checkpoint(fence=session.fence, number=1, data="x" * (40 * KIB))
    error = session.refuses(BudgetExceeded, body, match="session state with this checkpoint")
    assert isinstance(error, BudgetExceeded)
    assert list(error.largest) == ["effects", "snapshot", "data"]


def test_rule_12_a_checkpoint_that_no_pack_could_carry_is_refused_while_somebody_can_shorten_it() -> None:
    session = Session(two()).submit({"big": "x" * (30 * KIB)}).claim()
    session.checkpoint("x" * (20 * KIB))
    body = cmd.Checkpoint(fence=session.fence, number=2, data="x" * (36 * KIB))
    error = session.refuses(BudgetExceeded, body, match="the pack that would carry this checkpoint")
    assert isinstance(error, BudgetExceeded)
    assert set(error.largest) == {"snapshot", "inputs"}
    session.lose()
    assert session.pack.cause == "retry"


# Notes


def test_reading_calls_are_recorded_with_digests_and_time() -> None:
    session = reading().tick(5_000)
    session.note(read({"id": "7"}, age_ms=1_500, kept=True, result={"total": 9}))
    session.then(
        like(
            ev.ToolCalled,
            tool="orders.read",
            args={"id": "7"},
            result_digest="r",
            kept=True,
            fresh_for_ms=60_000,
        )
    )
    (kept,) = session.state.reads
    assert (kept.at, kept.result) == (START + 3_500, {"total": 9})


def test_a_read_from_the_future_is_from_now() -> None:
    session = reading().note(read(age_ms=-60_000))
    assert session.state.reads[0].at == START


def test_rule_12_a_large_result_or_argument_stays_out_of_the_state() -> None:
    session = reading()
    session.note(read(kept=True, result="x" * (4 * KIB)))
    assert (session.state.reads[0].kept, session.state.reads[0].result) == (False, None)
    session.note(read({"id": "x" * (4 * KIB)}, kept=True, result=1))
    assert (session.state.reads[1].kept, session.state.reads[1].args) == (False, None)


@pytest.mark.parametrize("last", ["give", "fail", "release", "checkpoint", "intend"])
def test_reading_calls_ride_in_the_next_commit_of_the_claim(last: str) -> None:
    session = reading()
    fence, notes = session.fence, [read()]
    bodies: dict[str, cmd.Body] = {
        "give": cmd.Give(fence=fence, body=session.body().body, notes=notes),
        "fail": cmd.Fail(fence=fence, problem="p", notes=notes),
        "release": cmd.Release(fence=fence, notes=notes),
        "checkpoint": cmd.Checkpoint(fence=fence, number=1, data={}, notes=notes),
        "intend": replace(session.intent("mail", {"to": "a"}), notes=notes),
    }
    session.do(bodies[last])
    assert isinstance(session.last[0], ev.ToolCalled)
    assert len(session.last) > 1


def as_dict(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@pytest.mark.parametrize(
    ("note", "why"),
    [
        (cmd.ToolNote(tool="refund", args=ARGS), "stage work does not grant it"),
        (cmd.ToolNote(tool="unheard.of", args={}), "stage work does not grant it"),
        (cmd.ToolNote(tool="mail", args={}), "it writes"),
        (read({"wrong": 1}), '"id" is a required property'),
        (read(denied="the worker knew better"), "the worker knew better"),
    ],
)
def test_rule_05_a_call_that_the_stage_does_not_grant_is_recorded_as_denied(
    note: cmd.ToolNote, why: str
) -> None:
    session = reading().note(note)
    (event,) = session.last
    assert isinstance(event, ev.ToolDenied)
    assert why in event.why
    assert session.state.reads == []


def test_rule_05_a_stage_narrows_what_may_be_read() -> None:
    grant = Grant(tool="orders.read", params={"id": {"enum": ["1", "2"]}})
    session = Session(one(tools=[grant]), READ).submit().claim()
    session.note(read({"id": "2"})).then("ToolCalled")
    session.note(read({"id": "3"})).then("ToolDenied")


def test_rule_11_a_note_that_is_not_json_changes_nothing() -> None:
    session = reading()
    body = cmd.NoteTools(fence=session.fence, number=1, notes=[read({"id": float("nan")})])
    session.refuses(ContractError, body, match="tool note")


def test_rule_11_a_tool_name_that_no_one_can_encode_changes_nothing() -> None:
    session = reading()
    note = cmd.ToolNote(tool="\ud800", args={})
    session.refuses(
        ContractError, cmd.NoteTools(fence=session.fence, number=1, notes=[note]), match="surrogate"
    )


# How a claim ends without a return


def test_a_worker_that_lets_go_counts_no_failure() -> None:
    session = situations.running(max_attempts=1)
    for attempt in (2, 3, 4):
        session.release().then(
            "ClaimReleased", like(ev.PackIssued, cause="retry", attempt=attempt, solo=False)
        ).claim()
    session.stands("running", failures=0, lost=0, feedback=[])


def test_a_lost_lease_counts_and_its_retry_runs_solo() -> None:
    session = situations.running()
    session.lose().then(
        like(ev.LeaseLost, claim_id="claim-001"), like(ev.PackIssued, cause="retry", solo=True)
    )
    session.stands("queued", failures=1, lost=1)
    assert session.pack.feedback[0].kind == "lost"


def test_rule_01_the_lease_of_another_claim_running_out_changes_nothing() -> None:
    session = situations.running().lose().claim()
    for _ in range(2):
        session.do(cmd.Due(kind="lease", subject="claim-001", due_at=0), TICK)
        session.nothing()
    session.stands("running")


def restarted(session: Session, claim_id: str = "claim-001") -> None:
    session.do(cmd.Due(kind="restarted", subject=claim_id, due_at=0), TICK)


def test_rule_03_what_is_under_way_is_unknown_once_the_store_was_restarted() -> None:
    """It may have lost the record of how the write ended, or others with it (DESIGN §6)."""
    session = situations.intended()
    restarted(session)
    session.then(
        like(ev.EffectUnknown, why="the store was restarted while it was under way"),
        like(ev.LeaseLost, claim_id="claim-001"),
        like(ev.PackIssued, cause="settle"),
    )
    session.stands("queued", failures=1, lost=1)
    restarted(session)
    session.nothing()


def test_a_restart_of_the_store_leaves_claims_alone_that_have_nothing_under_way() -> None:
    session = situations.running()
    session.report(session.run("mail", {"to": "a"}))
    restarted(session)
    session.nothing()
    session.done()
    session.stands("queued", failures=0)


def test_rule_01_a_restart_that_another_claim_lived_through_changes_nothing() -> None:
    session = situations.running().lose().claim()
    session.run("mail", {"to": "a"})
    restarted(session)
    session.nothing()
    restarted(session, "claim-002")
    session.then("EffectUnknown", "LeaseLost", "PackIssued")


def test_rule_03_a_worker_that_says_how_its_write_ended_after_the_restart_is_believed() -> None:
    session = situations.intended()
    effect, claim_id = session.state.effects[0].effect_id, session.fence.claim_id
    restarted(session)
    session.do(cmd.Report(effect_id=effect, claim_id=claim_id, phase="done", result={"id": 9}))
    session.then("EffectDone", like(ev.PackIssued, cause="retry"))


def test_after_a_restart_a_person_decides_where_the_plan_says_so() -> None:
    """`recovery` counts whatever was lost, the worker or the store's last moments."""
    session = situations.running(recovery="human")
    effect = session.run("mail", {"to": "a"})
    restarted(session)
    session.claim().settle(e1="found")
    session.then("EffectSettled", "ClaimReleased", like(ev.TicketOpened, kind="failure"))
    assert session.state.effect(effect)


@pytest.mark.parametrize("how", ["lose", "release", "fail", "done"])
def test_rule_03_what_is_intended_when_its_claim_ends_is_unknown_in_that_commit(how: str) -> None:
    session = situations.intended()
    getattr(session, how)()
    assert isinstance(session.last[0], ev.EffectUnknown)
    assert not isinstance(session.last[-1], ev.EffectUnknown)
    session.stands("queued")
    assert session.pack.cause == "settle"


def test_rule_03_a_proposal_ends_the_claim_and_what_runs_beside_it_is_unknown() -> None:
    grants = [Grant(tool="refund", approve="approvers"), Grant(tool="mail")]
    session = Session(two(tools=grants), REFUND, MAIL).submit().claim()
    session.run("mail", {"to": "a"})
    session.intend("refund", ARGS)
    session.then("EffectUnknown", "EffectProposed", "TicketOpened", like(ev.PackIssued, cause="settle"))


# Fenced


def test_rule_02_what_comes_too_late_is_recorded_up_to_a_cap_and_refused_always() -> None:
    session = situations.running().lose()
    for _ in range(claims.FENCED_RECORDED):
        session.refused_and_recorded(Fenced, session.body())
        session.then("ReturnFenced")
    before = session.state
    for body in (session.body(), cmd.Fail(fence=session.fence, problem="p")):
        session.refused_and_recorded(Fenced, body)
        session.nothing()
    assert session.state is before
    assert before.fenced == claims.FENCED_RECORDED == 100


def test_rule_02_a_fenced_return_has_no_effect_on_the_state() -> None:
    session = situations.running().lose()
    before = session.state
    error = session.refused_and_recorded(Fenced, session.body({"x": 1}))
    assert "stop this work" in str(error)
    after = session.state
    assert {name for name, value in as_dict(after).items() if value != getattr(before, name)} == {
        "fenced",
        "seq",
        "head",
    }


def test_rule_02_a_return_to_a_session_that_is_over_is_recorded_too() -> None:
    session = situations.running().cancel()
    session.refused_and_recorded(Fenced, session.body())
    session.then(like(ev.ReturnFenced, fence=session.fence)).stands("cancelled")


def test_rule_02_the_current_claim_may_work_on_after_others_were_fenced() -> None:
    session = situations.running()
    old = session.body()
    session.lose().claim()
    session.refused_and_recorded(Fenced, old)
    session.done({"x": 1}).then("Returned", "StageEntered", "PackIssued")


def test_a_stage_without_tools_denies_every_call() -> None:
    session = Session(one(), READ).submit().claim()
    session.note(read()).then("ToolDenied")
    assert session.pack.tools == []


def test_the_worker_that_claims_is_named_in_what_it_returns() -> None:
    session = Session(two(stage())).submit().claim(AGENT)
    session.done().then(like(ev.Returned, agent="a", agent_version="1"), "StageEntered", "PackIssued")


def test_tools_are_pinned_by_the_pack_and_not_by_what_is_registered_meanwhile() -> None:
    session = reading()
    session.register(ToolSpec(name="orders.read", params={"type": "object", "required": ["other"]}))
    session.note(read({"id": "1"})).then("ToolCalled")
