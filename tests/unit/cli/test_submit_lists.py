"""`submit --list`: a list from a file or from standard input, as a JSON array or as JSON Lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.cli import params
from passdown.broker.cli.params import lists_of
from passdown.contracts.errors import ContractError
from tests.unit.cli.conftest import Cli
from tests.unit.cli.workshop import Workshop, batch_plan

DOCS: list[Any] = [{"name": f"doc-{n}", "text": "ü\u2028"} for n in range(120)]
ARRAY = json.dumps(DOCS).encode()
LINES = b"\n".join(json.dumps(one).encode() for one in DOCS)


@pytest.mark.parametrize(
    "raw",
    [
        ARRAY,
        json.dumps(DOCS, indent=2).encode(),
        LINES,
        LINES + b"\n\n",
        b"\xef\xbb\xbf" + ARRAY,
        LINES.replace(b"\n", b"\r\n"),
    ],
)
def test_a_list_comes_from_a_file(in_workshop: Cli, workshop: Workshop, tmp_path: Path, raw: bytes) -> None:
    workshop.broker.register(batch_plan())
    (tmp_path / "docs.json").write_bytes(raw)
    said = in_workshop("submit", "batch", "--key", "k", "--list", "documents=docs.json")
    assert (said.code, said.err) == (0, "")
    session = workshop.broker.session("k")
    workshop.catch_up(session)
    assert [row.name for row in session.branches(limit=1000)] == [one["name"] for one in DOCS]
    assert session.branch("doc-119").state().data == {"document": DOCS[119]}


def test_a_list_comes_from_standard_input(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.broker.register(batch_plan())
    said = in_workshop("submit", "batch", "--key", "k", "--list", "documents=-", stdin=LINES)
    assert said.code == 0
    assert workshop.broker.session("k").state().lists["documents"].items == 120
    again = in_workshop("submit", "batch", "--key", "k", "--list", "documents=-", stdin=ARRAY)
    assert (again.code, again.out) == (0, said.out)
    other = in_workshop("submit", "batch", "--key", "k", "--list", "documents=-", stdin=b"[]")
    assert other.code == 4
    assert "submitted with another content" in other.err


ITEMS: list[tuple[bytes, list[Any]]] = [
    (b"", []),
    (b"\n \n", []),
    (b"[]", []),
    (b"[1]", [1]),
    (b"[1]\n[2]", [[1], [2]]),
    (b"[\n1,\n2\n]", [1, 2]),
    (b"[1,\n2]", [1, 2]),
    (b'"a"\n7\nnull\n{}', ["a", 7, None, {}]),
    (b"7", [7]),
]


@pytest.mark.parametrize(("raw", "items"), ITEMS)
def test_what_is_an_array_and_what_is_lines(tmp_path: Path, raw: bytes, items: list[Any]) -> None:
    path = tmp_path / "list"
    path.write_bytes(raw)
    assert lists_of((f"x={path}",)) == {"x": items}


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"a": 1}\n{"a": \n', "list x, line 2 does not fit its contract: not UTF-8 JSON"),
        (
            b'{"a": 1}\n\n{"a": 1, "a": 2}\n',
            "list x, line 3 does not fit its contract at /a: an object has this key twice",
        ),
        (b"[1, 2", "list x does not fit its contract: not UTF-8 JSON"),
        (b'[1, {"a": 1, "a": 2}]', "list x does not fit its contract at /1/a: an object has this key twice"),
        (b"\xff\xfe", "list x, line 1 does not fit its contract: not UTF-8"),
        (b"[" * 5000 + b"]" * 5000, "nested deeper than 64"),
        (b"hello", "list x, line 1 does not fit its contract"),
    ],
)
def test_what_is_neither_is_refused_with_its_place(tmp_path: Path, raw: bytes, said: str) -> None:
    path = tmp_path / "list"
    path.write_bytes(raw)
    with pytest.raises(ContractError) as caught:
        lists_of((f"x={path}",))
    assert said in str(caught.value)


def test_a_file_that_is_too_long_is_not_read_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(params, "LIST_BUDGET", 100)
    path = tmp_path / "list"
    path.write_bytes(b" " * 101)
    with pytest.raises(ContractError, match="more than 100 bytes"):
        lists_of((f"x={path}",))


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("--list", "documents"), 2, "expected NAME=FILE, got 'documents'"),
        (("--list", "=docs.json"), 2, "expected NAME=FILE"),
        (("--list", "documents="), 2, "expected NAME=FILE"),
        (("--list", "documents=nowhere.json"), 2, "nowhere.json: No such file or directory"),
        (("--list", "documents=."), 2, "Is a directory"),
        (
            ("--list", "documents=docs.json", "--list", "documents=docs.json"),
            2,
            "list 'documents' is given twice",
        ),
        (
            ("--list", "documents=-", "--inputs", "-"),
            2,
            "only one of --list and --inputs can be standard input",
        ),
        (("--list", "documents=-", "--list", "more=-"), 2, "only one of --list and --inputs"),
        (("--list", "documnets=docs.json"), 2, "at /lists/documnets: no stage of batch@1"),
        (
            ("--list", "documents=docs.json", "--input", "documents=x"),
            2,
            "there is an input 'documents', too",
        ),
        (("--list", "documents=twice.json"), 2, "at /lists/documents/1/name: two branches have the name 'a'"),
    ],
)
def test_wrong_words_submit_nothing(
    in_workshop: Cli, workshop: Workshop, tmp_path: Path, args: tuple[str, ...], code: int, said: str
) -> None:
    workshop.broker.register(batch_plan())
    (tmp_path / "docs.json").write_bytes(ARRAY)
    (tmp_path / "twice.json").write_bytes(b'[{"name": "a"}, {"name": "a"}]')
    found = in_workshop("submit", "batch", *args)
    assert (found.code, found.out) == (code, "")
    assert said in found.err
    assert workshop.broker.sessions() == []
