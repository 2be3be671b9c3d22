from typing import Any

import pytest
from msgspec.structs import replace

from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError, Fenced, NotFound
from passdown.contracts.plans import FAIL, Grant
from passdown.contracts.replies import Recorded
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, writing
from tests.unit.core.spec import Session, like

TO = {"to": "a"}


def unknown(tool: str = "refund", **fields: Any) -> tuple[Session, str]:
    """A session whose effect is unknown, and its tool about to be asked."""
    session = situations.running(**fields)
    effect = session.run(tool, ARGS if tool == "refund" else TO)
    return session.lose(), effect


# The settle attempt


def test_settling_is_the_step_s_next_attempt_and_carries_the_arguments() -> None:
    session, effect = unknown()
    session.then("EffectUnknown", "LeaseLost", like(ev.PackIssued, cause="settle", attempt=2, from_top=False))
    (told,) = session.pack.effects
    assert (told.effect_id, told.status, told.args) == (effect, "unknown", ARGS)
    assert [tool.name for tool in session.pack.tools] == ["refund"]


def test_a_settle_pack_carries_nothing_that_only_an_agent_would_go_by() -> None:
    session = situations.running(recovery="continue").fail().claim().checkpoint({"half": 1})
    session.run("refund", ARGS)
    session.lose()
    assert (session.pack.snapshot, session.pack.feedback, session.pack.reads) == (None, [], [])
    session.claim().settle(e1="found")
    assert session.pack.snapshot
    assert session.pack.feedback


def test_found_is_done_with_its_result_and_the_step_is_retried() -> None:
    session, effect = unknown()
    fence = session.claim().fence
    verdict = cmd.Verdict(effect_id=effect, found="found", result={"id": 9})
    session.do(cmd.Settle(fence=fence, verdicts=[verdict]))
    session.then(
        like(ev.EffectSettled, status="done", result={"id": 9}, how="verify"),
        like(ev.ClaimReleased, reason="settled"),
        like(ev.PackIssued, cause="retry"),
    )
    session.claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=effect, status="done", result={"id": 9})


def test_rule_03_absent_allows_a_repeat_only_where_a_repeated_key_is_absorbed() -> None:
    session, effect = unknown("mail")
    session.claim().settle(e1="absent")
    session.then(
        like(ev.EffectSettled, status="not-done", repeat=True), "ClaimReleased", "PackIssued"
    ).claim()
    assert session.run("mail", TO) == effect

    session, _ = unknown("refund")
    session.claim().settle(e1="absent").then("ClaimReleased", like(ev.TicketOpened, kind="effect"))
    assert "its first try may still arrive" in session.state.tickets[0].why


def test_what_is_not_done_and_may_not_be_repeated_is_answered_as_failed() -> None:
    """No command of this version settles it like that; a log may."""
    session, effect = unknown("mail")
    session.record(ev.EffectSettled(effect_id=effect, status="not-done"))
    session.do(cmd.Due(kind="retry-at", subject="1/3", due_at=session.at))
    session.claim()
    assert session.intend("mail", TO) == Recorded(
        effect_id=effect, status="failed", error="its worker was lost"
    )


@pytest.mark.parametrize("verdicts", [{"e1": "unsure"}, {}])
def test_unsure_or_no_verdict_is_a_ticket(verdicts: dict[str, Any]) -> None:
    session, effect = unknown("mail")
    session.claim().settle(**verdicts)
    session.then(
        "ClaimReleased", like(ev.TicketOpened, kind="effect", about=effect, actions=["done", "not-done"])
    )
    session.stands("waiting-human", claim=None, issued=None)


def test_junk_in_a_verdict_is_unsure() -> None:
    session, effect = unknown("mail")
    verdict = cmd.Verdict(effect_id=effect, found="found", result=float("nan"))
    session.claim().do(cmd.Settle(fence=session.fence, verdicts=[verdict]))
    session.then("ClaimReleased", "TicketOpened")
    assert "its result cannot be kept" in session.state.tickets[0].why


def test_a_verdict_on_what_was_never_asked_is_ignored() -> None:
    session, effect = unknown("mail")
    verdicts = [cmd.Verdict(effect_id="e-none", found="found"), cmd.Verdict(effect_id=effect, found="found")]
    session.claim().do(cmd.Settle(fence=session.fence, verdicts=verdicts))
    session.then("EffectSettled", "ClaimReleased", "PackIssued")


def test_each_of_several_effects_gets_its_own_answer() -> None:
    session = situations.running()
    session.run("mail", {"to": "a"})
    session.run("mail", {"to": "b"})
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="found", e2="absent", e3="absent")
    session.then("EffectSettled", "EffectSettled", "ClaimReleased", "TicketOpened").stands("waiting-human")
    session.resolve("not-done").then("TicketResolved", "EffectSettled", like(ev.PackIssued, cause="retry"))
    assert [row.status for row in session.state.effects] == ["done", "not-done", "not-done"]


