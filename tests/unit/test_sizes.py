import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = "broker/passdown/broker/example.py"


def sizes(root: Path) -> tuple[int, str]:
    run = subprocess.run(
        [sys.executable, ROOT / "scripts" / "sizes.py", root], capture_output=True, text=True, check=False
    )
    return run.returncode, run.stderr


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def function(lines: int) -> str:
    return "class A:\n    async def f(self):\n" + "        pass\n" * (lines - 1)


def exception(what: str, lines: int, reason: str = "a reason") -> str:
    return f'[[exception]]\nwhat = "{what}"\nlines = {lines}\nreason = "{reason}"\n'


@pytest.mark.parametrize(
    ("name", "budget"), [(MODULE, 400), ("scripts/example.py", 400), ("tests/unit/test_example.py", 500)]
)
def test_a_module_may_be_as_long_as_its_budget_and_no_longer(tmp_path: Path, name: str, budget: int) -> None:
    write(tmp_path, name, "x = 1\n" * budget)
    assert sizes(tmp_path) == (0, "")

    write(tmp_path, name, "x = 1\n" * (budget + 1))
    code, said = sizes(tmp_path)
    assert code == 1
    assert said.startswith(f"{name}: {budget + 1} lines, and {budget} is the limit")


def test_a_function_may_be_60_lines_and_no_longer(tmp_path: Path) -> None:
    write(tmp_path, MODULE, function(60))
    assert sizes(tmp_path) == (0, "")

    write(tmp_path, MODULE, function(61))
    code, said = sizes(tmp_path)
    assert code == 1
    assert said.startswith(f"{MODULE}::A.f: 61 lines, and 60 is the limit")


def test_an_exception_allows_its_size_and_no_more(tmp_path: Path) -> None:
    write(tmp_path, "scripts/sizes.toml", exception(f"{MODULE}::A.f", 70))
    write(tmp_path, MODULE, function(70))
    assert sizes(tmp_path) == (0, "")

    write(tmp_path, MODULE, function(71))
    code, said = sizes(tmp_path)
    assert code == 1
    assert said.startswith(f"{MODULE}::A.f: 71 lines, and 70 is the limit")


@pytest.mark.parametrize("text", [function(60), ""], ids=["within its budget", "gone"])
def test_an_exception_that_is_no_longer_needed_fails(tmp_path: Path, text: str) -> None:
    write(tmp_path, "scripts/sizes.toml", exception(f"{MODULE}::A.f", 70))
    write(tmp_path, MODULE, text)
    assert sizes(tmp_path) == (1, f"{MODULE}::A.f: within its budget or gone; remove the exception\n")


def test_an_exception_needs_a_reason(tmp_path: Path) -> None:
    write(tmp_path, "scripts/sizes.toml", exception(f"{MODULE}::A.f", 70, reason=" "))
    write(tmp_path, MODULE, function(70))
    assert sizes(tmp_path) == (1, f"{MODULE}::A.f: an exception needs a reason\n")
