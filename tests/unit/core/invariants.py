"""What must hold after every command, whatever came before (DESIGN §3, §6)."""

from passdown.broker.core.decide import dues
from passdown.broker.core.evolve import fold
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import TERMINAL, TRANSITIONS, State
from passdown.contracts import events as ev
from passdown.contracts.codec import STATE_BUDGET, decode, decode_any, encode

#: Logs up to this length are folded whole after every command; longer ones as they grow.
_FOLDED_WHOLE = 40
#: How an effect stands of which people may be told that they approved it and it was not done.
_NOT_DONE = ("proposed", "failed", "not-done")


def rule_06_the_log_proves_the_state(state: State | None, folded: State | None, log: list[bytes]) -> None:
    """The fold of the log is the state byte for byte; reading the state back changes nothing."""
    raw = encode(state)
    assert encode(folded) == raw, "rule 6: the fold of the log is not the state"
    if state is not None:
        assert encode(decode(raw, State)) == raw, "rule 6: the state does not survive its encoding"
    if len(log) <= _FOLDED_WHOLE:
        assert encode(fold(decode_any(one, ev.Logged) for one in log)) == raw, (
            "rule 6: the whole log folds otherwise"
        )


def check(before: State | None, after: State | None, events: list[ev.Event]) -> None:
    """Check a state, and the way from the one before."""
    if after is None:
        return
    status_is_in_the_table(after, events)
    rule_02_one_claim_of_the_issued_attempt(after)
    rule_03_effects(before, after, events)
    tickets(after)
    what_was_approved_is_not_left_unseen(before, after, events)
    it_waits_for_something_that_can_happen(after)
    terminal_is_empty(after)
    joins(before, after, events)
    if before is not None:
        assert after.at >= before.at, "time went back"
    assert len(encode(after)) <= STATE_BUDGET, "rule 12: the state is over its budget"


def status_is_in_the_table(after: State, events: list[ev.Event]) -> None:
    if events:
        name = type(events[-1]).__name__
        leads_to = {status for targets in TRANSITIONS[name].values() for status in targets}
        assert name == "SessionOpened" or after.status in leads_to


def rule_02_one_claim_of_the_issued_attempt(after: State) -> None:
    if after.unanswered():
        assert after.issued is None
    if after.claim is not None:
        assert after.issued is not None, "a claim holds a pack"
        assert after.claim.attempt == after.issued.attempt == after.attempt
    if after.issued is not None:
        assert after.issued.attempt == after.attempt
        assert not after.human, "no pack is issued for a person's stage"
        assert after.issued.role
        assert after.claim or not after.paused, "a pack waits in the queue of a paused session"
        assert not after.ending or after.claim or after.settling(), "only settling goes on while ending"


def rule_03_effects(before: State | None, after: State, events: list[ev.Event]) -> None:
    rows = {row.effect_id: row for row in after.effects}
    assert len(rows) == len(after.effects), "two rows of one effect"
    assert [row.ordinal for row in after.effects] == list(range(1, len(rows) + 1))
    for row in after.effects:
        if row.status == "intended":
            assert after.claim is not None, "intended, and no claim is held"
            assert row.claims[-1] == after.claim.claim_id
        if row.status in ("intended", "unknown"):
            assert row.step == after.step, "an effect was left behind unfinished"
            assert row.args is not None, "what must be settled keeps its arguments"
    for row in before.effects if before else ():
        now = rows[row.effect_id]
        if row.status == "done":
            assert now.status in ("done", "not-done"), "an effect that is done may not run again"
            settled = [one for one in events if isinstance(one, ev.EffectSettled)]
            assert now.status == "done" or settled, "only a person says that it was not done after all"
    if before and before.unknown():
        assert not any(isinstance(one, ev.EffectIntended) for one in events), "an intent while one is unknown"


def tickets(after: State) -> None:
    numbers = [ticket.ticket_no for ticket in after.tickets]
    assert len(set(numbers)) == len(numbers)
    about = [ticket.about for ticket in after.tickets if ticket.kind == "effect"]
    assert len(set(about)) == len(about), "two tickets ask about one effect"
    kinds = [ticket.kind for ticket in after.tickets if ticket.kind != "effect"]
    assert len(kinds) <= 1, f"two people decide at once: {kinds}"
    if kinds and kinds[0] not in ("approval", "permission"):
        assert not after.unknown(), "a person decides while an effect is unknown"
        assert after.claim is None
    for ticket in after.tickets:
        effect = after.effect(ticket.about)
        if ticket.kind in ("approval", "permission"):
            assert effect is not None
            assert effect.status == "proposed", "an approval of what is not pending"
            assert effect.step == after.step
        if ticket.kind == "unmet":
            assert effect is not None
            assert effect.status in _NOT_DONE, "a person is asked about what was not done, and it was"
            assert effect.step == after.step
            assert after.kept or after.owed, "nothing waits for a person"
        people(after, ticket)
        if ticket.kind == "question":
            assert after.unanswered()


