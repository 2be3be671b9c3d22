"""Where a demo keeps its things."""

from pathlib import Path

import pytest

from passdown.broker.demo.place import place, place_beside
from passdown.contracts.errors import ContractError, Unavailable


def test_a_folder_and_an_address_lead_to_the_same_layout(tmp_path: Path) -> None:
    by_folder = place(str(tmp_path), "test")
    by_address = place(f"sqlite:///{tmp_path}/passdown.db", "test")
    assert by_folder == by_address
    assert by_folder.folder == tmp_path / "passdown.db.demo"
    assert by_folder.logs.is_dir()


def test_without_a_store_a_new_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    one, other = place(None, "test"), place(None, "test")
    assert one != other
    assert one.folder.is_relative_to(tmp_path)


@pytest.mark.parametrize("store", ["redis://localhost", "sqlite:///:memory:"])
def test_a_store_that_several_processes_cannot_share_is_refused(store: str) -> None:
    with pytest.raises(ContractError):
        place(store, "test")


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unavailable):
        place(str(tmp_path / "file"), "test")


def test_beside_a_store_without_a_demo_is_nothing(tmp_path: Path) -> None:
    assert place_beside(f"sqlite:///{tmp_path}/passdown.db") is None
    assert place_beside("redis://localhost") is None
