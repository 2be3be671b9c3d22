"""`plan check`, `plan register`, `plan show`."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk

GOOD = 'name = "p"\nversion = 2\nstart = "a"\n[stages.a]\nrole = "r"\ngoal = "Do it."\n'
BAD = 'name = "p"\nstart = "b"\n[stages.a]\nrole = "r"\nnext = "c"\n'
FAN_OUT = """\
name = "claims"
start = "review"

[stages.review]
fan_out = { each = "documents", stage = "judge", at_once = 8 }
join = { need = 2, merge = "vote", on_short = "reviewers" }

[stages.judge]
role = "judge"
"""
WITH_TOOL = GOOD + 'tools = ["mail.send"]\n'
AGENTS = """
from passdown.agents import tool

@tool("stock.read", scope="stock")
def read(sku: str) -> int:
    '''Read the stock.

    More.
    '''
    return 1

@tool("mail.send", effect=True)
def send(to: str, *, key: str) -> None: ...
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "good.toml": GOOD,
        "bad.toml": BAD,
        "tool.toml": WITH_TOOL,
        "agents.py": AGENTS,
    }.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_sound_plan_is_said_to_be_sound_without_any_store(cli: Cli, folder: Path) -> None:
    assert cli("plan", "check", "good.toml") == (0, "good.toml: sound\n", "")
    assert not (folder / "passdown.db").exists()


def test_every_fault_is_a_line_with_its_place(cli: Cli, folder: Path) -> None:
    said = cli("plan", "check", "good.toml", "bad.toml")
    assert said.code == 2
    lines = said.out.splitlines()
    assert lines[0] == "good.toml: sound"
    assert "bad.toml: fault: start (line 2): there is no stage 'b'" in said.out
    assert "bad.toml: fault: stages.a.next (line 5): there is no stage 'c'" in said.out
    assert lines[-1].startswith("bad.toml: ")
    assert lines[-1].endswith(" faults")
    found = json.loads(cli("plan", "check", "good.toml", "bad.toml", "--json").out)
    assert found["good.toml"] == []
    assert found["bad.toml"][0]["severity"] == "fault"
    assert found["bad.toml"][0]["text"].startswith("start (line 2): there is no stage 'b'")


def test_a_plan_is_checked_against_the_tools_of_the_store_and_of_modules(cli: Cli, folder: Path) -> None:
    alone = cli("plan", "check", "tool.toml")
    assert alone.code == 0
    assert "warning: stages.a.tools[0]: 'mail.send' is not registered yet" in alone.out
    module = cli("plan", "check", "tool.toml", "--module", "agents.py")
    assert module.code == 2
    assert "'mail.send' has effects outside and no verify" in module.out
    assert cli("tools", "register", "agents.py").code == 0
    assert cli("plan", "check", "tool.toml") == module


def test_a_fan_out_is_checked_with_its_lines(cli: Cli, folder: Path) -> None:
    (folder / "claims.toml").write_text(FAN_OUT)
    assert cli("plan", "check", "claims.toml") == (0, "claims.toml: sound\n", "")
    assert "each of documents ⇉ judge" in cli("plan", "show", "./claims.toml").out
    bad = FAN_OUT.replace("vote", "colect").replace('"judge", at', '"jugde", at').replace("= 2", "= 2000")
    (folder / "claims.toml").write_text(bad)
    said = cli("plan", "check", "claims.toml")
    assert said.code == 2
    assert "claims.toml: fault: stages.review.fan_out.stage (line 5): there is no stage 'jugde'" in said.out
    assert "claims.toml: fault: stages.review.join.need (line 6): 2000 branches are needed" in said.out
    assert "claims.toml: fault: stages.review.join.merge (line 6): 'colect' is no merge" in said.out


