"""The documents are checked, or they rot: links, commands, the state diagram, the tests of each rule."""

import re
from pathlib import Path

import pytest

from passdown.broker.cli.root import COMMANDS
from passdown.broker.core.diagram import diagram

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:]+)\)")
COMMAND = re.compile(r"^(?:\$ )?passdown ([a-z]+)", re.MULTILINE)
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
DIAGRAM = re.compile(r"<!-- state diagram: generated -->\n(.*?)<!-- end of state diagram -->", re.DOTALL)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_of_a_document_leads_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_of_a_document_exists(document: Path) -> None:
    known = {name for section in COMMANDS.values() for name in section}
    for name in COMMAND.findall(document.read_text()):
        assert name in known, f"{document.name} names `passdown {name}`"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_a_document_names_exists(document: Path) -> None:
    for file, name in NAMED_TEST.findall(document.read_text()):
        path = ROOT / file
        assert path.exists(), f"{document.name} names {file}"
        assert f"def {name}(" in path.read_text(), f"{document.name} names {file}::{name}"


def test_the_state_diagram_is_the_transition_table() -> None:
    found = DIAGRAM.search((ROOT / "docs" / "ARCHITECTURE.md").read_text())
    assert found is not None
    assert found[1].strip() == f"```mermaid\n{diagram().strip()}\n```"


@pytest.mark.parametrize("rule", [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12])
def test_each_rule_that_this_version_keeps_has_tests_that_name_its_number(rule: int) -> None:
    named = re.compile(rf"rule_{rule:02d}|Rule {rule}\b|rule {rule}\b")
    found = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if named.search(path.read_text()) and path != Path(__file__)
    ]
    assert found, f"no test names rule {rule}"
