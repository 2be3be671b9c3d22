"""Messages in a folder: whole or not at all, each to one reader, and junk stops nobody (rule 11)."""

import base64
import json
import threading
from pathlib import Path
from queue import Empty
from typing import Any

import kombu
import pytest
import structlog

from passdown.broker.transports import folder
from tests.conformance.together import together


@pytest.fixture
def bells(tmp_path: Path) -> Path:
    return tmp_path / "a" / "bells"


def connect(bells: Path) -> kombu.Connection:
    return kombu.Connection(f"{folder.SCHEME}://localhost", transport_options=folder.options_of(bells))


def channel(bells: Path) -> Any:
    return connect(bells).channel()


def put(sender: Any, queue: str, body: bytes = b"0") -> None:
    text = base64.b64encode(body).decode()
    delivery = {"exchange": "", "routing_key": queue}
    properties: dict[str, Any] = {"delivery_tag": "t", "delivery_info": delivery, "body_encoding": "base64"}
    sender._put(queue, {"body": text, "properties": properties, "headers": {}})


def test_the_folder_is_made_when_it_is_needed(bells: Path) -> None:
    connection = connect(bells)
    assert not bells.exists()
    connection.channel()
    assert (bells / "control").is_dir()


def test_first_come_first_served_and_each_queue_for_itself(bells: Path) -> None:
    one = channel(bells)
    for body in (b"1", b"2", b"3"):
        put(one, "passdown.a", body)
    put(one, "passdown.b.a")
    got = [base64.b64decode(one._get("passdown.a")["body"]) for _ in range(3)]
    assert got == [b"1", b"2", b"3"]
    with pytest.raises(Empty):
        one._get("passdown.a")
    assert (one._size("passdown.b.a"), one._size("b.a"), one._size("passdown.b")) == (1, 0, 0)
    assert one._purge("passdown.b.a") == 1
    assert one._size("passdown.b.a") == 0


def test_a_message_has_one_reader_and_is_never_seen_in_part(bells: Path) -> None:
    """Eight writers and eight readers: nothing is lost, doubled or torn."""
    body = b"7" * 4_000
    got: list[bytes] = []
    done = threading.Event()

    def act(n: int) -> None:
        mine = channel(bells)
        if n < 4:
            for _ in range(25):
                while mine._size("q") >= folder.MOST_LYING // 2:
                    done.wait(0.001)
                put(mine, "q", body)
            return
        while len(got) < 100 and not done.is_set():
            try:
                got.append(base64.b64decode(mine._get("q")["body"]))
            except Empty:
                done.wait(0.001)

    with structlog.testing.capture_logs() as said:
        together(8, act)
    assert got[:100] == [body] * 100
    assert said == []
    assert list(bells.glob("*.part")) == []


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\xff\xfe",
        b"not json",
        b"[1,2]",
        b"5",
        b'{"a":1}',
        b"[" * 200_000,
        (
            b'{"body":"%%%","headers":{},"properties":{"delivery_tag":"t","delivery_info":'
            b'{"exchange":"","routing_key":"q"},"body_encoding":"base64"}}'
        ),
        json.dumps({"__type__": "x", "__value__": "y"}).encode(),
    ],
    ids=["empty", "bytes", "text", "list", "number", "object", "deep", "base64", "tagged"],
)
def test_rule_11_junk_is_put_aside_and_the_next_message_comes(bells: Path, junk: bytes) -> None:
    one = channel(bells)
    (bells / "0_junk.q.msg").write_bytes(junk)
    put(one, "q", b'"good"')
    with structlog.testing.capture_logs() as said:
        assert base64.b64decode(one._get("q")["body"]) == b'"good"'
    assert [(line["event"], line["bytes"]) for line in said] == [("transport.junk", len(junk))]
    assert [path.read_bytes() for path in bells.glob("*.junk")] == [junk]


def test_rule_12_junk_does_not_pile_up(bells: Path) -> None:
    one = channel(bells)
    for n in range(3 * folder.MOST_JUNK):
        (bells / f"{n}_junk.q.msg").write_bytes(b"x")
    with structlog.testing.capture_logs() as said, pytest.raises(Empty):
        one._get("q")
    assert len(said) == 3 * folder.MOST_JUNK
    assert len(list(bells.glob("*.junk"))) == folder.MOST_JUNK
    assert list(bells.glob("*.msg")) == []


def test_a_full_disk_leaves_nothing_half_written(bells: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = channel(bells)

    def full(self: Path, *_: Any, **__: Any) -> int:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space left"):
        put(one, "q")
    assert [path.name for path in bells.iterdir()] == ["control"]
    monkeypatch.undo()
    put(one, "q")
    assert one._size("q") == 1


def test_a_consumer_hears_soon_and_is_let_go_of_soon(bells: Path) -> None:
    connection = connect(bells)
    heard = threading.Event()
    queue = kombu.Queue("q", routing_key="q")

    def hear(_body: Any, message: Any) -> None:
        message.ack()
        heard.set()

    with connection.Consumer(queue, callbacks=[hear]):
        with pytest.raises(TimeoutError):
            connection.drain_events(timeout=60)
        threading.Timer(0.05, lambda: put(channel(bells), "q", b'"x"')).start()
        for _ in range(40):
            try:
                connection.drain_events(timeout=60)
                break
            except TimeoutError:
                continue
    assert heard.is_set()
    connection.release()
