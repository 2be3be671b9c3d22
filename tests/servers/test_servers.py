"""The servers that tests start: they do as they are told, and none outlives the tests."""

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import amqp
import psutil
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers import process
from tests.servers.fixtures import StartRabbit, StartRedis
from tests.servers.process import ServerProcess, wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import Kind, RedisServer, slots_to_itself

NEVER = Retry(NoBackoff(), 0)
ROOT = Path(__file__).parents[2]


def written(server: RedisServer) -> None:
    server.client().set("key", "value")


@pytest.mark.parametrize(("kind", "field"), [("redis", "redis_version"), ("valkey", "valkey_version")])
def test_a_server_is_of_the_kind_that_was_asked_for(start_redis: StartRedis, kind: Kind, field: str) -> None:
    said = start_redis(kind).client().info("server")
    assert said.get("server_name", "redis") == kind
    assert said[field]


def test_settings_are_in_force(start_redis: StartRedis) -> None:
    server = start_redis(
        maxmemory="8mb", maxmemory_policy="allkeys-lru", requirepass="secret", appendfsync="always"
    )
    in_force = server.client().config_get("*")
    wanted = {
        "maxmemory": "8388608",
        "maxmemory-policy": "allkeys-lru",
        "appendfsync": "always",
        "bind": "127.0.0.1",
    }
    assert {name: in_force[name] for name in wanted} == wanted
    stranger: Any = redis.Redis(port=server.port, retry=NEVER)
    with stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()


def test_a_killed_server_comes_back_on_its_port_with_what_it_had(start_redis: StartRedis) -> None:
    server = start_redis(appendfsync="always")
    written(server)
    address = server.url()
    server.kill()
    with pytest.raises(redis.ConnectionError):
        server.client().ping()
    server.restart()
    assert (server.url(), server.client().get("key")) == (address, b"value")


def test_a_running_server_is_stopped_before_it_is_started_again(start_redis: StartRedis) -> None:
    server = start_redis()
    first = server.pid
    written(server)
    server.restart()
    assert server.pid != first
    assert server.client().get("key") == b"value"


def test_a_frozen_server_answers_once_it_goes_on(start_redis: StartRedis) -> None:
    server = start_redis()
    hasty: Any = redis.Redis(port=server.port, socket_timeout=0.2, retry=NEVER)
    with hasty:
        hasty.ping()
        server.pause()
        with pytest.raises(redis.TimeoutError):
            hasty.ping()
        server.resume()
        assert hasty.ping()


def test_a_server_alone_is_a_cluster(start_redis: StartRedis) -> None:
    server = start_redis(cluster_enabled="yes")
    slots_to_itself(server)
    written(server)


def test_a_server_that_does_not_start_says_why(start_redis: StartRedis) -> None:
    with pytest.raises(AssertionError, match="no-such-setting"):
        start_redis(no_such_setting="1")


def test_a_shared_server_is_empty_for_each_test(
    redis_server: RedisServer, request: pytest.FixtureRequest
) -> None:
    written(redis_server)
    redis_server.client(5).set("other", "value")
    request.getfixturevalue("valkey_server")
    assert redis_server.client().dbsize() == 1


def test_a_shared_server_is_empty_for_each_test_the_next(redis_server: RedisServer) -> None:
    assert (redis_server.client().dbsize(), redis_server.client(5).dbsize()) == (0, 0)


def test_what_is_missing_fails_in_ci_and_is_skipped_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="apt install it"):
        process.missing("it", "apt install it")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="apt install it"):
        process.missing("it", "apt install it")


@pytest.mark.parametrize("server", ["redis.RedisServer", "rabbitmq.RabbitServer"])
def test_a_server_dies_with_tests_that_are_killed(tmp_path: Path, server: str) -> None:
    """Also one that was started by a thread that has ended since, which must not take the server with it."""
    module, _, name = server.partition(".")
    script = f"""
        import pathlib, sys, threading, time
        from tests.servers.{module} import {name}
        server = {name}(pathlib.Path(sys.argv[1]))
        starting = threading.Thread(target=server.start)
        starting.start()
        starting.join()
        assert server._answers()
        print(server.pid, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as tests:
        assert tests.stdout is not None
        started = psutil.Process(int(tests.stdout.readline()))
        assert started.is_running()
        tests.kill()
    wait_until(lambda: not started.is_running(), lambda: f"the end of {started}", 10)


# -- RabbitMQ --


def passes(url: str) -> None:
    """Send a message through a queue."""
    host, _, vhost = url.removeprefix("amqp://guest:guest@").partition("/")
    with amqp.Connection(host, virtual_host=vhost.replace("%2F", "/")) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"})
        channel.basic_publish_confirm(amqp.Message("hello", delivery_mode=2), routing_key="q")
        got = channel.basic_get("q")
        assert got is not None
        assert got.body == "hello"


def test_each_test_has_a_virtual_host_of_its_own(rabbitmq_url: str, shared_rabbitmq: RabbitServer) -> None:
    passes(rabbitmq_url)
    other = shared_rabbitmq.new_vhost()
    assert shared_rabbitmq.url(other) != rabbitmq_url
    passes(shared_rabbitmq.url(other))
    shared_rabbitmq.remove_vhost(other)
    assert other not in shared_rabbitmq.eval("rabbit_vhost:list_names()")


def test_what_erlang_refuses_fails(shared_rabbitmq: RabbitServer) -> None:
    with pytest.raises(AssertionError, match="badarith"):
        shared_rabbitmq.eval("1/0")
    assert shared_rabbitmq.eval("1+1") == "2"


def test_a_node_is_killed_frozen_and_started_again_and_leaves_nothing(start_rabbitmq: StartRabbit) -> None:
    server = start_rabbitmq({"consumer_timeout": 61_000})
    assert server.eval("application:get_env(rabbit, consumer_timeout)") == "{ok,61000}"
    passes(server.url())
    server.sync()
    server.kill()
    server.restart()
    passes(server.url())
    server.pause()
    server.resume()
    # What would start epmd, which outlives the node, a minute from now.
    assert "rabbit_epmd_monitor" not in server.eval(
        "[Id || {Id, Pid, _, _} <- supervisor:which_children(rabbit_sup), is_pid(Pid)]"
    )
    listening = {
        one.laddr.ip for one in psutil.Process(server.pid).net_connections() if one.status == "LISTEN"
    }
    assert listening == {"127.0.0.1"}
    began = time.monotonic()
    ours = psutil.Process(server.pid).children(recursive=True)
    server.stop()
    assert time.monotonic() - began < process.STOP_S
    wait_until(lambda: not any(one.is_running() for one in ours), lambda: f"the end of {ours}", 10)


def test_a_server_that_ignores_the_order_to_stop_is_killed_and_the_test_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Deaf(ServerProcess):
        def _ready(self) -> bool:
            return "ready" in self.log()

    monkeypatch.setattr(process, "STOP_S", 0.1)
    server = Deaf(tmp_path, ["sh", "-c", f"trap '' {signal.SIGTERM.value}; echo ready; read never"])
    server.start()
    with pytest.raises(AssertionError, match="did not stop"):
        server.stop()
    assert not server.running
    server.close()
