import re

from passdown.broker.core.diagram import diagram
from passdown.broker.core.state import TERMINAL, TRANSITIONS

EDGE = re.compile(r"    (\S+) --> (\S+?)(?:: (.*))?")


def edges() -> list[tuple[str, str, str]]:
    found = [EDGE.fullmatch(line) for line in diagram().splitlines() if "-->" in line]
    return [(one[1].replace("_", "-"), one[2].replace("_", "-"), one[3] or "") for one in found if one]


def test_it_draws_every_change_of_status_in_the_table_and_no_other() -> None:
    drawn = {(source, target, name) for source, target, names in edges() for name in names.split(", ")}
    table = {
        (source, target, name)
        for name, moves in TRANSITIONS.items()
        for source, targets in moves.items()
        for target in targets
        if source != target
    }
    ends = {(status, "[*]", "") for status in TERMINAL}
    assert drawn == table | ends | {("[*]", "queued", "SessionOpened")}


def test_it_is_mermaid_that_draws_the_names_with_dashes() -> None:
    text = diagram()
    assert text.startswith("stateDiagram-v2\n")
    assert '    state "waiting-human" as waiting_human\n' in text
    assert "waiting-human -->" not in text


def test_it_is_the_same_text_each_time() -> None:
    assert diagram() == diagram()
