from pathlib import Path

import pytest

from passdown.broker.doctor.transports import transport_findings
from passdown.broker.transports.addresses import Transport, transport_of
from tests.servers.process import free_ports
from tests.servers.redis import RedisServer


def test_no_transport_is_said() -> None:
    (found,) = transport_findings(Transport("", {}))
    assert (found.level, found.advice) == ("yellow", "set `transport`")


def test_a_folder_that_is_not_there_yet_is_not_made(tmp_path: Path) -> None:
    (found,) = transport_findings(transport_of(f"sqlite:///{tmp_path}/a.db"))
    assert found.level == "green"
    assert "made with the first message" in found.found
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", ["memory://", "filesystem://"])
def test_a_probe_goes_there_and_comes_back_and_leaves_nothing(tmp_path: Path, address: str) -> None:
    transport = transport_of(f"sqlite:///{tmp_path}/a.db", address)
    (tmp_path / "a.db.bells").mkdir()
    (found,) = transport_findings(transport)
    assert found.level == "green"
    assert "a probe came back after" in found.found
    assert not list(tmp_path.rglob("*.msg"))


def test_a_probe_over_redis_leaves_nothing(redis_server: RedisServer) -> None:
    (found,) = transport_findings(transport_of("sqlite:///a.db", redis_server.url(5)))
    assert (found.level, found.found.split(",")[0]) == ("green", "redis")
    assert redis_server.client(5).execute_command("KEYS", "*") == []


def test_a_probe_over_rabbitmq_tells_its_version(rabbitmq_url: str) -> None:
    (found,) = transport_findings(transport_of("sqlite:///a.db", rabbitmq_url))
    assert found.level == "green"
    assert found.found.startswith("RabbitMQ ")
    assert "guest" not in found.found


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_one_that_is_away_is_red_and_its_password_is_kept(scheme: str) -> None:
    address = f"{scheme}://ann:secret@127.0.0.1:{free_ports()}/0"
    (found,) = transport_findings(transport_of("sqlite:///a.db", address))
    assert found.level == "red"
    assert "secret" not in found.found + found.advice
