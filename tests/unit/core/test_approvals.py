"""Approval of effects (DESIGN §6, §9): proposed, approved, edited, denied, expired, voided; four eyes."""

from typing import Any

import pytest

from passdown.contracts import events as ev
from passdown.contracts.codec import KIB
from passdown.contracts.errors import BudgetExceeded, Conflict, ContractError, Denied
from passdown.contracts.plans import END, Grant
from passdown.contracts.replies import Recorded, Run, Suspended
from passdown.contracts.tools import action_digest
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, REFUND, one, stage, two, writing
from tests.unit.core.spec import AGENT, ANN, BOB, Session, like

DAY_MS = 86_400_000
MEMO = {**ARGS, "memo": "sorry"}


def proposed(**fields: Any) -> tuple[Session, str]:
    """A session whose refund waits for its approval."""
    session = situations.running(approve="approvers", **fields)
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    return session, reply.effect_id


def approved(**fields: Any) -> tuple[Session, str]:
    session, effect = proposed(**fields)
    return session.resolve("approve").claim(), effect


def test_a_call_that_needs_approval_is_proposed_and_ends_the_claim_without_a_return() -> None:
    session, effect = proposed()
    action = action_digest(effect, "refund", ARGS)
    session.then(
        like(ev.EffectProposed, effect_id=effect, args=ARGS, action=action, claim_id="claim-001"),
        like(
            ev.TicketOpened,
            kind="approval",
            queue="approvers",
            about=effect,
            action=action,
            actions=["approve", "deny", "edit", "cancel"],
        ),
    ).stands("waiting-human", claim=None, issued=None, failures=0)
    assert session.effect(effect).status == "proposed"


def test_an_approved_call_runs_in_the_next_attempt_which_has_cause_human() -> None:
    session, effect = proposed()
    session.resolve("approve").then(
        like(ev.TicketResolved, resolution="approve", valid_until=session.at + DAY_MS),
        like(ev.PackIssued, cause="human", attempt=2),
    )
    (told,) = session.pack.effects
    assert (told.effect_id, told.status) == (effect, "proposed")
    reply = session.claim().intend("refund", ARGS)
    assert reply == Run(effect_id=effect, args=ARGS)
    session.then(like(ev.EffectIntended, approval=1))
    approval = session.effect(effect).approval
    assert (approval.by, approval.spent) == (BOB, True)


def test_the_decision_and_the_effect_are_two_records() -> None:
    """Approved, and the effect failed: both are seen, and a repeat needs a new approval."""
    session, effect = approved()
    session.run("refund", ARGS)
    session.report(effect, "failed", error="no funds").fail().claim()
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    session.then("EffectProposed", like(ev.TicketOpened, kind="approval", ticket_no=2))
    assert session.effect(effect).approval is None


def test_rule_08_changed_arguments_void_the_approval() -> None:
    """The same effect, for a memo is no part of its identity, but another action."""
    session, effect = approved()
    reply = session.intend("refund", MEMO)
    assert isinstance(reply, Suspended)
    assert reply.effect_id == effect
    session.then(like(ev.EffectProposed, args=MEMO), "TicketOpened").stands("waiting-human")
    assert session.effect(effect).approval is None
    session.resolve("approve").claim()
    assert session.intend("refund", MEMO) == Run(effect_id=effect, args=MEMO)


def test_rule_08_another_identity_is_another_proposal() -> None:
    session, effect = approved()
    reply = session.intend("refund", {**ARGS, "cents": 1})
    assert isinstance(reply, Suspended)
    assert reply.effect_id != effect
    assert session.effect(effect).approval, "the approval of the first stays"


def test_rule_08_an_approval_that_expired_is_asked_for_again() -> None:
    grant = Grant(tool="refund", approve="approvers", approval_seconds=60.0)
    session = Session(one(tools=[grant]), REFUND).submit().claim()
    session.intend("refund", ARGS)
    session.resolve("approve").tick(60_001).claim()
    assert isinstance(session.intend("refund", ARGS), Suspended)
    session.then("EffectProposed", "TicketOpened")


def test_rule_08_an_approval_is_good_up_to_its_last_millisecond() -> None:
    grant = Grant(tool="refund", approve="approvers", approval_seconds=60.0)
    session = Session(one(tools=[grant]), REFUND).submit().claim()
    session.intend("refund", ARGS)
    session.resolve("approve").tick(60_000).claim()
    assert isinstance(session.intend("refund", ARGS), Run)


def test_an_approval_outlives_a_lost_attempt() -> None:
    session, effect = approved()
    session.lose().claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def test_a_repeat_after_not_done_reuses_the_approval() -> None:
    session, effect = approved()
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="unsure").resolve("not-done").claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)
    assert session.effect(effect).approval.ticket_no == 1


