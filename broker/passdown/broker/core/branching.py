"""Fanning out and joining (DESIGN §8): what is decided about the branches of a session, and for a branch.

What branches did comes in with the command, read from the record of the join (`Facts`). Opening branches,
calling them off and sending back to them is done by whoever carries out the due entry, before it is decided:
all of that may be done twice.
"""

from typing import Literal

from passdown.broker.core import items, join
from passdown.broker.core.draft import Draft
from passdown.broker.core.join import FINAL, WINDOW, Facts, Summary
from passdown.broker.core.parts import Join
from passdown.broker.core.state import State
from passdown.broker.core.tickets import first_queue, open_ticket, withdraw_about
from passdown.contracts import events as ev
from passdown.contracts.codec import clean_text
from passdown.contracts.errors import ContractError
from passdown.contracts.ids import join_id
from passdown.contracts.join_events import JoinHow, LateEffect
from passdown.contracts.plans import FAIL, MERGE, FanOut
from passdown.contracts.ticket_events import Resolution

_WHY_LIMIT = 500
#: What a person may do about a join that is short or in conflict.
_JOIN_ACTIONS: list[Resolution] = ["choose", "merge", "complete", "send-back", "redirect", "cancel"]


def contract_of(draft: Draft, stage: str) -> FanOut:
    """Return the join contract of a fan-out stage of the pinned plan."""
    contract = draft.given.stage(stage).fan_out
    if contract is None:
        raise AssertionError(f"stage {stage} opens no branches")
    return contract


def fan_out(draft: Draft, contract: FanOut) -> None:
    """Begin a fan-out; a list that cannot be one is a person's to see to."""
    state = draft.state
    try:
        branches = items.branches_of(contract, state.data, state.lists)
    except ContractError as error:
        open_ticket(
            draft, "failure", f"the branches cannot be opened: {error}", ["redirect", "complete", "cancel"]
        )
        return
    most = min(branches.count, WINDOW, contract.at_once or WINDOW)
    draft.add(
        ev.FannedOut(
            join_id=join_id(state.session_id, state.step),
            branches=branches.count,
            digest=branches.digest,
            opening=most,
            deadline=_deadline(draft, contract),
        )
    )
    opened = draft.state.joining
    if opened is None:
        raise AssertionError("a fan-out has a join")
    nothing = Facts(join_id=opened.join_id, version=0, rewrites=0, counts={}, summary=_nothing(contract))
    if branches.count == 0:
        _judge(draft, opened, contract, nothing)


def _deadline(draft: Draft, contract: FanOut) -> int | None:
    seconds = contract.deadline_seconds
    return None if seconds is None else draft.at + int(seconds * 1000)


def _nothing(contract: FanOut) -> Summary:
    return join.summarize(contract, [], 0)


# -- what is due --


def told(draft: Draft, subject: str) -> None:
    """Record what was done about branches: opened, called off, sent back to. `subject`: join/what/how far."""
    join_name, what, _ = subject.rsplit("/", 2)
    standing = draft.state.join(join_name)
    if standing is None:
        return
    match what:
        case "open":
            # Where others ended meanwhile the window moves at once, and the log needs no event more for it.
            facts = draft.command.join
            following = join.room(contract_of(draft, standing.stage), standing, facts.counts if facts else {})
            draft.add(ev.BranchesOpened(join_id=join_name, opened=standing.opening, opening=following))
        case "cancel":
            upto = min(standing.opening, (standing.told or 0) + WINDOW)
            draft.add(ev.BranchesTold(join_id=join_name, what="cancel", upto=upto))
        case _:
            deadline = _deadline(draft, contract_of(draft, standing.stage))
            draft.add(ev.BranchesTold(join_id=join_name, what="rework", deadline=deadline))


def look(draft: Draft, name: str) -> None:
    """Look at a join: close it, ask a person, open more branches, or note that all have ended."""
    facts, standing = draft.command.join, draft.state.join(name)
    if standing is None or facts is None or facts.join_id != name:
        return
    if standing.closed:
        _drain(draft, standing, facts)
        return
    contract = contract_of(draft, standing.stage)
    if standing.sent_back is None and not _judge(draft, standing, contract, facts):
        _open_more(draft, standing, contract, facts)


def too_late(draft: Draft, name: str) -> None:
    """The join's deadline passed."""
    facts, standing = draft.command.join, draft.state.join(name)
    if standing is None or facts is None:
        return
    contract = contract_of(draft, standing.stage)
    if not _judge(draft, standing, contract, facts):
        have = join.total(facts.counts, contract.counts)
        need = join.needed(contract, standing.branches)
        _short(draft, standing, contract, facts, f"at the deadline {have} of {need} branches count")


