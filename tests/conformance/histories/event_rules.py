"""What each event must hold to, by the number of the rule in DESIGN §3."""

from typing import assert_never

from passdown.broker.core.given import grant_of
from passdown.broker.core.parts import Effect
from passdown.broker.core.state import State
from passdown.contracts import events as ev
from passdown.contracts.codec import PACK_BUDGET, encode
from passdown.contracts.plans import Grant
from passdown.contracts.returns import DoneReturn, Return
from passdown.contracts.schema import problems
from passdown.contracts.tools import ToolSpec, action_digest, narrow
from tests.conformance.histories.markers import strangers
from tests.conformance.histories.watch import Followed, Step

#: Fenced returns that a log records, from DESIGN §3, rule 2 ("capped per session").
FENCED_CAP = 100


def check(followed: Followed, step: Step) -> None:
    """Hold a new event of a session to every rule about events."""
    rule_2_only_the_current_claim_counts(followed, step)
    rule_3_effects_happen_at_most_once(followed, step)
    rule_4_and_7_a_pack_is_of_its_step_only(followed, step)
    rule_5_the_stage_decides_the_tools(followed, step)
    rule_8_people_decide_what_they_may(followed, step)
    rule_8_who_holds_a_ticket_deals_with_it(step)
    rule_8_what_was_approved_is_not_left_unseen(step)
    rule_12_a_pack_is_within_its_budget(followed, step)
    section_7_the_plan_says_what_follows_a_loss(followed, step)


def rule_2_only_the_current_claim_counts(followed: Followed, step: Step) -> None:
    event, before = step.event, step.before
    if before is None:
        return
    held = before.claim
    match event:
        case ev.Claimed():
            assert held is None, "rule 2: two claims hold one attempt"
            assert before.issued, "rule 2: a claim without a pack"
            claims = [
                one
                for one in followed.steps
                if isinstance(one.event, ev.Claimed) and one.after.step == before.step
            ]
            assert [one.after.attempt for one in claims].count(before.attempt) == 1, (
                "rule 2: an attempt was claimed twice"
            )
        case ev.Returned():
            _counts_as_return(followed, before, event.body)
        case ev.Checkpointed() | ev.EffectIntended() | ev.EffectProposed():
            current = held.claim_id if held else None
            assert event.claim_id == current, "rule 2: an act of a claim that is not held"
            assert not before.ending, "rule 2: an act of a claim while the session is ending"
        case ev.ReturnFenced():
            assert step.after.fenced <= FENCED_CAP, "rule 2: more fenced returns are recorded than the cap"
        case ev.StageEntered() | ev.Completed() | ev.Refused() | ev.Failed() | ev.Cancelled() | ev.Expired():
            settles = isinstance(event, ev.Failed) and before.settling()
            assert held is None or settles or isinstance(event, ev.Cancelled | ev.Expired), (
                "rule 2: a step ended under a claim"
            )
        case _:
            pass


def _counts_as_return(followed: Followed, before: State, body: Return) -> None:
    held, issued = before.claim, before.issued
    assert held, "rule 2: a return without a claim was accepted"
    assert issued, "rule 2: a return without a pack was accepted"
    bound = (body.session_id, body.step, body.attempt, body.claim_id, body.pack_digest, body.stage)
    to = (followed.session_id, before.step, before.attempt, held.claim_id, issued.digest, before.stage)
    assert bound == to, f"rule 2: a return of {bound} was accepted for {to}"
    followed.returned[body.step, body.attempt] += 1
    assert followed.returned[body.step, body.attempt] == 1, "rule 2: two returns of one attempt"
    contract = followed.plan.stages[before.stage].returns
    assert issued.cause != "settle", "rule 2: a settle attempt returned"
    if isinstance(body, DoneReturn):
        assert not problems(contract.schema, body.output), "rule 11: an output that does not fit was accepted"


def rule_3_effects_happen_at_most_once(followed: Followed, step: Step) -> None:
    event, before = step.event, step.before
    if before is None:
        return
    if isinstance(event, ev.EffectIntended):
        assert not before.unknown(), "rule 3: an intent while another effect is unknown"
        cause = before.issued.cause if before.issued else "settle"
        assert cause != "settle", "rule 3: an intent in a settle attempt"
        known = before.effect(event.effect_id)
        if known is not None:
            _may_be_intended_again(followed, known)
        asked = [
            ticket for ticket in before.tickets if ticket.kind == "effect" and ticket.about == event.effect_id
        ]
        assert not asked, "rule 3: an intent while a person is asked whether it happened"
    if step.after.claim is None:
        # The commit that ends a claim records what was intended as unknown: so no event may come between.
        open_ones = [one.effect_id for one in step.after.effects if one.status == "intended"]
        assert not open_ones, f"rule 3: {open_ones} is intended, and no claim is held"
    if step.after.over:
        assert not step.after.unfinished(), "rule 3: a session ended with an effect unfinished"


