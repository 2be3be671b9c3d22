"""Writing the documents into a folder, and finding where a folder differs."""

import json
from pathlib import Path

import pytest

from passdown.broker.schemas import check, write
from passdown.broker.schemas.generate import documents

ROOT = Path(__file__).parents[3]


def test_the_repository_has_what_the_code_says() -> None:
    assert check(ROOT / "schemas") == [], "run `passdown schema write`"


def test_what_was_written_is_what_is_checked(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "schemas"
    assert sorted(write(folder)) == sorted(documents())
    assert check(folder) == []
    assert write(folder) == []
    assert check(str(folder)) == []


def test_a_folder_that_is_not_there_lacks_everything(tmp_path: Path) -> None:
    assert check(tmp_path / "none") == [f"{name}: missing" for name in documents()]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path)
    return tmp_path


def test_a_difference_is_told_with_its_line(folder: Path) -> None:
    path = folder / "pack.json"
    path.write_text(
        path.read_text(encoding="utf-8").replace('"title": "Pack"', '"title": "Parcel"'), encoding="utf-8"
    )
    assert check(folder) == ['pack.json: line 5: expected "title": "Pack",, got "title": "Parcel",']
    assert write(folder) == ["pack.json"]
    assert check(folder) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "line 1: expected {, got nothing"),
        (b"\xff\xfe", "line 1: expected {, got "),
        (documents()["tool.json"].encode() + b"more\n", "expected nothing, got more"),
        (documents()["tool.json"].encode()[:-1], "the line ends differ"),
        (documents()["tool.json"].encode().replace(b"\n", b"\r\n"), "the line ends differ"),
    ],
)
def test_whatever_stands_there_instead_is_told(folder: Path, text: bytes, said: str) -> None:
    (folder / "tool.json").write_bytes(text)
    (found,) = check(folder)
    assert found.startswith("tool.json: ")
    assert said in found


def test_what_is_no_longer_generated_is_told_and_removed(folder: Path) -> None:
    old = folder / "events" / "Old.json"
    old.write_text(json.dumps({"$id": "urn:passdown:events:Old:1"}), encoding="utf-8")
    assert check(folder) == ["events/Old.json: no longer generated"]
    assert write(folder) == ["events/Old.json"]
    assert not old.exists()


@pytest.mark.parametrize(
    "text", ['{"$id": "urn:other:1"}', '{"openapi": "3.1.0"}', "[]", "no JSON", "[" * 100_000]
)
def test_the_files_of_others_are_let_be(folder: Path, text: str) -> None:
    other = folder / "openapi.json"
    other.write_text(text, encoding="utf-8")
    assert check(folder) == []
    assert write(folder) == []
    assert other.read_text(encoding="utf-8") == text


def test_files_end_with_a_line_end_and_are_utf_8(folder: Path) -> None:
    for name in documents():
        data = (folder / name).read_bytes()
        assert data.endswith(b"}\n")
        assert "±" in data.decode("utf-8")
