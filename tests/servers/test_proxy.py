"""The proxy does the harm that it is asked for, seen from a client, and no other."""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import amqp
import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.process import wait_until
from tests.servers.proxy import Proxy
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tests.servers.replies import AmqpReplies, RedisReplies, end_of

Client = Callable[[], Any]


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server.port) as proxy:
        yield proxy


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    """Connect through the proxy: one connection, no retries, and half a second of patience."""
    clients: list[redis.Redis] = []

    def connect() -> redis.Redis:
        clients.append(
            redis.Redis(
                port=proxy.port,
                retry=Retry(NoBackoff(), 0),
                socket_timeout=0.5,
                single_connection_client=True,
            )
        )
        return clients[-1]

    yield connect
    for one in clients:
        one.close()


def test_what_passes_is_whole_in_both_directions(client: Client) -> None:
    one = client()
    big = bytes(range(256)) * 20_000
    one.set("big", big)
    assert one.get("big") == big
    assert one.pipeline(transaction=False).incr("n").incr("n").get("big").execute() == [1, 2, big]


def test_every_second_reply_is_lost_after_the_work_was_done(proxy: Proxy, client: Client) -> None:
    proxy.lose_replies()
    given: list[int | None] = []
    for _ in range(6):
        try:
            given.append(client().incr("n"))
        except redis.ConnectionError:
            given.append(None)
    assert given == [1, None, 3, None, 5, None]
    assert proxy.lost == 3
    proxy.pass_on()
    assert [client().incr("n") for _ in range(2)] == [7, 8]


def test_a_pipeline_is_one_reply_and_lost_whole(
    proxy: Proxy, client: Client, redis_server: RedisServer
) -> None:
    proxy.lose_replies(every=1)
    with pytest.raises(redis.ConnectionError):
        client().pipeline(transaction=False).incr("n").incr("n").incr("n").execute()
    assert redis_server.client().get("n") == b"3"


def test_a_reset_ends_open_connections_and_serves_new_ones(proxy: Proxy, client: Client) -> None:
    old = client()
    old.ping()
    proxy.reset()
    with pytest.raises(redis.ConnectionError, match="reset by peer"):
        old.ping()
    assert client().ping()


def test_silent_connections_stay_open_and_stay_silent(
    proxy: Proxy, client: Client, redis_server: RedisServer
) -> None:
    old = client()
    old.ping()
    proxy.silence()
    with pytest.raises(redis.TimeoutError):
        old.incr("n")
    assert not redis_server.client().exists("n")
    with pytest.raises(redis.TimeoutError):
        client().ping()
    proxy.pass_on()
    assert client().ping()


def test_silence_may_spare_new_connections(proxy: Proxy, client: Client) -> None:
    old = client()
    old.ping()
    proxy.silence(new=False)
    assert client().ping()
    with pytest.raises(redis.TimeoutError):
        old.ping()


def test_the_server_does_not_learn_that_a_silent_client_left(
    proxy: Proxy, client: Client, redis_server: RedisServer
) -> None:
    gone = client()
    gone.client_setname("gone")
    proxy.silence()
    gone.close()
    client_names = {one["name"] for one in redis_server.client().client_list()}
    assert "gone" in client_names
    proxy.reset()
    wait_until(
        lambda: "gone" not in {one["name"] for one in redis_server.client().client_list()},
        lambda: "the server has seen the reset",
        5,
    )


def test_new_connections_are_refused_and_open_ones_stay(proxy: Proxy, client: Client) -> None:
    old = client()
    old.ping()
    proxy.refuse()
    with pytest.raises(redis.ConnectionError, match="refused"):
        client().ping()
    assert old.ping()
    proxy.pass_on()
    assert client().ping()


def test_replies_are_held_back_in_order(proxy: Proxy, client: Client) -> None:
    one = client()
    one.ping()
    proxy.delay(0.1)
    began = time.monotonic()
    assert [one.incr("n") for _ in range(3)] == [1, 2, 3]
    assert time.monotonic() - began >= 0.3
    proxy.pass_on()
    assert [one.incr("n") for _ in range(3)] == [4, 5, 6]


def test_a_server_that_is_down_resets_new_connections(client: Client, proxy: Proxy) -> None:
    proxy.target = 1
    with pytest.raises(redis.ConnectionError):
        client().ping()


def test_every_second_confirmation_of_rabbitmq_is_lost(
    shared_rabbitmq: RabbitServer, rabbitmq_url: str
) -> None:
    """The message is on the queue all the same."""
    vhost = rabbitmq_url.rpartition("/")[2]
    with Proxy(shared_rabbitmq.port, AmqpReplies) as proxy:
        proxy.lose_replies()
        confirmed: list[bool] = []
        for _ in range(4):
            connection = amqp.Connection(f"127.0.0.1:{proxy.port}", virtual_host=vhost)
            try:
                connection.connect()
                channel = connection.channel()
                channel.queue_declare("q", auto_delete=False)
                channel.basic_publish_confirm(amqp.Message("hello"), routing_key="q")
                confirmed.append(True)
            except OSError:
                confirmed.append(False)
            finally:
                connection.collect()
    assert confirmed == [True, False, True, False]
    with amqp.Connection(f"127.0.0.1:{shared_rabbitmq.port}", virtual_host=vhost) as connection:
        declared = connection.channel().queue_declare("q", passive=True)
        assert declared is not None
        assert declared[1] == 4


@pytest.mark.parametrize(
    "value",
    [
        b"+OK\r\n",
        b":1\r\n",
        b"_\r\n",
        b"$-1\r\n",
        b"*-1\r\n",
        b"$5\r\na\r\nbc\r\n",
        b"*2\r\n*1\r\n:1\r\n$0\r\n\r\n",
        b"%1\r\n+a\r\n~2\r\n:1\r\n:2\r\n",
        b"|1\r\n+ttl\r\n:1\r\n$1\r\nx\r\n",
        b"=7\r\ntxt:abc\r\n",
    ],
)
def test_a_value_ends_where_it_is_whole(value: bytes) -> None:
    assert end_of(b"x" + value + b"+next\r\n", 1) == 1 + len(value)
    assert [end_of(value[:cut], 0) for cut in range(len(value))] == [None] * len(value)


def test_what_sets_up_a_connection_is_not_counted_and_push_messages_answer_nothing() -> None:
    asked: list[int] = []
    replies = RedisReplies(lambda: bool(asked.append(1)) or True)
    replies.sent(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")
    assert replies.received(b"%0\r\n") == (b"%0\r\n", False)
    assert asked == []
    replies.sent(b"*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n*2\r\n$4\r\nINCR\r\n$1\r\nn\r\n")
    assert asked == [1]
    assert replies.received(b">1\r\n+hi\r\n:1\r\n") == (b"", False)
    assert replies.received(b":2\r\n") == (b"", True)


def test_frames_are_told_apart_wherever_they_are_cut() -> None:
    ack = struct.pack(">BHIHH", 1, 1, 13, 60, 80) + bytes(9) + b"\xce"
    other = struct.pack(">BHIHH", 1, 1, 4, 20, 11) + b"\xce"
    replies = AmqpReplies(lambda: True)
    assert b"".join(replies.received(bytes([byte]))[0] for byte in other) == other
    assert replies.received(other + ack) == (other, True)
