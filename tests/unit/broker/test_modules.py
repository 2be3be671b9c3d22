"""Agents and tools out of modules: what is imported, under which name, and what is said where that fails."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.agents.registry import collect
from passdown.broker.modules import load_module, registry_of
from passdown.contracts.errors import ContractError

AGENT = """
from passdown.agents import Done, agent, tool

@agent("{role}")
def run(pack, ctx):
    return Done({{}})
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory of our own; what it brought in is forgotten."""
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, name: str, text: str = AGENT, role: str = "desk") -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(role=role) if text is AGENT else text)
    return str(path)


def test_a_file_and_a_name(folder: Path) -> None:
    write(folder, "first_one.py", role="one")
    write(folder, "second_one.py", role="two")
    assert sorted(registry_of(["first_one.py", "second_one"]).agents) == ["one", "two"]


def test_one_file_named_twice_is_one_module(folder: Path) -> None:
    path = write(folder, "twice_named.py")
    assert load_module(path) is load_module("twice_named.py")
    assert list(registry_of([path, "twice_named.py", "twice_named"]).agents) == ["desk"]


def test_what_lies_beside_can_import_it_and_gets_the_same(folder: Path) -> None:
    write(folder, "kept_beside.py")
    write(folder, "who_asks.py", "from kept_beside import run\n")
    assert list(registry_of(["kept_beside.py", "who_asks.py"]).agents) == ["desk"]


def test_two_files_of_one_name(folder: Path) -> None:
    one, two = write(folder, "a/agents_of.py", role="one"), write(folder, "b/agents_of.py", role="two")
    assert sorted(registry_of([one, two]).agents) == ["one", "two"]


def test_a_file_does_not_take_the_name_of_a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`import agents` must go on meaning the OpenAI Agents SDK for those who have it (DESIGN §13)."""
    monkeypatch.delitem(sys.modules, "agents", raising=False)
    sdk = write(folder, "site/agents.py", "name = 'sdk'\n")
    sys.path.insert(0, str(folder / "site"))
    mine = load_module(write(folder, "mine/agents.py"))
    import agents  # pyright: ignore[reportMissingImports]

    assert agents.__file__ == sdk  # pyright: ignore[reportUnknownMemberType]
    assert collect(mine).agents.keys() == {"desk"}
    assert sys.modules[mine.__name__] is mine


def test_nor_that_of_the_standard_library(folder: Path) -> None:
    mine = load_module(write(folder, "json.py"))
    assert mine is not json
    assert sys.modules["json"] is json
    assert registry_of([str(folder / "json.py")]).agents


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import no_such_thing_at_all\n", "ModuleNotFoundError: No module named 'no_such_thing_at_all'"),
        ("def f(:\n", "SyntaxError"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)\n", "SystemExit: 3"),
        ("\0", "null bytes"),
    ],
)
def test_what_fails_when_it_is_imported_is_named_and_forgotten(folder: Path, text: str, said: str) -> None:
    path = write(folder, "bad_one.py", text)
    with pytest.raises(ContractError) as refused:
        load_module(path)
    assert str(refused.value).startswith(f"module does not fit its contract: {path} cannot be imported: ")
    assert said in str(refused.value)
    write(folder, "bad_one.py")
    assert registry_of([path]).agents.keys() == {"desk"}


@pytest.mark.parametrize("name", ["gone.py", "no_such_module", "a.b.c", "", ".x"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(ContractError, match="cannot be imported"):
        load_module(name)