def test_a_repeat_after_not_done_needs_a_new_approval_where_the_old_one_expired() -> None:
    session, _ = approved()
    session.run("refund", ARGS)
    session.lose().claim().settle(e1="unsure").resolve("not-done").tick(2 * DAY_MS).claim()
    assert isinstance(session.intend("refund", ARGS), Suspended)


def test_a_late_failure_of_an_unknown_effect_counts_as_not_done_and_reuses_the_approval() -> None:
    session, effect = approved()
    session.run("refund", ARGS)
    session.lose().report(effect, "failed", error="no funds")
    assert (session.effect(effect).status, session.effect(effect).error) == ("not-done", "no funds")
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=ARGS)


def changed_mind() -> Session:
    """A session whose second refund was proposed for coming after a lost attempt, and was approved."""
    session = situations.running()
    session.report(session.run("refund", {"order": "1", "cents": 1})).lose().claim()
    session.intend("refund", ARGS)
    return session.resolve("approve").claim()


def test_an_action_that_was_proposed_for_another_reason_than_the_grant_is_bound_as_well() -> None:
    session = changed_mind()
    assert isinstance(session.intend("refund", MEMO), Suspended)
    session = changed_mind()
    assert isinstance(session.intend("refund", ARGS), Run)
    session.report(session.state.effects[1].effect_id, "failed").fail().claim()
    assert isinstance(session.intend("refund", ARGS), Suspended), "after failed it needs a new approval"


def test_an_approval_whose_edited_arguments_left_the_state_covers_nothing_else() -> None:
    session, effect = proposed()
    session.resolve("edit", {**ARGS, "memo": "m" * (5 * KIB)}).claim()
    session.run("refund", ARGS)
    session.report(effect).report(effect, "failed", error="it did not").resolve("not-done")
    assert session.effect(effect).edited is None
    assert isinstance(session.intend("refund", ARGS), Suspended)


# Four eyes


@pytest.mark.parametrize("resolution", ["approve", "edit", "deny"])
@pytest.mark.parametrize("by", [AGENT, ANN])
def test_rule_08_nobody_decides_on_what_they_proposed_or_initiated(resolution: Any, by: str) -> None:
    session, _ = proposed()
    error = session.refuses(Denied, session.resolution(resolution, MEMO), by)
    assert "whoever initiated or proposed an action does not decide on it" in str(error)
    session.resolve(resolution, MEMO, BOB)


@pytest.mark.parametrize(("by", "what"), [(AGENT, "proposed"), (ANN, "initiated")])
def test_rule_08_four_eyes_hold_of_a_ticket_that_names_nobody(by: str, what: str) -> None:
    """An older log says nothing of whom its tickets exclude."""
    session, effect = proposed()
    session.record(ev.TicketWithdrawn(ticket_no=1, why="w"))
    kind: Any = "approval"
    opened = ev.TicketOpened(
        ticket_no=2, kind=kind, queue="q", why="w", actions=["approve", "deny"], about=effect, action="a"
    )
    session.record(opened)
    for resolution in ("approve", "deny"):
        body = session.resolution(resolution)
        session.refuses(Denied, body, by, match=f"whoever {what} an action does not approve it")


def test_rule_08_an_agent_does_not_get_round_a_pending_approval() -> None:
    """Only a person, an expiry or the end of the session may end it; another attempt may not."""
    session, _ = proposed()
    for verb in (session.pause, session.resume):
        verb()
    session.stands("waiting-human", issued=None)
    assert session.state.tickets[0].kind == "approval"


# Edit


def test_an_edit_replaces_the_arguments_under_the_same_effect_and_keeps_both() -> None:
    session, effect = proposed()
    less = {"order": "4711", "cents": 500}
    session.resolve("edit", less).then(
        like(ev.TicketResolved, resolution="edit", value=less, action=action_digest(effect, "refund", less)),
        like(ev.PackIssued, cause="human"),
    )
    assert session.pack.effects[0].args == less
    session.claim()
    assert session.intend("refund", ARGS) == Run(effect_id=effect, args=less)
    session.then(like(ev.EffectIntended, args=less))
    session.report(effect, result={"id": 1})
    row = session.effect(effect)
    assert (row.args, row.edited, row.status) == (ARGS, less, "done")


def test_what_an_edit_made_of_it_does_not_run_a_second_time_under_its_own_identity() -> None:
    session, effect = proposed()
    less = {"order": "4711", "cents": 500}
    session.resolve("edit", less).claim()
    session.run("refund", ARGS)
    session.report(effect, result=1)
    assert session.intend("refund", less) == Recorded(effect_id=effect, status="done", result=1)


