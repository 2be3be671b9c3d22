"""What a process says of itself: written whole, judged by the oldest sign of life."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner

from passdown.broker import health as module
from passdown.broker.cli.health import health_command
from passdown.broker.health import Health, HealthFile, faults, read_health
from passdown.contracts.codec import decode, encode
from passdown.contracts.errors import ContractError, Unavailable
from tests.integration.site import wait_until

NOW = 1_000_000_000


def health(**more: object) -> Health:
    return Health(**{"kind": "worker", "pid": 1, "at_ms": NOW, "up_s": 5.0, "store_s": 0.1, **more})  # type: ignore[arg-type]


def nothing() -> None: ...


def run(one: HealthFile) -> threading.Event:
    stop = threading.Event()
    threading.Thread(target=one.run, args=(stop,), daemon=True).start()
    return stop


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        (health(), None),
        (health(poll_s=29.9), None),
        (health(poll_s=None), None),
        (health(poll_s=30.1), "transport has not answered for 30 s"),
        (health(store_s=31.0), "store has not answered for 31 s"),
        (health(at_ms=NOW - 31_000), "wrote last 31 s ago"),
        (health(at_ms=NOW + 31_000), "wrote last"),  # by a clock that went back nobody can tell
    ],
)
def test_the_oldest_sign_of_life_decides(found: Health, fault: str | None) -> None:
    said = faults(found, 30.0, NOW)
    assert (said == []) if fault is None else (fault in said[0])


def test_it_is_written_and_at_the_end_removed(tmp_path: Path) -> None:
    path = tmp_path / "h"
    stop = run(
        HealthFile(str(path), "worker", nothing, roles=["desk"], poll_s=lambda: 1.25, restarts=lambda: 3)
    )
    wait_until(path.exists, "the file")
    found = read_health(str(path))
    assert (found.kind, found.roles, found.poll_s, found.restarts) == ("worker", ["desk"], 1.2, 3)
    assert abs(found.at_ms / 1000 - time.time()) < 10
    stop.set()
    wait_until(lambda: list(tmp_path.iterdir()) == [], "nothing is left")


def test_a_store_that_hangs_keeps_it_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_EVERY_S", 0.01)
    hung = threading.Event()
    path = tmp_path / "h"
    stop = run(HealthFile(str(path), "tick", hung.wait))  # type: ignore[arg-type]
    wait_until(lambda: path.exists() and read_health(str(path)).store_s >= 0.1, "it says so")
    hung.set()
    wait_until(lambda: read_health(str(path)).store_s < 0.1, "the store answers")
    stop.set()


def test_a_store_that_fails_has_not_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_EVERY_S", 0.01)

    def away() -> None:
        raise Unavailable("store", "gone")

    path = tmp_path / "h"
    stop = run(HealthFile(str(path), "tick", away))
    wait_until(lambda: path.exists() and read_health(str(path)).store_s >= 0.1, "it says so")
    stop.set()


def test_a_file_that_cannot_be_written_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WRITE_EVERY_S", 0.01)
    asked: list[int] = []
    with structlog.testing.capture_logs() as said:
        stop = run(
            HealthFile(str(tmp_path / "no" / "h"), "tick", nothing, restarts=lambda: asked.append(1) or 0)
        )
        wait_until(lambda: len(asked) > 5, "several tries")
        stop.set()
    assert [one["event"] for one in said] == ["health.not_written"]


def test_what_is_no_health_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="its process is not up"):
        read_health(str(tmp_path / "none"))
    with pytest.raises(ContractError, match="cannot be read"):
        read_health(str(tmp_path))
    (tmp_path / "junk").write_bytes(b"\xff")
    with pytest.raises(ContractError):
        read_health(str(tmp_path / "junk"))


class TestCommand:
    def write(self, path: Path, **more: object) -> None:
        path.write_bytes(encode(health(**{"at_ms": int(time.time() * 1000), **more})))

    def test_green_is_0_and_red_is_6(self, tmp_path: Path) -> None:
        path = tmp_path / "h"
        self.write(path, roles=["desk"])
        asked = CliRunner().invoke(health_command, [str(path)])
        assert (asked.exit_code, asked.output.split(":")[0]) == (0, "green")
        self.write(path, poll_s=31.0)
        asked = CliRunner().invoke(health_command, [str(path)])
        assert (asked.exit_code, asked.output.split(":")[0]) == (6, "red")
        assert "its transport has not answered for 31 s" in asked.output
        assert CliRunner().invoke(health_command, [str(path), "--within", "1m"]).exit_code == 0

    def test_json(self, tmp_path: Path) -> None:
        path = tmp_path / "h"
        self.write(path, store_s=99.0)
        asked = CliRunner().invoke(health_command, [str(path), "--json"])
        said = decode(asked.output.encode(), dict[str, Any])
        assert (asked.exit_code, said["green"], said["health"]["storeS"]) == (6, False, 99.0)

    @pytest.mark.parametrize("within", ["30", "soon", "-1s"])
    def test_what_is_no_duration(self, tmp_path: Path, within: str) -> None:
        assert CliRunner().invoke(health_command, ["x", "--within", within]).exit_code == 2
