"""`config`, `schema`: settings with their origin, schemas that are up to date."""

import json
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Cli

ROOT = Path(__file__).parents[3]


def test_each_setting_is_shown_with_its_origin(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "passdown.toml").write_text('claim_by = "3s"\n[limits.roles]\ncashier = 5\n')
    monkeypatch.setenv("PASSDOWN_CONCURRENCY", "4")
    said = cli("config", "--set", "log_level=debug", "--as", "user:ann")
    assert (said.code, said.err) == (0, "")
    rows = {line.split()[0]: line.split("  ") for line in said.out.splitlines()}
    cells = {name: [cell.strip() for cell in row if cell.strip()] for name, row in rows.items()}
    assert cells["claim_by"][1:3] == ["3s", "passdown.toml"]
    assert cells["limits.roles"][1:3] == ["cashier = 5", "passdown.toml"]
    assert cells["concurrency"][1:3] == ["4", "PASSDOWN_CONCURRENCY"]
    assert cells["log_level"][1:3] == ["debug", "flag"]
    assert cells["as"][1:3] == ["user:ann", "flag"]
    assert cells["transport"][1:3] == ["(empty)", "default"]


def test_as_json_values_have_their_types(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('modules = ["a"]\nclaim_by = "90s"\n[limits.roles]\ncashier = 5\n')
    found = json.loads(cli("config", "--json", "--config", "other.toml").out)
    assert found["modules"] == {"value": ["a"], "origin": "other.toml", "environment": "PASSDOWN_MODULES"}
    assert found["limits.roles"]["value"] == {"cashier": 5}
    assert found["claim_by"]["value"] == "1m30s"
    assert found["concurrency"] == {"value": 8, "origin": "default", "environment": "PASSDOWN_CONCURRENCY"}


def test_a_variable_that_is_no_setting_is_mentioned(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PASSDOWN_STOER", "x")
    said = cli("config")
    assert said.code == 0
    assert (
        said.err
        == "passdown: PASSDOWN_STOER in the environment is no setting; did you mean 'PASSDOWN_STORE'?\n"
    )


def test_settings_that_are_wrong_stop_every_command(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "passdown.toml").write_text("claim_by = 10\n")
    for args in (["config"], ["list"], ["submit", "p"], ["up"], ["tick"], ["worker", "r", "--module", "m"]):
        said = cli(*args)
        assert (said.code, said.out) == (2, "")
        assert said.err.startswith("passdown: setting claim_by (passdown.toml) does not fit its contract")


def test_schemas_are_written_and_checked(cli: Cli, tmp_path: Path) -> None:
    stale = cli("schema", "check")
    assert stale.code == 1
    assert stale.out.count("\n") > 5
    assert not (tmp_path / "schemas").exists()
    assert cli("schema", "write").code == 0
    assert cli("schema", "check") == (0, "schemas is up to date\n", "")
    assert cli("schema", "write", "--check", "schemas").code == 0
    file = next((tmp_path / "schemas").rglob("*.json"))
    file.write_text(file.read_text() + " ")
    changed = cli("schema", "write", "--check")
    assert changed.code == 1
    assert file.name in changed.out


@pytest.mark.parametrize("args", [["schema", "write", "passdown.toml"], ["schema", "nope"]])
def test_what_is_no_folder_is_refused(cli: Cli, tmp_path: Path, args: list[str]) -> None:
    (tmp_path / "passdown.toml").write_text("")
    said = cli(*args)
    assert said.code == 2
    assert said.err.startswith("passdown: ")
