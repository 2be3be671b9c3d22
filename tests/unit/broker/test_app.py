"""Addresses, and what is opened at them."""

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from passdown.broker import app as module
from passdown.broker.app import compose, open_store, shown_address, store_path, transport_of, when_there
from passdown.broker.doorbell import KombuDoorbell, SilentDoorbell
from passdown.broker.transports import folder, memory
from passdown.contracts.errors import ContractError, Unavailable


class TestStoreAddresses:
    @pytest.mark.parametrize(
        ("address", "path"),
        [
            ("sqlite:///passdown.db", "passdown.db"),
            ("sqlite:///", "passdown.db"),
            ("sqlite:///a/b.db", "a/b.db"),
            ("sqlite:////var/lib/passdown.db", "/var/lib/passdown.db"),
            ("sqlite:///:memory:", ":memory:"),
            ("sqlite:///my plans/50%20 ü?mode=ro#x.db", "my plans/50%20 ü?mode=ro#x.db"),
        ],
    )
    def test_a_path_is_taken_as_it_is_written(self, address: str, path: str) -> None:
        assert store_path(address) == path

    @pytest.mark.parametrize(
        "address",
        ["", "passdown.db", "sqlite:", "sqlite://", "sqlite://host/a.db", "redis:h", "SQLITE:///a"],
    )
    def test_what_is_no_address(self, address: str) -> None:
        with pytest.raises(ContractError, match="expected sqlite:///path"):
            open_store(address)

    def test_a_nul_character(self) -> None:
        with pytest.raises(ContractError, match="NUL"):
            open_store("sqlite:///a\0b")

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ContractError, match="is a folder; name a file in it"):
            open_store(f"sqlite:///{tmp_path}")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["a b.db", "50%.db", "%2e.db", "ü ☃.db", "a'b\".db", "file:x.db", "-x"])
    def test_odd_names_are_files(self, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for address in (f"sqlite:///{name}", f"sqlite:///{tmp_path}/{name}"):
            open_store(address).close()
            assert [one.name for one in tmp_path.iterdir()] == [name]  # and what came with it is gone

    def test_a_missing_folder_is_told(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="the file cannot be opened; look at the folder"):
            open_store(f"sqlite:///{tmp_path}/no/such.db")


class TestTransportAddresses:
    def test_beside_a_file_it_is_a_folder_that_is_not_made_yet(self, tmp_path: Path) -> None:
        for given in ("", "filesystem://"):
            transport = transport_of(f"sqlite:///{tmp_path}/a b.db", given)
            assert transport.options["data_folder_in"] == f"{tmp_path}/a b.db.bells"
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_of_its_own(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        for given in (f"filesystem://{tmp_path}/bells", "filesystem://bells"):
            transport = transport_of("sqlite:///x.db", given)
            assert transport.options["data_folder_out"] == f"{tmp_path}/bells"
            assert transport.url.startswith(f"{folder.SCHEME}://")

    def test_within_a_process_those_on_one_file_meet_and_no_others(self, tmp_path: Path) -> None:
        paths = (tmp_path / "a.db", tmp_path / "a.db", tmp_path / "x" / ".." / "a.db", tmp_path / "b.db")
        urls = [transport_of(f"sqlite:///{path}", "memory://").url for path in paths]
        assert urls[0].startswith(f"{memory.SCHEME}://")
        assert urls[0] == urls[1] == urls[2] != urls[3]

    def test_stores_in_memory_are_each_alone(self) -> None:
        assert transport_of("sqlite:///:memory:") != transport_of("sqlite:///:memory:")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("sqlite:////a@b/c.db", "sqlite:////a@b/c.db"),
        ("redis://:pass@host:6379/0", "redis://…@host:6379/0"),
        ("amqp://user:p@ss@host//", "amqp://…@host//"),
    ],
)
def test_addresses_are_shown_without_user_and_password(address: str, shown: str) -> None:
    assert shown_address(address) == shown


class TestCompose:
    def test_what_fails_leaves_nothing_open_and_nothing_behind(self, tmp_path: Path) -> None:
        with pytest.raises(ContractError):
            compose(f"sqlite:///{tmp_path}/a.db", "nonsense")
        with pytest.raises(ContractError, match="events does not fit"):
            compose(f"sqlite:///{tmp_path}/a.db", events="a b")
        assert list(tmp_path.iterdir()) == []

    def test_it_has_a_doorbell_and_closes_twice(self) -> None:
        app = compose("sqlite:///:memory:", patience_s=3.0)
        assert isinstance(app.doorbell, KombuDoorbell)
        assert vars(app.controller)["_patience_s"] == 3.0
        app.close()
        app.close()

    def test_on_a_file_no_client_of_a_server_is_loaded(self, tmp_path: Path) -> None:
        """Most processes are short, and redis-py alone takes a tenth of a second."""
        code = (
            "import sys; from passdown.broker.app import compose; app = compose(sys.argv[1]);"
            "app.doorbell.ring('clerk'); assert app.embedded; app.close(); sys.exit('redis' in sys.modules)"
        )
        subprocess.run([sys.executable, "-c", code, f"sqlite:///{tmp_path}/a.db"], check=True)

    def test_without_an_address_nobody_is_rung(self) -> None:
        assert isinstance(module.open_doorbell(module.Transport("", {})), SilentDoorbell)


class TestWhenThere:
    def test_it_tries_until_it_is_there_with_longer_and_longer_waits(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stop = threading.Event()
        waits: list[float] = []
        monkeypatch.setattr(stop, "wait", waits.append)
        faults = [Unavailable("the store", "gone")] * 9

        def attempt() -> None:
            if faults:
                raise faults.pop()

        with structlog.testing.capture_logs() as said:
            assert when_there("worker", attempt, stop)
        assert {one["event"] for one in said} == {"worker.store_away"}
        for n, waited in enumerate(waits):
            longest = min(15.0, 0.25 * 2**n)
            assert longest / 2 <= waited <= longest

    def test_told_to_stop_it_gives_up(self) -> None:
        stop = threading.Event()

        def attempt() -> None:
            stop.set()
            raise Unavailable("the store", "gone")

        assert not when_there("worker", attempt, stop)

    def test_what_will_never_do_is_raised(self) -> None:
        def attempt() -> None:
            raise ContractError("store", "of a newer version")

        with pytest.raises(ContractError):
            when_there("worker", attempt, cast("Any", threading.Event()))