def test_an_edited_call_that_changed_meanwhile_is_proposed_anew() -> None:
    session, effect = proposed()
    session.resolve("edit", {"order": "4711", "cents": 500}).claim()
    session.intend("refund", MEMO)
    session.then(like(ev.EffectProposed, effect_id=effect, args=MEMO), "TicketOpened")
    assert session.effect(effect).edited is None


def test_an_edit_to_no_arguments_at_all_is_an_edit() -> None:
    grants = [Grant(tool="mail", approve="approvers")]
    session = Session(one(tools=grants), MAIL).submit().claim()
    session.intend("mail", {"to": "a"})
    session.resolve("edit", {}).claim()
    reply = session.intend("mail", {"to": "a"})
    assert isinstance(reply, Run)
    assert reply.args == {}


def test_an_edit_into_another_effect_s_identity_is_refused() -> None:
    grants = [Grant(tool="refund", approve="approvers")]
    session = Session(one(tools=grants), REFUND).submit().claim()
    session.intend("refund", {"order": "1", "cents": 1})
    session.resolve("approve").claim()
    session.report(session.run("refund", {"order": "1", "cents": 1}))
    session.intend("refund", {"order": "1", "cents": 2})
    error = session.refuses(
        Conflict, session.resolution("edit", {"order": "1", "cents": 1, "memo": "m"}), BOB
    )
    assert "the edit would make it another effect" in str(error)
    session.resolve("edit", {"order": "1", "cents": 2, "memo": "m"})


def test_an_edit_into_what_another_effect_was_edited_into_is_refused() -> None:
    grants = [Grant(tool="refund", approve="approvers")]
    session = Session(one(tools=grants), REFUND).submit().claim()
    session.intend("refund", {"order": "1", "cents": 1})
    session.resolve("edit", {"order": "1", "cents": 9}).claim()
    session.report(session.run("refund", {"order": "1", "cents": 1}))
    session.intend("refund", {"order": "1", "cents": 2})
    session.refuses(Conflict, session.resolution("edit", {"order": "1", "cents": 9}), BOB)


def test_a_second_equal_call_may_be_edited_in_what_is_no_part_of_its_identity() -> None:
    grants = [Grant(tool="refund", approve="approvers")]
    session = Session(one(tools=grants), REFUND).submit().claim()
    session.intend("refund", ARGS)
    session.resolve("approve").claim()
    session.report(session.run("refund", ARGS))
    session.intend("refund", ARGS, n=2)
    session.resolve("edit", MEMO).then("TicketResolved", "PackIssued")


@pytest.mark.parametrize(
    ("value", "kind", "problem"),
    [
        (None, ContractError, "JSON object"),
        ([1], ContractError, "JSON object"),
        ({"order": "1"}, ContractError, "cents"),
        ({"order": "1", "cents": 7_000}, ContractError, "/cents"),
        ({"order": "1", "cents": float("nan")}, ContractError, "NaN"),
        ({"order": "x" * (33 * KIB), "cents": 1}, BudgetExceeded, "effect arguments"),
    ],
)
def test_rule_05_an_edit_stays_within_the_grant(value: Any, kind: Any, problem: str) -> None:
    grant = Grant(tool="refund", approve="approvers", params={"cents": {"maximum": 5_000}})
    session = Session(one(tools=[grant]), REFUND).submit().claim()
    session.intend("refund", ARGS)
    session.refuses(kind, session.resolution("edit", value), BOB, match=problem)


# Deny


def test_a_denied_call_is_told_to_the_next_attempt() -> None:
    session, effect = proposed()
    session.resolve("deny", note="too much").then(
        like(ev.TicketResolved, resolution="deny"), like(ev.PackIssued, cause="human")
    )
    assert session.pack.effects[0].status == "denied"
    session.claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=effect, status="denied", error="too much")


@pytest.mark.parametrize(("target", "last"), [("tell", "PackIssued"), (END, "Completed")])
def test_on_denied_leads_on(target: str, last: str) -> None:
    session, _ = proposed(on_denied=target)
    session.resolve("deny")
    assert type(session.last[-1]).__name__ == last
    if target == "tell":
        session.then("TicketResolved", like(ev.StageEntered, stage="tell", reason="denied"), "PackIssued")


def both() -> Session:
    """A session whose refund is proposed while nobody knows whether its mail went out."""
    plan = writing("approvers", on_denied="tell")
    session = Session(plan, REFUND, MAIL).submit().claim()
    session.run("mail", {"to": "a"})
    session.intend("refund", ARGS)
    return session