def _may_be_intended_again(followed: Followed, known: Effect) -> None:
    spec = followed.watch.tools[known.tool_digest]
    match known.status:
        case "proposed" | "failed":
            pass
        case "not-done":
            assert known.repeat, "rule 3: a repeat that nobody allowed"
            assert spec.dedupes or _last_settled_by(followed, known) == "person", "rule 3: a blind repeat"
        case "done" | "denied" | "intended" | "unknown":
            raise AssertionError(f"rule 3: an effect that is {known.status} was intended again")
        case _:
            assert_never(known.status)


def _last_settled_by(followed: Followed, known: Effect) -> str:
    settled = [
        one.event
        for one in followed.steps
        if isinstance(one.event, ev.EffectSettled | ev.EffectFailed)
        and one.event.effect_id == known.effect_id
    ]
    # A claim that says, late, that it wrote nothing settles its effect, and a repeat is safe then.
    return settled[-1].how if isinstance(settled[-1], ev.EffectSettled) else "person"


def rule_4_and_7_a_pack_is_of_its_step_only(followed: Followed, step: Step) -> None:
    event, before = step.event, step.before
    if not isinstance(event, ev.PackIssued) or before is None:
        return
    pack = followed.pack(event.step, event.attempt)
    assert pack.digest == event.digest, "rule 2: the pack in the queue is another one"
    assert (pack.session_id, pack.step, pack.attempt) == (
        followed.session_id,
        before.step,
        before.attempt + 1,
    )
    foreign = strangers(encode(pack), followed.session_id, followed.state.key)
    assert not foreign, f"rule 4: a pack carries {foreign} of another session"
    if pack.snapshot is not None:
        own = followed.snapshots.get(pack.step, [])
        assert pack.snapshot.data in own[-1:], "rule 7: a snapshot of another step"


def granted(followed: Followed, state: State, tool: str) -> tuple[Grant, ToolSpec] | None:
    """Return the grant of the stage and the specification that the present pack pins, if it has the tool."""
    grant = grant_of(followed.plan.stages[state.stage], tool)
    pinned = state.issued.tools.get(tool) if state.issued else None
    return (grant, followed.watch.tools[pinned]) if grant and pinned else None


def rule_5_the_stage_decides_the_tools(followed: Followed, step: Step) -> None:
    event, before = step.event, step.before
    if before is None:
        return
    if isinstance(event, ev.PackIssued):
        stage = followed.plan.stages[before.stage]
        assert set(event.tools) <= {one.tool for one in stage.tools}, (
            "rule 5: a pack grants what its stage does not"
        )
        for name, pinned in event.tools.items():
            spec = followed.watch.tools[pinned]
            assert spec.name == name
            assert stage.scopes is None or not spec.scope or spec.scope in stage.scopes, (
                "rule 5: out of scope"
            )
    if isinstance(event, ev.EffectIntended | ev.EffectProposed | ev.ToolCalled):
        found = granted(followed, before, event.tool)
        assert found, f"rule 5: {event.tool} is recorded, and stage {before.stage} does not grant it"
        if not isinstance(event, ev.ToolCalled):
            grant, spec = found
            assert spec.effect, "rule 5: an effect of a reading tool"
            misfit = problems(narrow(spec.params, grant.params), event.args)
            assert not misfit, f"rule 5: arguments beyond the grant: {misfit}"