def _drain(draft: Draft, standing: Join, facts: Facts) -> None:
    if standing.drained or standing.sent_back or join.total(facts.counts, FINAL) < standing.opening:
        return
    late = facts.late
    draft.add(
        ev.JoinDrained(
            join_id=standing.join_id,
            outcomes=facts.counts,
            effects=[
                LateEffect(branch=one[0], effect_id=one[1], tool=one[2])
                for one in (late.effects if late else [])
            ],
            more=late.more if late else 0,
            counted=late.counted if late else 0,
        )
    )


def _open_more(draft: Draft, standing: Join, contract: FanOut, facts: Facts) -> None:
    if draft.state.paused or standing.opened < standing.opening:
        return
    opening = join.room(contract, standing, facts.counts)
    if opening > standing.opening:
        draft.add(ev.BranchesOpened(join_id=standing.join_id, opened=standing.opened, opening=opening))


def _judge(draft: Draft, standing: Join, contract: FanOut, facts: Facts) -> bool:
    """Do what the contract says by now; returns whether it says anything, other than to wait."""
    summary = facts.summary
    verdict = join.judge(contract, standing.branches, facts.counts)
    if verdict == "wait" or summary is None:
        return False
    if verdict == "vetoed":
        _withdraw(draft, standing, f"branch {summary.refused} refused")
        _close(draft, standing, facts, "vetoed", why=f"branch {summary.refused} refused")
    elif verdict == "short":
        return _short(draft, standing, contract, facts, _why_short(standing, contract, facts))
    elif summary.values or summary.split:
        return _conflict(draft, standing, contract, facts)
    else:
        _withdraw(draft, standing, "the branches suffice by now")
        _close(draft, standing, facts, "enough")
    return True


def _why_short(standing: Join, contract: FanOut, facts: Facts) -> str:
    have = join.total(facts.counts, contract.counts)
    told_of = ", ".join(f"{count} {name}" for name, count in sorted(facts.counts.items()) if count)
    need = join.needed(contract, standing.branches)
    if not standing.branches:
        return f"the list is empty, and {need} of its branches must count"
    return f"{need} of {standing.branches} branches must count, and {have} can: {told_of or 'none has ended'}"


def _withdraw(draft: Draft, standing: Join, why: str) -> None:
    if standing.asked:
        withdraw_about(draft, standing.join_id, why)


def _short(draft: Draft, standing: Join, contract: FanOut, facts: Facts, why: str) -> bool:
    if standing.asked:
        return False
    draft.add(ev.JoinShort(join_id=standing.join_id, why=why, outcomes=facts.counts))
    if contract.on_short != MERGE:
        if not _left_to_plan(draft, standing, facts, contract.on_short, why):
            _ask(draft, standing, contract, "short", why, contract.on_short)
    elif nothing_to_merge(contract, facts):
        _ask(draft, standing, contract, "short", why, None)
    elif facts.summary and (facts.summary.values or facts.summary.split):
        return _conflict(draft, standing, contract, facts)
    else:
        _close(draft, standing, facts, "partial", why=why)
    return True


def nothing_to_merge(contract: FanOut, facts: Facts) -> bool:
    """Whether no branch counts, and the merge needs one."""
    counted = facts.summary.counted if facts.summary else 0
    return not counted and contract.merge in ("first", "vote")


def _conflict(draft: Draft, standing: Join, contract: FanOut, facts: Facts) -> bool:
    if standing.asked == "conflict":
        return False
    summary = facts.summary or _nothing(contract)
    fields = list(summary.values)
    why = "; ".join([summary.split] if summary.split else [_told(name, summary) for name in fields])
    _withdraw(draft, standing, "there are enough branches by now, and they disagree")
    draft.add(
        ev.JoinConflict(
            join_id=standing.join_id,
            fields=fields,
            counted=summary.counted,
            why=clean_text(why, _WHY_LIMIT),
        )
    )
    if not _left_to_plan(draft, standing, facts, contract.on_conflict, why):
        _ask(draft, standing, contract, "conflict", why, contract.on_conflict)
    return True


def _told(name: str, summary: Summary) -> str:
    said = ", ".join(
        f"{value} by {', '.join(branches[:3])}" for value, branches in summary.values[name].items()
    )
    return f"the branches disagree in {name}: {said}"


