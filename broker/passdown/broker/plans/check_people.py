"""What is wrong with what a stage says of people: who takes its tickets, by when, and what they may permit."""

import re
from collections.abc import Iterator

from passdown.broker.plans.at import At
from passdown.broker.plans.check_numbers import LONGEST_LEASE, duration_faults, spelled
from passdown.broker.plans.durations import LONGEST
from passdown.broker.plans.faults import Fault, closest, show
from passdown.broker.plans.names import PLACEHOLDER, name_faults
from passdown.contracts.commands import PRINCIPAL_PATTERN
from passdown.contracts.plans import END, FAIL, Overdue, Permit

#: The shortest time that a person's claim lasts without being extended (seconds).
SHORTEST_CLAIM = 10.0
MOST_APPROVALS = 5
MOST_CANDIDATES = 100
MOST_SKILLS = 20
#: The kinds of principals that take tickets.
TAKERS = ("user", "group", "service")


def people_faults(at: At) -> Iterator[Fault]:
    """Yield what is wrong with people, approvals, permits and the end of the escalation path of a stage."""
    yield from _candidate_faults(at)
    yield from _skill_faults(at)
    people = at.stage.people
    for field, named, most in (
        ("candidates", people.candidates, MOST_CANDIDATES),
        ("skills", people.skills, MOST_SKILLS),
    ):
        if len(named) > most:
            yield Fault(at.place("people", field), f"{len(named)} are named", f"at most {most}")
    yield from duration_faults(
        at.place("people", "lease"), people.lease_seconds, LONGEST_LEASE, SHORTEST_CLAIM
    )
    if people.due_seconds is not None:
        yield from duration_faults(at.place("people", "due"), people.due_seconds, LONGEST)
    yield from _approval_faults(at)
    for n, permit in enumerate(at.stage.permits):
        yield from _permit_faults(at, n, permit)
    if at.stage.overdue is not None:
        yield from _overdue_faults(at, at.stage.overdue)


def _candidate_faults(at: At) -> Iterator[Fault]:
    candidates = at.stage.people.candidates
    for n, candidate in enumerate(candidates):
        where = at.place("people", "candidates", n)
        if candidate in candidates[:n]:
            yield Fault(where, "is there twice", "leave it out")
        elif not re.match(PRINCIPAL_PATTERN, candidate) or candidate.partition(":")[0] not in TAKERS:
            yield Fault(
                where,
                f"{show(candidate)} is nobody who takes tickets",
                'name a user, a group or a service: "user:ann", "group:legal"',
            )


def _skill_faults(at: At) -> Iterator[Fault]:
    skills = at.stage.people.skills
    for n, skill in enumerate(skills):
        where = at.place("people", "skills", n)
        filled = PLACEHOLDER.sub("x", skill)
        unfilled = [path for path in PLACEHOLDER.findall(skill) if not path.startswith("inputs.")]
        if skill in skills[:n]:
            yield Fault(where, "is there twice", "leave it out")
        elif unfilled:
            yield Fault(
                where,
                f"{{{unfilled[0]}}} is filled in from nothing",
                f"did you mean {{inputs.{unfilled[0]}}}?",
            )
        else:
            for fault in name_faults(where, "skill", filled):
                yield Fault(where, f"{show(skill)} is no name for a skill", fault.mend)


def _approval_faults(at: At) -> Iterator[Fault]:
    """How many must approve: in range, of somebody who is asked, and as many as there may be."""
    candidates = at.stage.people.candidates
    groups = any(candidate.startswith("group:") for candidate in candidates)
    asked = [("tools", n, grant.approvals, grant.approve) for n, grant in enumerate(at.stage.tools)]
    asked += [("permits", n, permit.approvals, permit.queue) for n, permit in enumerate(at.stage.permits)]
    for part, n, approvals, queue in asked:
        where = at.place(part, n, "approvals")
        if not 1 <= approvals <= MOST_APPROVALS:
            yield Fault(where, f"{show(approvals)} is out of range", f"from 1 to {MOST_APPROVALS}")
        elif approvals > 1 and queue is None:
            yield Fault(where, "nobody is asked to approve", "name the queue as `approve`")
        elif candidates and not groups and queue is not None and approvals > len(candidates):
            yield Fault(
                where,
                f"{approvals} must approve, each another, and {len(candidates)} may take the ticket",
                "name more `candidates`, or a group",
            )


def _permit_faults(at: At, n: int, permit: Permit) -> Iterator[Fault]:
    here = at.place("permits", n)
    yield from name_faults(here, "tool", permit.tool)
    yield from name_faults(at.place("permits", n, "queue"), "queue", permit.queue)
    yield from duration_faults(at.place("permits", n, "approval"), permit.approval_seconds, LONGEST)
    tools = [one.tool for one in at.stage.permits]
    if permit.tool in tools[:n]:
        first = at.place("permits", tools.index(permit.tool))
        yield Fault(here, f"{show(permit.tool)} may be permitted already, as {first}", "name it once")
    if not at.is_sure("tools") or not at.is_sure("permits"):
        return
    granted = next((grant for grant in at.stage.tools if grant.tool == permit.tool), None)
    if granted is not None and all(
        name in permit.params and permit.params[name] == limit for name, limit in granted.params.items()
    ):
        yield Fault(
            here,
            f"{show(permit.tool)} is granted within these limits, so that nothing is left to permit",
            "leave it out, or narrow the `params` of the grant",
        )


def _overdue_faults(at: At, overdue: Overdue) -> Iterator[Fault]:
    stage, where, after = at.stage, at.place("overdue", "after"), overdue.after_seconds
    wrong = list(duration_faults(where, after, LONGEST))
    yield from wrong
    last = max((level.after_seconds for level in stage.escalation), default=0.0)
    if not wrong and after <= last:
        yield Fault(
            where,
            f"{spelled(after)} is not later than the last level of the escalation",
            f"say after how long, more than {spelled(last)}",
        )
    if not wrong and stage.deadline_seconds is not None and after >= stage.deadline_seconds > 0:
        yield Fault(
            where,
            f"{spelled(after)} is not before the deadline of the stage, {spelled(stage.deadline_seconds)}",
            "make it shorter, or the deadline longer",
        )
    if overdue.to == END:
        yield Fault(
            at.place("overdue", "to"),
            "a session does not end as done because nobody answered",
            "lead to a stage, or to 'fail'",
        )
    elif overdue.to != FAIL and overdue.to not in at.plan.stages:
        yield Fault(
            at.place("overdue", "to"),
            f"there is no stage {show(overdue.to)}",
            closest(overdue.to, [*at.plan.stages, FAIL]),
        )