def what_was_approved_is_not_left_unseen(before: State | None, after: State, events: list[ev.Event]) -> None:
    """No rule of the plan leaves a step with a good approval of what was not done; a person may (H29)."""
    left = before is not None and (before.step < after.step or after.status in ("done", "refused"))
    decided = {one.resolution for one in events if isinstance(one, ev.TicketResolved)}
    if before is None or not left or decided & {"complete", "redirect", "cancel"}:
        return
    for row in after.effects:
        if row.step == before.step and row.status in _NOT_DONE and row.approval is not None:
            assert not row.approval.spent, f"approved, not done, and nobody is told: {row}"
            assert row.approval.valid_until < after.at, f"approved, not run, and nobody is told: {row}"


def people(after: State, ticket: Ticket) -> None:
    """Who holds a ticket, or approved its action, is nobody whom it excludes (rule 8)."""
    holder, excluded = ticket.holder, {*ticket.needs.excluded, *ticket.approved_by}
    assert ticket.version >= 1
    assert len(ticket.approved_by) == len(set(ticket.approved_by)) < ticket.approvals
    assert not set(ticket.approved_by) & set(ticket.needs.excluded), "rule 8: four eyes"
    assert holder is None or holder.by not in excluded, "rule 8: somebody holds what they may not decide"
    assert holder is None or ticket.snoozed_until is None, "what is held rests"
    if ticket.action:
        assert after.by in excluded, "rule 8: whoever initiated an action may approve it"


def it_waits_for_something_that_can_happen(after: State) -> None:
    if after.status in TERMINAL or after.paused:
        return
    # Whether the branches of an open join can still do something is seen to by `joins.Parent`.
    owner = after.claim or after.issued or after.tickets or after.unanswered() or after.undrained()
    assert owner or dues(after), "the session waits for nothing that can happen"
    assert not (after.owed and after.unanswered()), "a pack is owed before the last answer"
    if after.owed and not owner:
        assert any(one.kind == "retry-at" for one in dues(after))
    if after.unknown():
        assert after.claim or after.issued or any(one.kind == "effect" for one in after.tickets)


def joins(before: State | None, after: State, events: list[ev.Event]) -> None:
    still = [one for one in after.joins if not one.closed]
    assert len(still) <= 1, "two joins are open"
    for one in after.joins:
        assert one.opened <= one.opening <= one.branches
        assert one.told is None or one.told <= one.opening
        assert one.closed or one.step == after.step, "a session went on before its branches were joined"
        assert one.closed or not one.drained
        assert one.step == after.step or not one.drained, "a join that is over is kept"
    # A person decides about the join that is open, and nobody is asked about one that is closed.
    about = [ticket.about for ticket in after.tickets if ticket.kind in ("conflict", "short")]
    assert about == [one.join_id for one in still if one.asked and one.sent_back is None]
    if after.issued and after.joining and not after.settling():
        assert after.joining.merges, "a merge is issued, and nothing is to be merged"
    assert not (still and after.issued), "a pack is issued while branches are waited for"
    for kind in (ev.FannedOut, ev.Joined, ev.JoinDrained):
        mine = [one.join_id for one in events if isinstance(one, kind)]
        assert len(set(mine)) == len(mine), f"{kind.__name__} twice in one commit"
    was = {one.join_id: one for one in before.joins} if before else {}
    changed = [one.join_id for one in after.joins if was.get(one.join_id) != one]
    assert len(changed) <= 1, "two joins change in one commit"


def terminal_is_empty(after: State) -> None:
    if after.status not in TERMINAL:
        assert after.outcome is None
        return
    assert after.outcome is not None
    assert not after.unfinished(), "rule 3: a session ended with an effect unfinished"
    left = (after.claim, after.issued, after.owed, after.kept, after.completed, after.ending)
    assert left == (None,) * 6
    assert not after.paused
    assert not after.undrained(), "a session ended before its branches"
    assert all(one.kind.startswith("ticket-") for one in dues(after))
    assert all(ticket.kind == "effect" for ticket in after.tickets)