@pytest.mark.parametrize("field", ["step", "attempt", "claim_id"])
def test_rule_02_verdicts_carry_the_fence(field: str) -> None:
    session = situations.settle_running()
    wrong: dict[str, Any] = {"step": 9, "attempt": 9, "claim_id": "claim-099"}
    fence = replace(session.fence, **{field: wrong[field]})
    session.refuses(Fenced, cmd.Settle(fence=fence, verdicts=[]), match="it holds no settle attempt")


def test_verdicts_of_an_ordinary_attempt_are_refused() -> None:
    session = situations.running()
    session.refuses(Fenced, cmd.Settle(fence=session.fence, verdicts=[]))


def test_a_tool_that_no_plan_grants_any_more_is_still_asked() -> None:
    """Finding out is no write; a tool that was withdrawn must not leave its effect unknown for ever."""
    session = situations.intended()
    session.newest = one()
    session.lose().then("EffectUnknown", "LeaseLost", like(ev.PackIssued, cause="settle"))
    assert [tool.name for tool in session.pack.tools] == ["refund"]
    session.claim().settle(e1="found").then("EffectSettled", "ClaimReleased", "PackIssued")
    assert session.pack.tools == []


def test_a_tool_that_is_not_registered_any_more_leaves_it_to_a_person() -> None:
    session = situations.intended()
    session.registered.clear()
    session.lose().then("EffectUnknown", "LeaseLost", like(ev.TicketOpened, kind="effect"))


def test_unknown_effects_too_large_for_one_pack_are_left_to_a_person() -> None:
    session = situations.running()
    for n in range(3):
        session.run("mail", {"to": str(n), "text": "x" * 25_000})
    session.lose()
    assert [type(event).__name__ for event in session.last][-3:] == ["TicketOpened"] * 3
    session.stands("waiting-human")
    assert all(row.args for row in session.state.effects)


def test_an_unknown_effect_is_not_asked_about_while_the_session_is_paused() -> None:
    session, _ = unknown()
    session.pause().stands("paused", issued=None)
    session.resume().then("Resumed", like(ev.PackIssued, cause="settle"))


def test_what_a_running_claim_does_not_know_is_settled_once_it_has_ended() -> None:
    session = situations.running()
    effect = session.run("mail", TO)
    session.report(effect, "unknown", error="timed out").then(like(ev.EffectUnknown, why="timed out")).stands(
        "running"
    )
    session.done({"x": 1}).then(like(ev.Returned, kept=True), like(ev.PackIssued, cause="settle"))


# A kept return


def kept(**fields: Any) -> Session:
    session = situations.running(**fields)
    session.run("mail", TO)
    return session.done({"x": 1})


def test_a_return_is_kept_until_the_effects_are_settled_and_applied_then() -> None:
    session = kept()
    session.then("EffectUnknown", like(ev.Returned, kept=True), like(ev.PackIssued, cause="settle"))
    session.claim().settle(e1="found")
    session.then("EffectSettled", "ClaimReleased", like(ev.StageEntered, stage="tell"), "PackIssued")
    assert session.pack.inputs["x"] == 1


def test_rule_03_done_over_not_done_is_rejected() -> None:
    session = kept(max_attempts=1, on_failed=FAIL)
    session.claim().settle(e1="absent")
    session.then("EffectSettled", "ClaimReleased", like(ev.ReturnRejected, kind="unsettled"), "Failed")


@pytest.mark.parametrize("how", ["verify", "person", "late truth"])
def test_rule_03_done_over_not_done_is_rejected_whoever_says_it(how: str) -> None:
    session = kept()
    effect, first = session.state.effects[0].effect_id, session.fence.claim_id
    if how == "verify":
        session.claim().settle(e1="absent")
    elif how == "person":
        session.claim().settle(e1="unsure").resolve("not-done")
    else:
        session.report(effect, "failed", claim_id=first)
    assert [type(one).__name__ for one in session.last][-2:] == ["ReturnRejected", "PackIssued"]
    assert "mail turned out not to have happened" in session.pack.feedback[0].text
    session.claim()
    assert session.run("mail", TO) == effect


@pytest.mark.parametrize(
    ("give", "last"), [("refuse", "Refused"), ("escalate", "TicketOpened"), ("ask", "InputRequested")]
)
def test_what_is_kept_is_followed_though_the_effect_did_not_happen_unless_it_says_done(
    give: str, last: str
) -> None:
    session = situations.running()
    session.run("mail", TO)
    {"refuse": session.refuse, "escalate": session.escalate, "ask": lambda: session.ask("why")}[give]()
    session.claim().settle(e1="absent")
    assert type(session.last[-1]).__name__ == last


