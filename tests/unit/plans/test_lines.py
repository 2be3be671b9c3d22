from passdown.broker.plans.faults import Fault
from passdown.broker.plans.lines import lines_of, with_line

TEXT = """\
name = "p" # the name
description = '''
[stages.not-here]
role = "no key"
'''

[stages.a] # a stage
role = "r"
tools = [
    "t",
    { tool = "u", approve = "q" },
]
backoff.first = "2s"
next = "end"
  [stages."b.c".returns]
"evidence" = "none"
priority=1
"""


def test_tables_and_keys_are_found_and_texts_are_not_mistaken_for_them() -> None:
    assert lines_of(TEXT) == {
        "name": 1,
        "description": 2,
        "stages.a": 7,
        "stages.a.role": 8,
        "stages.a.tools": 9,
        "stages.a.backoff.first": 13,
        "stages.a.next": 14,
        'stages."b.c".returns': 15,
        'stages."b.c".returns.evidence': 16,
        'stages."b.c".returns.priority': 17,
    }


def test_a_fault_gets_the_line_of_what_it_is_in() -> None:
    lines = lines_of(TEXT)

    def located(place: str) -> str:
        return with_line(Fault(place, "is wrong"), lines).place

    assert located("stages.a.tools[1].approve") == "stages.a.tools[1].approve (line 9)"
    assert located("stages.a.lease") == "stages.a.lease (line 7)"
    assert located("stages.ab") == "stages.ab"
    assert located("") == ""