def test_rule_03_on_denied_waits_until_the_unknown_effects_of_the_step_are_settled() -> None:
    session = both()
    session.resolve("deny").then("TicketResolved").stands("queued", step=1)
    session.claim().settle(e1="found")
    session.then(
        "EffectSettled", "ClaimReleased", like(ev.StageEntered, stage="tell", reason="denied"), "PackIssued"
    )


def test_on_denied_waits_for_the_person_who_says_what_happened() -> None:
    session = both().claim().settle(e1="unsure")
    assert [ticket.kind for ticket in session.state.tickets] == ["approval", "effect"]
    session.resolve("deny", ticket=1).then("TicketResolved").stands("waiting-human", step=1)
    session.resolve("not-done", ticket=2)
    session.then("TicketResolved", "EffectSettled", like(ev.StageEntered, reason="denied"), "PackIssued")


def test_an_approval_is_kept_while_another_effect_is_settled() -> None:
    session = both()
    assert [told.status for told in session.pack.effects] == ["unknown"], "what is not decided is not told"
    session.resolve("approve").then("TicketResolved").stands("queued")
    session.claim().settle(e1="absent").then(
        "EffectSettled", "ClaimReleased", like(ev.PackIssued, cause="human")
    )
    session.claim().run("refund", ARGS)


def test_an_approval_is_kept_where_the_settle_attempt_is_lost() -> None:
    session = both()
    session.resolve("approve").claim().lose().then("LeaseLost", like(ev.PackIssued, cause="settle"))
    session.claim().settle(e1="found").then(
        "EffectSettled", "ClaimReleased", like(ev.PackIssued, cause="human")
    )


def test_a_settled_effect_does_not_issue_a_pack_before_the_approval_is_decided() -> None:
    session = both().claim().settle(e1="found")
    session.then("EffectSettled", "ClaimReleased").stands("waiting-human")
    session.resolve("approve").then("TicketResolved", like(ev.PackIssued, cause="human"))


def test_pausing_shows_the_approval_that_a_settle_pack_hid() -> None:
    session = both().stands("queued").pause()
    assert session.state.status == "waiting-human"
    session.resume().then("Resumed", like(ev.PackIssued, cause="settle"))


# What becomes of an approval when the session moves on


def test_an_approval_does_not_survive_its_stage() -> None:
    """The next stage grants the tool without approval; what was approved there is another effect."""
    session, effect = approved()
    session.done().resolve("deny").claim()
    assert session.run("refund", ARGS) != effect
    assert [told.effect_id for told in session.pack.effects] == []


def test_a_person_who_called_it_off_ends_the_proposal_as_well() -> None:
    session, effect = proposed()
    session.resolve("cancel", note="never mind").then(
        "TicketResolved", like(ev.Cancelled, reason="never mind")
    )
    assert session.effect(effect).status == "proposed"


def test_what_was_never_decided_is_not_told_to_later_packs() -> None:
    session, _ = proposed()
    session.cancel().stands("cancelled")
    fresh = situations.running(approve="approvers")
    fresh.intend("refund", ARGS)
    fresh.resolve("approve").claim().intend("refund", {**ARGS, "cents": 5})
    fresh.resolve("deny").claim()
    assert sorted(told.status for told in fresh.pack.effects) == ["denied", "proposed"]


def test_rule_05_what_the_newest_plan_withdrew_is_not_called_though_it_is_approved() -> None:
    session, _ = proposed()
    session.newest = two(stage(tools=[Grant(tool="mail")]), tools=[Grant(tool="mail")])
    session.resolve("approve").then(
        "TicketResolved", like(ev.PackIssued, changes=["the tool refund is no longer granted"])
    )
    session.claim().refused_and_recorded(Denied, session.intent("refund", ARGS))


def test_what_a_plan_never_granted_is_not_approved() -> None:
    session, _ = proposed()
    session.plan = two()
    session.refuses(Denied, session.resolution("approve"), BOB, match="stage work does not grant it")


def test_the_newest_plan_may_ask_for_an_approval() -> None:
    session = situations.running()
    session.newest = writing("security")
    session.intend("refund", ARGS)
    session.then("EffectProposed", like(ev.TicketOpened, queue="security"))


def test_truth_that_arrives_late_withdraws_the_approval_of_what_did_happen() -> None:
    session, effect = approved()
    session.run("refund", ARGS)
    first = session.fence.claim_id
    session.report(effect, "failed").fail().claim()
    session.intend("refund", ARGS)
    session.report(effect, claim_id=first, result=1)
    session.then("EffectDone", like(ev.TicketWithdrawn, ticket_no=2), like(ev.TicketOpened, kind="effect"))
    session.stands("waiting-human")
    session.resolve("done").then("TicketResolved", like(ev.PackIssued, cause="retry")).claim()
    assert session.intend("refund", ARGS) == Recorded(effect_id=effect, status="done", result=1)