def rule_8_people_decide_what_they_may(followed: Followed, step: Step) -> None:
    """An intent that needs a person's yes has one, of exactly this action, by somebody else, once."""
    event, before = step.event, step.before
    if isinstance(event, ev.TicketResolved) and before is not None:
        ticket = before.ticket(event.ticket_no)
        actions = ticket.actions if ticket else []
        assert event.resolution in actions, "rule 8: a resolution that the ticket does not allow"
        if event.resolution in ("approve", "edit", "deny"):
            assert step.logged.by != before.by, "rule 8: whoever initiated an action decided on it"
        return
    if not isinstance(event, ev.EffectIntended) or before is None:
        return
    found = granted(followed, before, event.tool)
    known = before.effect(event.effect_id)
    if found is None or (found[0].approve is None and (known is None or known.status != "proposed")):
        return
    assert event.approval is not None, "rule 8: an action that needs a person's yes ran without one"
    decided = followed.resolved(event.approval)
    assert decided, "rule 8: the approval is not on record"
    resolution, by = decided
    assert resolution.resolution in ("approve", "edit")
    assert resolution.action == action_digest(event.effect_id, event.tool, event.args), (
        "rule 8: approved was another action"
    )
    assert step.logged.at <= (resolution.valid_until or 0), "rule 8: an approval that expired"
    proposed_by = {
        one.logged.by
        for one in followed.steps
        if isinstance(one.event, ev.EffectProposed) and one.event.effect_id == event.effect_id
    }
    assert by not in proposed_by, "rule 8: whoever proposed an action approved it"
    spent = [one for one in followed.intents(event.effect_id)[:-1] if one.approval == event.approval]
    assert not spent or (known and known.status == "not-done"), "rule 8: one approval was spent twice"


def rule_8_who_holds_a_ticket_deals_with_it(step: Step) -> None:
    """Who acts on a ticket that is held is its holder, or says that they take it over; a claim lapses in its time."""
    event, before, by = step.event, step.before, step.logged.by
    number = getattr(event, "ticket_no", 0)
    ticket = before.ticket(number) if before and number else None
    holder = ticket.holder if ticket else None
    match event:
        case ev.TicketClaimed():
            assert ticket, "rule 8: a ticket that is not open was claimed"
            assert event.taken_from == (holder.by if holder else ""), (
                "rule 8: a claim took what somebody held"
            )
            assert event.until > step.logged.at, "rule 8: a claim that is over when it begins"
        case ev.TicketReleased():
            assert holder, "rule 8: a ticket was released that nobody held"
            assert event.holder == holder.by, "rule 8: a claim ended of somebody who held nothing"
            late = holder.until <= step.logged.at
            assert late if event.why == "lapsed" else by == holder.by, f"rule 8: {by} ended {holder}"
        case ev.TicketExtended():
            assert holder, "rule 8: a claim that is over was extended"
            assert by == holder.by, "rule 8: somebody extended the claim of another"
        case ev.TicketReassigned() | ev.TicketSnoozed() | ev.TicketResolved():
            assert holder is None or holder.by == by, f"rule 8: {by} dealt with what {holder} holds"
        case _:
            pass


def rule_8_what_was_approved_is_not_left_unseen(step: Step) -> None:
    """No rule of the plan ends a step in which people approved what was not done, before they are told (DESIGN §6)."""
    event, before = step.event, step.before
    if before is None or before.completed is not None:
        return
    if not isinstance(event, ev.StageEntered | ev.Completed | ev.Refused):
        return
    if isinstance(event, ev.StageEntered) and event.reason == "redirect":
        return
    for row in before.effects:
        if row.step == before.step and row.approval and row.status in ("proposed", "failed", "not-done"):
            assert not row.approval.spent, f"rule 8: {row.effect_id} was approved and not done, unseen"
            assert row.approval.valid_until < step.logged.at, f"rule 8: {row.effect_id} was not run, unseen"


def rule_12_a_pack_is_within_its_budget(followed: Followed, step: Step) -> None:
    if isinstance(step.event, ev.PackIssued):
        size = len(encode(followed.pack(step.event.step, step.event.attempt)))
        assert size == step.event.bytes <= PACK_BUDGET, f"rule 12: a pack of {size} bytes"


def section_7_the_plan_says_what_follows_a_loss(followed: Followed, step: Step) -> None:
    """Where recovery is a person's, a lost attempt is not followed by another before one decided (DESIGN §7)."""
    event, before = step.event, step.before
    if not isinstance(event, ev.PackIssued) or before is None or event.cause != "retry" or event.fresh:
        return
    if followed.plan.stages[before.stage].recovery != "human":
        return
    cause = ""
    for one in reversed(followed.steps[:-1]):
        if isinstance(one.event, ev.Returned | ev.ReturnRejected | ev.LeaseLost | ev.ClaimReleased):
            cause = one.before.issued.cause if one.before and one.before.issued else ""
            if cause != "settle":
                assert not isinstance(one.event, ev.LeaseLost), (
                    "§7: a lost attempt was repeated without a person"
                )
                return