def test_plans_are_registered_all_or_none(at_desk: Cli, desk: Desk, folder: Path) -> None:
    before = desk.fingerprint()
    bad = at_desk("plan", "register", "good.toml", "bad.toml")
    assert (bad.code, bad.out) == (2, "")
    assert bad.err.startswith(
        "passdown: plan bad.toml has 2 faults: (1) start (line 2): there is no stage 'b'"
    )
    tool = at_desk("plan", "register", "good.toml", "tool.toml")
    assert tool.code == 2
    assert "plan tool.toml: stages.a.tools[0]: 'mail.send' has effects outside and no verify" in tool.err
    assert desk.fingerprint() == before
    said = at_desk("plan", "register", "good.toml")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("p@2 ")
    assert at_desk("submit", "p").code == 0


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["check", "gone.toml"], 2, "'gone.toml' does not exist"),
        (["check"], 2, "missing argument 'FILE...'"),
        (["register", "good.toml", "agents.py"], 2, "plan agents.py: file: it defines 0 plans"),
        (
            ["check", "good.toml", "--module", "gone_module"],
            2,
            "module does not fit its contract: gone_module cannot be imported",
        ),
        (["register", "gone.toml"], 2, "does not exist"),
        (["show", "gone.toml"], 2, "plan gone.toml: file: "),
        (["show", "nope"], 3, "there is no plan 'nope'; registered are: help@1, refund@1"),
        (["show", "refund@7"], 3, "there is no plan 'refund@7'"),
        (["show", "refund", "--json", "--mermaid"], 2, "--mermaid or --json, not both"),
    ],
)
def test_what_cannot_be_done_is_said_and_changes_nothing(
    at_desk: Cli, desk: Desk, folder: Path, args: list[str], code: int, said: str
) -> None:
    before = desk.fingerprint()
    found = at_desk("plan", *args)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert desk.fingerprint() == before


def test_a_plan_is_drawn_from_a_file_or_by_its_name(at_desk: Cli, desk: Desk, folder: Path) -> None:
    assert "p@2: 1 stage" in at_desk("plan", "show", "good.toml").out
    drawn = at_desk("plan", "show", "refund").out
    assert "refund@1: 3 stages" in drawn
    assert at_desk("plan", "show", "refund@1").out == drawn
    assert at_desk("plan", "show", "refund", "--mermaid").out.startswith("stateDiagram")
    assert json.loads(at_desk("plan", "show", "refund", "--json").out)["name"] == "refund"


def test_tools_are_registered_from_a_module(cli: Cli, folder: Path) -> None:
    said = cli("tools", "register", "agents.py")
    assert (said.code, said.err) == (0, "")
    assert [line.split()[0] for line in said.out.splitlines()] == ["mail.send", "stock.read"]
    listed = cli("tools", "list").out.splitlines()
    assert listed[1].split()[:2] == ["mail.send", "effect"]
    assert listed[2].split()[:3] == ["stock.read", "reads", "stock"]
    assert listed[2].endswith("Read the stock.")
    tools = json.loads(cli("tools", "list", "--json").out)["tools"]
    assert [one["tool"]["name"] for one in tools] == ["mail.send", "stock.read"]
    assert said.out.splitlines()[0] == f"mail.send {tools[0]['digest']}"


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("x = (", 2, "module does not fit its contract: broken.py cannot be imported"),
        (
            "import gone_module",
            2,
            "broken.py cannot be imported: ModuleNotFoundError: No module named 'gone_module'",
        ),
        ("raise RuntimeError('no')", 2, "broken.py cannot be imported"),
        ("x = 1", 3, "there is no tool in 'broken.py'; define one with @tool"),
    ],
)
def test_a_module_that_is_broken_or_empty_registers_nothing(
    at_desk: Cli, desk: Desk, folder: Path, text: str, code: int, said: str
) -> None:
    (folder / "broken.py").write_text(text)
    before = desk.fingerprint()
    found = at_desk("tools", "register", "agents.py" if not text else "broken.py")
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert desk.fingerprint() == before