def _left_to_plan(draft: Draft, standing: Join, facts: Facts, target: str | None, why: str) -> bool:
    """Leave the join where the plan names a stage, or says to fail."""
    if target is None or (target != FAIL and target not in draft.given.plan.stages):
        return False
    _close(draft, standing, facts, "left", why=why, to=target)
    return True


def _ask(
    draft: Draft,
    standing: Join,
    contract: FanOut,
    kind: Literal["conflict", "short"],
    why: str,
    queue: str | None,
) -> None:
    # A merge of a vote that has no majority would only say so again.
    split = kind == "conflict" and contract.merge == "vote"
    useless: list[Resolution] = ["merge"] if split else []
    if not standing.branches:
        useless = ["choose", "send-back"]
        if contract.merge in ("first", "vote"):
            useless.append("merge")
    actions: list[Resolution] = [one for one in _JOIN_ACTIONS if one not in useless]
    open_ticket(draft, kind, why, actions, about=standing.join_id, queue=queue or first_queue(draft.stage))


def _close(
    draft: Draft,
    standing: Join,
    facts: Facts,
    how: JoinHow,
    *,
    why: str = "",
    branch: str = "",
    to: str = "",
) -> None:
    summary = facts.summary
    if summary is None:
        raise AssertionError("a join is closed on its rows")
    ended = join.total(facts.counts, FINAL) >= standing.opening
    merges_all = how in ("enough", "partial") and not branch
    beside = summary.beside if merges_all else summary.effects
    draft.add(
        ev.Joined(
            join_id=standing.join_id,
            how=how,
            counted=1 if branch else summary.counted,
            digest=summary.digest,
            upto=facts.version,
            outcomes=facts.counts,
            branch=branch,
            why=clean_text(why, _WHY_LIMIT),
            fields=list(summary.values),
            to=to,
            drained=ended and not beside,
            effects=summary.effects,
        )
    )


# -- what a person decides --


def join_facts(draft: Draft, about: str) -> tuple[Join, Facts]:
    """Return the join that a ticket is about, and what is known of it."""
    standing, facts = draft.state.join(about), draft.command.join
    if standing is None or facts is None:
        raise AssertionError("a ticket of a join is decided on the facts of that join")
    return standing, facts


def close_by_person(draft: Draft, about: str, how: JoinHow, *, branch: str = "", why: str = "") -> None:
    """Close a join as a person decided."""
    standing, facts = join_facts(draft, about)
    _close(draft, standing, facts, how, branch=branch, why=why)


def require_mergeable(draft: Draft, about: str) -> None:
    """Raise ContractError where a merge of the branches that count by now could not come to anything."""
    standing, facts = join_facts(draft, about)
    split = facts.summary.split if facts.summary else ""
    if split or nothing_to_merge(contract_of(draft, standing.stage), facts):
        raise ContractError("resolution", split or "no branch counts, so there is nothing to merge")


def ended_branches(draft: Draft, about: str, names: list[str]) -> dict[str, str]:
    """Return name → outcome; raises ContractError unless each is the name of a branch that has ended."""
    _, facts = join_facts(draft, about)
    known = facts.summary.named if facts.summary else {}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ContractError(
            "resolution", f"no branch that has ended has the name {unknown[0]!r}", pointer="/value"
        )
    return known


# -- what follows --


def due_at(state: State) -> list[tuple[Literal["branches", "join-deadline"], str, int]]:
    """Return what the joins of a session wait for: (kind, subject, at)."""
    found: list[tuple[Literal["branches", "join-deadline"], str, int]] = []
    for one in state.joins:
        if one.sent_back is not None:
            found.append(("branches", f"{one.join_id}/rework/{one.sent_back.ticket_no}", one.at))
        elif not one.closed:
            if one.opened < one.opening and not state.paused:
                found.append(("branches", f"{one.join_id}/open/{one.opening}", one.at))
            if one.deadline is not None and not one.asked:
                found.append(("join-deadline", one.join_id, one.deadline))
        elif one.told is not None and one.told < one.opening:
            found.append(("branches", f"{one.join_id}/cancel/{one.told}", one.at))
    return found


def calls_for_more(state: State) -> bool:
    """Whether something is to be done at once: to branches, or a fan-out that had to wait for its own commit."""
    if state.over:
        return False
    first = state.owed is not None and state.owed.cause == "first"
    return first or any(kind == "branches" for kind, _, _ in due_at(state))