def test_a_failed_effect_that_the_agent_knew_of_does_not_reject_done() -> None:
    session = situations.running()
    effect = session.run("mail", TO)
    session.report(effect, "failed").done().then("Returned", "StageEntered", "PackIssued")


def test_not_done_of_an_earlier_attempt_does_not_reject_done() -> None:
    """That agent was told, and did without."""
    session, _ = unknown("mail")
    session.claim().settle(e1="absent").claim().done().then("Returned", "StageEntered", "PackIssued")


# The truth is accepted late


@pytest.mark.parametrize("where", ["settle queued", "settle running", "ticket", "retry running", "next step"])
def test_rule_02_the_truth_about_an_effect_is_accepted_late(where: str) -> None:
    session, effect = unknown("mail")
    first = session.fence.claim_id
    if where == "settle running":
        session.claim()
    if where == "ticket":
        session.claim().settle(e1="unsure")
    if where in ("retry running", "next step"):
        session.claim().settle(e1="found").claim()
    if where == "next step":
        session.done().claim()
    session.report(effect, claim_id=first, result={"id": 5})
    assert session.effect(effect).status == "done"
    assert not any(isinstance(one, ev.TicketOpened) for one in session.last)


def test_late_truth_withdraws_a_settle_pack_in_the_queue() -> None:
    session, effect = unknown("mail")
    session.report(effect, claim_id="claim-001").then(
        "EffectDone", like(ev.PackIssued, cause="retry", attempt=3)
    )


def test_late_truth_about_one_of_two_leaves_the_settle_pack_in_the_queue() -> None:
    session = situations.running()
    first = session.run("mail", {"to": "a"})
    session.run("mail", {"to": "b"})
    session.lose().report(first, claim_id="claim-001").then("EffectDone").stands("queued")
    assert session.pack.cause == "settle"


def test_late_truth_withdraws_the_question_to_a_person_and_applies_a_kept_return() -> None:
    session = kept().claim().settle(e1="unsure")
    session.report(session.state.effects[0].effect_id, claim_id="claim-001")
    session.then("EffectDone", "TicketWithdrawn", "StageEntered", "PackIssued")


def test_verdicts_after_the_truth_arrived_change_nothing_about_it() -> None:
    session, effect = unknown("mail")
    session.claim().report(effect, claim_id="claim-001", result="true").settle(e1="absent")
    session.then("ClaimReleased", like(ev.PackIssued, cause="retry"))
    assert (session.effect(effect).status, session.effect(effect).result) == ("done", "true")


def test_the_same_truth_twice_is_said_once() -> None:
    session = situations.running()
    effect = session.run("mail", TO)
    session.report(effect).report(effect).nothing()


def test_rule_02_who_recorded_no_intent_knows_no_truth() -> None:
    session, effect = unknown("mail")
    session.claim()
    body = cmd.Report(effect_id=effect, claim_id=session.fence.claim_id, phase="done")
    session.refuses(Fenced, body, match="it recorded no intent")


def test_a_report_on_an_effect_that_does_not_exist_is_refused() -> None:
    session = situations.running()
    body = cmd.Report(effect_id=f"{session.id}.e-none", claim_id="claim-001", phase="done")
    session.refuses(NotFound, body, match="there is no effect")


def test_rule_03_a_held_claim_whose_intent_a_store_lost_can_record_it_again() -> None:
    """A repeat of an effect that failed before: what is known is the older try, which is not this claim's."""
    session = situations.running()
    effect = session.run("mail", TO)
    session.report(effect, "failed").fail().claim()
    body = cmd.Report(effect_id=effect, claim_id=session.fence.claim_id, phase="done", result={"id": 1})
    session.refuses(NotFound, body, match="this claim recorded no intent for it")
    session.run("mail", TO)
    session.do(body)
    session.then("EffectDone")


def test_rule_11_a_result_that_is_not_json_changes_nothing() -> None:
    session = situations.running()
    effect = session.run("mail", TO)
    body = cmd.Report(effect_id=effect, claim_id="claim-001", phase="done", result=float("inf"))
    session.refuses(ContractError, body, match="effect result")


# Contradictions: a ticket, the ledger on the safe side, and never a session reopened


def repeated(tool: str = "mail") -> tuple[Session, str]:
    """A session whose effect was settled as not done, and is being repeated."""
    session, effect = unknown(tool)
    session.claim().settle(e1="absent")
    if tool == "refund":
        session.resolve("not-done")
    assert session.claim().effect(effect).repeat
    session.run(tool, TO if tool == "mail" else ARGS)
    assert not session.effect(effect).repeat, "one repeat is allowed, and this is it"
    return session, effect


