"""docs/people.md: the day that it tells is lived through, line by line; its plan is a plan."""

import re
import shlex
from pathlib import Path

import pytest

from passdown.agents import Question
from passdown.broker.plans import check_plan, load_plan
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk
from tests.unit.cli.typing_hands import Step, typed

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "people.md").read_text()
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_EXITS = re.compile(r"# exits with (\d+)")

#: What is typed where a line asks.
ASKED: dict[str, list[Step]] = {
    "passdown inbox resolve order-4713/1": [
        ("your decision (1-4): ", "2"),
        ("what to do better: ", "ask for the account number"),
        ("note (Enter for none): ", ""),
        ("send it? [y/n]: ", "n"),
        ("nothing was sent; what you typed is kept as your draft", None),
    ]
}


def _blocks(language: str) -> list[str]:
    return [text for name, text in _BLOCK.findall(PAGE) if name == language]


@pytest.fixture
def claims(desk: Desk, tmp_path: Path) -> Desk:
    """A desk on the morning of that day."""
    (text,) = _blocks("toml")
    path = tmp_path / "claims.toml"
    path.write_text(text)
    plan = load_plan(path)
    assert [fault for fault in check_plan(plan) if fault.severity == "error"] == []
    desk.broker.register(plan)
    desk.ask = [Question(id="reason", text="Why back?", schema={"enum": ["broken", "late"]})]
    # The question comes first, so that it is the next one.
    for number in (4712, 4711, 4713, 4714, 4715, 4716, 4717, 4718, 4719):
        what = {4711: "pay", 4712: "ask", 4719: "pay"}.get(number, "escalate")
        desk.submit(f"order-{number}", plan="claims", orderId=str(number), cents=5000, do=what)
        desk.work("helper", "cashier")
    return desk


def test_every_line_of_the_page_does_what_it_says(
    at_desk: Cli, claims: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [line for block in _blocks("sh") for line in block.splitlines() if line.strip()]
    assert len(lines) > 35
    for line in lines:
        words = shlex.split(line, comments=True)
        expected = int(found[1]) if (found := _EXITS.search(line)) else 0
        stdin = b""
        if words[0] == "export":
            name, _, value = words[1].partition("=")
            monkeypatch.setenv(name, value)
            continue
        if words[0] == "printf":
            stdin, words = words[1].replace("\\n", "\n").encode(), words[words.index("|") + 1 :]
        assert words[0] == "passdown", line
        steps = ASKED.get(shlex.join(words))
        if steps is not None:
            assert typed(monkeypatch, words[1:], steps).code == 1
            continue
        said = at_desk(*words[1:], stdin=stdin)
        assert said.code == expected, f"{line}\n{said.out}{said.err}"


def test_the_page_tells_of_every_verb_and_resolution(at_desk: Cli) -> None:
    said = at_desk("inbox", "--help").out
    verbs = re.findall(r"^  ([a-z-]+)  ", said.partition("Commands:")[2], re.MULTILINE)
    assert len(verbs) == 13
    for verb in verbs:
        assert f"`{verb}" in PAGE, verb
