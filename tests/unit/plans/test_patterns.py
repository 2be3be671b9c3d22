import re
from time import perf_counter

import pytest

from passdown.broker.plans.patterns import PatternProblem, check_pattern
from tests.unit.plans.samples import said


@pytest.mark.parametrize(
    "pattern",
    [
        r"\b[A-Z0-9]{6}\b",
        r"[A-Z]{2}-\d{4,12}",
        r"ORD-\d{1,20}|(?:INV|BILL)-\d{1,20}",
        r"[\w.]{1,30}@[\w.]{1,30}",
        r"(?:[A-Z]{2}\d{1,5}){1,2}",
        r"a{,3}?b",
        r"x{}y{z}",
        r"[]()|{]\)\|",
        r"\+?\*",
        r"\x41\N{DIGIT ONE}",
    ],
)
def test_a_pattern_that_never_takes_long(pattern: str) -> None:
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("(", "not a pattern of Python's `re`: missing ), unterminated subpattern at position 0"),
        ("(" * 248 + "a" + ")" * 248, None),
        (r"\d+", "+ repeats without a bound; say how often at most: {1,20}"),
        (r"A.*?B", "*? repeats without a bound"),
        (r"x{5,}", "{5,} repeats without a bound"),
        (r"x{,}", "{,} repeats without a bound"),
        (r"(a+)+b", "+ repeats without a bound"),
        (r"(?:a{1,9}){1,9}b", "there are more than 1000 ways to try it at one place of a text; repeat fewer parts,"),
        (r"(?:a|a){1,20}b", "there are more than 1000 ways"),
        (r"(?:a?){10}b", "there are more than 1000 ways"),
        (r"\w{1,32}\w{1,32}b", "there are more than 1000 ways"),
        (r"x{257}", "it may find more than 256 characters; repeat less"),
        (r"x{200}y{200}", "it may find more than 256 characters"),
        (r"x{4000000}", "it may find more than 256 characters"),
        (r"a?", "it fits where there is nothing; let it find at least one character"),
        (r"a||b", "it fits where there is nothing"),
        (r"(?=a)b", "it looks around, or has a group with a name or flags; groups are (…) or (?:…)"),
        (r"(?i)a", "it looks around, or has a group with a name or flags"),
        (r"(a)\1", "it refers back to a group; do without"),
        (r"[[a]b", "[[a] may come to mean another set; put a \\ before [ - & ~ and | in sets"),
        (r"[a||b]", "[a||b] may come to mean another set"),
        ("a" * 501, "it has 501 characters; at most 500"),
    ],
)  # fmt: skip
def test_a_pattern_that_is_refused(pattern: str, problem: str | None) -> None:
    if problem is None:  # as deep as the machine's stack: refused or not, and never more than that
        said(
            {
                "name": "p",
                "start": "a",
                "stages": {"a": {"role": "r"}},
                "subjects": {"s": {"pattern": pattern}},
            }
        )
        return
    with pytest.raises(PatternProblem) as caught:
        check_pattern(pattern)
    assert f"{caught.value.problem}; {caught.value.mend}".startswith(problem)


@pytest.mark.parametrize(
    ("pattern", "text"), [(r"\w{1,31}\w{1,31}!", "a"), (r"(?:\w{1,30}){1}!", "a"), (r"(?:ab?){1,8}!", "ab")]
)
def test_the_slowest_pattern_that_is_taken_is_through_with_a_long_text(pattern: str, text: str) -> None:
    check_pattern(pattern)
    began = perf_counter()
    assert re.search(pattern, text * 16_384) is None
    assert perf_counter() - began < 5  # a tenth of a second, where nothing else runs


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        ({}, "subjects.s: nothing says how it is found; name its `fields`, or a `pattern`"),
        ([], "subjects.s: nothing says how it is found;"),
        (["a", "a"], "subjects.s.fields[1]: is there twice; leave it out"),
        (" ", "subjects.s.fields[0]: is blank; leave it out"),
        ("\ud800", "subjects.s.fields[0]: a string has a lone surrogate"),
        (
            "user.id",
            "~ subjects.s.fields[0]: 'user.id' is a path, and a field is found by its name at any depth; did you mean 'id'?",
        ),
        ([f"f{n}" for n in range(51)], "subjects.s.fields: 51 fields; a subject may have 50"),
        ({"pattern": r"\d+"}, "subjects.s.pattern: + repeats without a bound; say how often at most: {1,20}"),
        ({"pattern": "\ud800"}, "subjects.s.pattern: a string has a lone surrogate"),
    ],
)
def test_a_fault_of_a_subject(subject: object, fault: str) -> None:
    plan = {"name": "p", "start": "a", "stages": {"a": {"role": "r"}}, "subjects": {"s": subject}}
    found = said(plan)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_labels_of_subjects_are_names_and_not_too_many() -> None:
    plan = {"name": "p", "start": "a", "stages": {"a": {"role": "r"}}}
    assert said({**plan, "subjects": {"User Id": "id"}})[0].startswith(
        "subjects.\"User Id\": 'User Id' is no name for a subject;"
    )
    assert said({**plan, "subjects": {f"s{n}": "id" for n in range(51)}}) == [
        "subjects: 51 subjects; a plan may have 50"
    ]