def test_done_after_not_done_was_settled_is_a_ticket_and_is_not_repeated() -> None:
    session, effect = unknown("mail")
    session.claim().settle(e1="absent").claim()
    session.report(effect, claim_id="claim-001", result=1)
    session.then("EffectDone", like(ev.TicketOpened, kind="effect", about=effect)).stands("running")
    assert "held for not-done, and did happen after all" in session.state.tickets[0].why
    assert session.intend("mail", TO) == Recorded(effect_id=effect, status="done", result=1)


def test_a_first_worker_that_wakes_up_while_its_effect_is_repeated_is_harmless_where_keys_are_absorbed() -> (
    None
):
    session, effect = repeated("mail")
    session.report(effect, claim_id="claim-001").then("EffectDone")
    session.report(effect).nothing()
    session.done().then("Returned", "StageEntered", "PackIssued")


def test_a_first_worker_that_wakes_up_while_its_effect_is_repeated_is_a_ticket_elsewhere() -> None:
    session, effect = repeated("refund")
    session.report(effect, claim_id="claim-001").then("EffectDone", like(ev.TicketOpened, kind="effect"))
    session.report(effect).nothing().stands("running")


def test_what_the_first_worker_says_of_its_failed_try_says_nothing_of_the_repeat() -> None:
    session, effect = repeated("mail")
    session.report(effect, "unknown", claim_id="claim-001").nothing()
    session.report(effect, "failed", claim_id="claim-001").nothing()
    session.lose().report(effect, "failed", claim_id="claim-001").nothing()
    assert session.effect(effect).status == "unknown"


def test_failed_after_done_was_settled_is_a_ticket_and_stays_done() -> None:
    session, effect = unknown("refund")
    session.claim().settle(e1="found").claim()
    session.report(effect, "failed", claim_id="claim-001", error="no")
    session.then("EffectFailed", like(ev.TicketOpened, kind="effect")).stands("running")
    assert session.effect(effect).status == "done"
    session.report(effect, "failed", claim_id="claim-001", error="no, really").then("EffectFailed")


def test_a_person_may_say_that_what_was_held_for_done_did_not_happen() -> None:
    session, effect = unknown("refund")
    session.claim().settle(e1="found").claim().report(effect, "failed", claim_id="claim-001")
    session.resolve("not-done").then(
        "TicketResolved", like(ev.EffectSettled, status="not-done", repeat=True, how="person")
    )
    assert session.run("refund", ARGS) == effect


def test_a_person_who_says_what_the_ledger_says_changes_nothing() -> None:
    session = situations.disputed()
    session.resolve("done").then("TicketResolved")
    assert session.state.effects[0].status == "done"


@pytest.mark.parametrize("name", situations.OVER)
@pytest.mark.parametrize("resolution", ["done", "not-done"])
def test_a_contradiction_never_reopens_a_session_that_is_over(name: str, resolution: Any) -> None:
    session = situations.OVER[name]()
    row = session.state.effects[0]
    session.report(row.effect_id, "failed", claim_id=row.claims[0])
    session.then("EffectFailed", like(ev.TicketOpened, kind="effect")).stands(name)
    session.resolve(resolution).stands(name, tickets=[])
    assert session.effect(row.effect_id).status == resolution
    if resolution == "not-done":
        session.report(row.effect_id, claim_id=row.claims[0]).then("EffectDone", "TicketOpened").stands(name)


def test_a_failed_session_in_dispute_is_not_reopened_before_a_person_has_decided() -> None:
    from passdown.contracts.errors import Conflict

    session = situations.failed()
    row = session.state.effects[0]
    session.report(row.effect_id, "failed", claim_id=row.claims[0])
    session.refuses(Conflict, cmd.Retry(seen=session.state.seq), match="not known what happened outside")
    session.resolve("done").retry().then("PackIssued")


def test_a_dispute_outlives_the_step_and_the_session() -> None:
    session = situations.disputed().done()
    assert [ticket.kind for ticket in session.state.tickets] == ["effect"]
    session.cancel().then("Cancelled").stands("cancelled")
    assert [ticket.kind for ticket in session.state.tickets] == ["effect"]


def test_every_claim_that_intended_an_effect_may_tell_the_truth_and_is_kept_once() -> None:
    session = situations.running()
    effect = session.run("mail", TO)
    session.report(effect, "failed").fail().claim()
    session.run("mail", TO)
    assert session.effect(effect).claims == ["claim-001", "claim-002"]
    assert session.effect(effect).attempts == 2


def test_a_stage_that_grants_a_tool_twice_over_still_asks_once() -> None:
    plan = writing()
    session = Session(plan, REFUND, MAIL).submit().claim()
    session.run("mail", {"to": "a"})
    session.run("mail", {"to": "b"})
    session.lose()
    assert [tool.name for tool in session.pack.tools] == ["mail"]
    assert Grant(tool="mail") in plan.stages["work"].tools
