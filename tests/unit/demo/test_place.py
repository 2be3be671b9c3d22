"""Where a demo keeps its things."""

from pathlib import Path

import pytest

from passdown.broker.demo.place import Place, Where, place, place_beside, require_files_of
from passdown.contracts.errors import ContractError, Unavailable


def test_a_folder_and_an_address_lead_to_the_same_layout(tmp_path: Path) -> None:
    by_folder = place(Where(str(tmp_path)), "test")
    by_address = place(Where(f"sqlite:///{tmp_path}/passdown.db"), "test")
    assert by_folder == by_address
    assert by_folder.folder == tmp_path / "passdown.db.demo"
    assert by_folder.logs.is_dir()


def test_without_a_store_a_new_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = place(Where(), "test"), place(Where(), "test")
    assert one != other
    assert one.folder.is_relative_to(tmp_path)


def test_a_store_on_a_server_has_its_files_in_a_folder_that_is_named_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    named = place(Where("redis://host/0", "amqp://host", tmp_path / "here"), "test")
    assert named == Place("redis://host/0", tmp_path / "here", "amqp://host")
    assert named.runs.is_dir()
    new = place(Where("redis://host/0"), "test")
    assert new.folder.parent == tmp_path
    assert new.folder.name.startswith("passdown-test-")


def test_a_file_may_have_the_demos_files_elsewhere(tmp_path: Path) -> None:
    made = place(Where(str(tmp_path), "redis://host/1", tmp_path / "here"), "test")
    assert made == Place(f"sqlite:///{tmp_path}/passdown.db", tmp_path / "here", "redis://host/1")


@pytest.mark.parametrize(
    "where",
    [
        Where("http://localhost"),
        Where("sqlite:///:memory:"),
        Where("redis://host/0", "memory://"),
        Where(None, "memory://"),
        Where("redis://host/0", "http://host"),
    ],
)
def test_what_several_processes_cannot_share_is_refused_and_nothing_made(
    where: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ContractError):
        place(where, "test")
    assert list(tmp_path.iterdir()) == []


def test_sessions_of_a_demo_whose_files_are_elsewhere_are_not_gone_on_with(tmp_path: Path) -> None:
    at = place(Where("redis://:secret@host/0", folder=tmp_path), "test")
    require_files_of(at, [])
    with pytest.raises(ContractError, match=r"redis://…@host/0.* --folder"):
        require_files_of(at, ["recorded:1:0"])
    at.journal.touch()
    require_files_of(at, ["recorded:1:0"])


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        place(Where(str(tmp_path / "file")), "test")


def test_beside_a_store_without_a_demo_is_nothing(tmp_path: Path) -> None:
    assert place_beside(f"sqlite:///{tmp_path}/passdown.db") is None
    assert place_beside("redis://localhost") is None


def test_the_files_of_a_demo_on_a_server_are_found_where_one_says(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match=r"there is no outside\.db"):
        place_beside("redis://localhost", tmp_path)
    (tmp_path / "outside.db").touch()
    found = place_beside("redis://localhost", tmp_path)
    assert found is not None
    assert found.journal == tmp_path / "outside.db"
