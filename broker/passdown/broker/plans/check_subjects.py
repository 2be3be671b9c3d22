"""What is wrong with the subjects of a plan."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from passdown.broker.plans.faults import Fault, one_line, place, show, twice_faults, warning, within
from passdown.broker.plans.names import name_faults
from passdown.broker.plans.patterns import PatternProblem, check_pattern
from passdown.contracts.codec import check
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import Plan, Subject

MOST_SUBJECTS = 50
MOST_FIELDS = 50


def subject_faults(plan: Plan, unsure: AbstractSet[str]) -> Iterator[Fault]:
    """Yield what is wrong with the subjects of `plan`; nothing is said of what is `unsure`."""
    if len(plan.subjects) > MOST_SUBJECTS:
        yield Fault("subjects", f"{len(plan.subjects)} subjects; a plan may have {MOST_SUBJECTS}")
    for name, subject in plan.subjects.items():
        here = place("subjects", name)
        yield from name_faults(here, "subject", name)
        if not (subject.fields or subject.pattern or any(within(one, here) for one in unsure)):
            yield Fault(here, "nothing says how it is found", "name its `fields`, or a `pattern`")
        yield from _field_faults(name, subject)
        yield from _pattern_faults(place("subjects", name, "pattern"), subject.pattern)


def _field_faults(name: str, subject: Subject) -> Iterator[Fault]:
    here = place("subjects", name, "fields")
    if len(subject.fields) > MOST_FIELDS:
        yield Fault(here, f"{len(subject.fields)} fields; a subject may have {MOST_FIELDS}")
    yield from twice_faults(here, subject.fields)
    for n, field in enumerate(subject.fields):
        where = place("subjects", name, "fields", n)
        yield from _travel_faults(where, field)
        if "." in field:
            yield warning(
                where,
                f"{show(field)} is a path, and a field is found by its name at any depth",
                f"did you mean {show(field.rpartition('.')[2])}?",
            )


def _pattern_faults(where: str, pattern: str) -> Iterator[Fault]:
    broken = list(_travel_faults(where, pattern))
    yield from broken
    if not pattern or broken:
        return
    try:
        check_pattern(pattern)
    except PatternProblem as problem:
        yield Fault(where, one_line(problem.problem), problem.mend)


def _travel_faults(where: str, text: str) -> Iterator[Fault]:
    try:
        check(text, what="subject")
    except ContractError as error:
        yield Fault(where, error.problem)
