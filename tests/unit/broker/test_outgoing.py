"""Telling outside: in order, at least once, and no fault of one session or one queue keeps the others waiting."""

import threading
from collections.abc import Iterator
from typing import Any

import kombu
import msgspec
import pytest
from structlog.testing import capture_logs

from passdown.broker.app import App, transport_of
from passdown.broker.controller import Controller
from passdown.broker.outgoing import BATCH, LEAVE_S, RESERVE_MS, Passed, Teller
from passdown.broker.stores.queries import FindEnded
from passdown.broker.transports import queues
from passdown.broker.transports.carrier import Publisher, Refused, connection_to
from passdown.contracts.errors import Conflict, ContractError, Unavailable
from passdown.contracts.outgoing import CONTENT_TYPE, Outgoing
from tests.unit.broker.groves import REGIONS, grove, regions, tree_in, work
from tests.unit.broker.rig import Bells, Rig, plan, two_stages


class Mouth:
    """A publisher that writes down what it is given, after a fault where one is planned for that queue or exchange."""

    def __init__(self) -> None:
        self.said: list[tuple[str, Outgoing]] = []
        self.faults: dict[str, Exception] = {}
        self.closed = False

    def publish(self, body: bytes, *, queue: str = "", exchange: str = "", **how: Any) -> None:
        if fault := self.faults.get(queue or exchange):
            raise fault
        assert how["content_type"] == CONTENT_TYPE
        event: Outgoing = msgspec.json.decode(body, type=Outgoing)
        assert how["message_id"] == event.id
        self.said.append((queue or f"{exchange}:{how['routing_key']}", event))

    def close(self) -> None:
        self.closed = True

    def words(self) -> list[tuple[str, str]]:
        return [(where, event.data.key) for where, event in self.said]


@pytest.fixture
def mouth() -> Mouth:
    return Mouth()


@pytest.fixture
def teller(rig: Rig, mouth: Mouth) -> Teller:
    return teller_of(rig, mouth)


def teller_of(rig: Rig, mouth: Any) -> Teller:
    return Teller(rig.store, mouth, source="/passdown", monotonic=lambda: rig.clock.now / 1000)


def with_events(rig: Rig) -> None:
    """Have the rig's producer submit with an exchange for events."""
    controller = Controller(rig.store, Bells(), patience_s=0.0, events_to="events")
    rig.broker.app = App(rig.store, rig.app.transport, rig.bells, controller)


# -- what arrives ------------------------------------------------------------------------------------------


def test_an_outcome_arrives_on_its_queue_once(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    rig.open(key="a", reply_to="replies")
    assert teller.once() == Passed(0, 0)
    rig.claim().give()
    assert teller.once() == Passed(1, 1)
    assert teller.once() == Passed(0, 0)
    ((where, event),) = mouth.said
    assert (where, event.data.status, event.source) == ("replies", "done", "/passdown")


def test_changes_arrive_in_order_whether_told_one_by_one_or_at_once(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    with_events(rig)
    rig.open(two_stages(), key="a")
    teller.once()
    rig.claim().give()
    rig.claim(claim_id="claim-00000002").give()
    teller.once()
    assert mouth.words() == [
        (f"events:{status}.two", "a") for status in ("queued", "running", "queued", "running", "done")
    ]


def test_what_nobody_asked_for_is_not_even_looked_at(rig: Rig, teller: Teller) -> None:
    rig.open(key="a")
    rig.claim().give()
    assert teller.once() == Passed(0, 0)


def test_of_branches_the_exchange_hears_and_no_queue(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    with_events(rig)
    rig.broker.register(grove())
    root = rig.broker.submit("grove", lists={REGIONS: regions(1, 1)}, reply_to="replies", key="k")
    work(rig.broker, root, clock=rig.clock)
    while teller.once().found:
        pass
    ids = tree_in(rig.store, root.id)
    assert [event.subject for where, event in mouth.said if where == "replies"] == [root.id]
    ends = {event.subject: event.data for where, event in mouth.said if where == "events:done.grove"}
    assert ends.keys() == {*ids}
    assert {(data.parent, data.branch) for data in ends.values()} == {
        ("", ""),
        (root.id, "0"),
        (root.id, "1"),
        (ids[1], "d0"),
        (ids[3], "d0"),
    }


# -- at least once -----------------------------------------------------------------------------------------


def test_who_ends_between_publishing_and_noting_it_leaves_it_to_be_told_again(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    rig.open(key="a", reply_to="replies")
    rig.claim().give()
    rig.fail("before", only={"put"})
    with pytest.raises(Unavailable):
        teller.once()
    other = teller_of(rig, mouth)
    assert other.once() == Passed(0, 0), "it is reserved for the one who may still be telling"
    rig.clock.forward(RESERVE_MS)
    assert other.once() == Passed(1, 1)
    first, second = mouth.said
    assert first == second


def test_a_lost_reply_tells_nothing_twice(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    rig.open(key="a", reply_to="replies")
    rig.claim().give()
    rig.fail("after", only={"put"})
    with pytest.raises(Unavailable):
        teller.once()
    rig.clock.forward(RESERVE_MS)
    assert teller.once() == Passed(0, 0)
    assert len(mouth.said) == 1


def test_a_session_that_goes_on_meanwhile_is_told_to_its_end(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    with_events(rig)
    rig.open(key="a")
    inner = mouth.publish

    def publish(body: bytes, **how: Any) -> None:
        inner(body, **how)
        mouth.publish = inner  # type: ignore[method-assign]
        rig.claim().give()

    mouth.publish = publish  # type: ignore[method-assign]
    teller.once()
    teller.once()
    assert [event.data.status for _, event in mouth.said] == ["queued", "running", "done"]


def test_retention_leaves_a_session_alone_that_is_still_to_be_told_of(rig: Rig, teller: Teller) -> None:
    rig.open(key="a", reply_to="replies")
    rig.claim().give()
    rig.clock.forward(1_000)
    assert rig.store.find(FindEnded(older_ms=1)) == []
    teller.once()
    assert rig.store.find(FindEnded(older_ms=1)) != []


# -- faults ------------------------------------------------------------------------------------------------


def two_to_tell_of(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    """Two sessions that are in the hand of a teller whose transport is away."""
    for key in ("a", "b"):
        rig.open(key=key, reply_to="replies")
        rig.claim().give()
    mouth.faults["replies"] = Unavailable("transport", "connection refused")
    with pytest.raises(Unavailable):
        teller.once()
    mouth.faults.clear()


def test_what_is_in_hand_is_told_as_soon_as_the_transport_is_back(
    rig: Rig, mouth: Mouth, teller: Teller
) -> None:
    two_to_tell_of(rig, mouth, teller)
    assert teller.once(1) == Passed(2, 2)
    assert mouth.words() == [("replies", "a"), ("replies", "b")]


def test_what_was_in_hand_for_too_long_is_anybodys(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    two_to_tell_of(rig, mouth, teller)
    rig.clock.forward(RESERVE_MS)
    assert teller_of(rig, mouth).once() == Passed(2, 2)
    assert teller.once() == Passed(0, 0)
    assert mouth.words() == [("replies", "a"), ("replies", "b")]


def test_a_queue_that_takes_nothing_keeps_no_other_waiting(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    for key, queue in (("a", "odd"), ("b", "replies"), ("c", "odd")):
        rig.open(key=key, reply_to=queue)
        rig.claim().give()
    mouth.faults["odd"] = Refused("transport", "PRECONDITION_FAILED")
    with capture_logs() as logs:
        assert teller.once() == Passed(3, 1)
    assert mouth.words() == [("replies", "b")]
    assert [one["by"] for one in logs if one["event"] == "teller.refused"] == ["queue odd"], "it is said once"
    mouth.faults.clear()
    rig.clock.forward(RESERVE_MS)
    assert teller.once() == Passed(2, 0), "it is left alone for a while"
    rig.clock.forward(int(LEAVE_S * 1000))
    assert teller.once() == Passed(2, 2)


def test_rule_11_a_session_that_nobody_can_read_keeps_no_other_waiting(
    rig: Rig, mouth: Mouth, teller: Teller, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("a", "b"):
        rig.open(key=key, reply_to="replies")
        rig.claim().give()
    whole = rig.store.events
    broken = rig.broker.session("a").id

    def events(session_id: str, *args: Any, **more: Any) -> list[bytes]:
        found = whole(session_id, *args, **more)
        return found[1:] if session_id == broken else found

    monkeypatch.setattr(rig.store, "events", events)
    with capture_logs() as logs:
        assert teller.once() == Passed(2, 1)
    assert mouth.words() == [("replies", "b")]
    assert [one["session"] for one in logs if one["event"] == "teller.broken"] == [broken]


def test_a_pass_that_takes_long_leaves_the_rest_to_others(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    for key in ("a", "b", "c"):
        rig.open(key=key, reply_to="replies")
        rig.claim().give()
    inner = mouth.publish

    def slow(body: bytes, **how: Any) -> None:
        inner(body, **how)
        rig.clock.forward(RESERVE_MS // 2)

    mouth.publish = slow  # type: ignore[method-assign]
    assert teller.once() == Passed(3, 2)
    rig.clock.forward(RESERVE_MS)
    assert teller.once() == Passed(1, 1)


def test_a_pass_has_its_limit(rig: Rig, mouth: Mouth, teller: Teller) -> None:
    for n in range(3):
        rig.open(key=str(n), reply_to="replies")
        rig.claim().give()
    assert (BATCH > 3, teller.once(2)) == (True, Passed(2, 2))
    assert teller.once(2) == Passed(1, 1)


def test_it_runs_until_it_is_told_to_stop_and_goes_on_after_faults(rig: Rig, mouth: Mouth) -> None:
    rig.open(key="a", reply_to="replies")
    rig.claim().give()
    rig.fail("before", "before", only={"due"})
    stop = threading.Event()
    inner = mouth.publish

    def publish(body: bytes, **how: Any) -> None:
        inner(body, **how)
        stop.set()

    mouth.publish = publish  # type: ignore[method-assign]
    with capture_logs() as logs:
        teller_of(rig, mouth).run(stop)
    assert [one["event"] for one in logs] == ["teller.away", "teller.away", "teller.back"]
    assert mouth.closed


# -- submitting --------------------------------------------------------------------------------------------


def test_another_queue_under_the_same_key_is_another_content(rig: Rig) -> None:
    rig.open(key="a", reply_to="replies")
    with pytest.raises(Conflict, match="submitted with another content"):
        rig.open(key="a", reply_to="others")
    rig.open(key="a", reply_to="replies")


def test_another_exchange_is_not(rig: Rig) -> None:
    """It is the process's setting, not the producer's word: the first one stands."""
    rig.open(key="a")
    with_events(rig)
    assert rig.open(key="a").state().events_to == ""
    assert rig.open(key="b").state().events_to == "events"


def test_rule_11_a_queue_of_ours_is_refused_and_opens_nothing(rig: Rig) -> None:
    with pytest.raises(ContractError, match="belongs to Passdown"):
        rig.open(key="a", reply_to="passdown.desk")
    assert rig.broker.sessions() == []


def test_a_delegated_piece_of_work_replies_too(rig: Rig) -> None:
    assert rig.broker.delegate("desk", "look", reply_to="replies").state().reply_to == "replies"


# -- over transports without a server ----------------------------------------------------------------------


@pytest.fixture(params=["memory://", "filesystem://{folder}"])
def connection(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[tuple[Publisher, kombu.Connection]]:
    store = "sqlite:///:memory:" if request.param == "memory://" else f"sqlite:///{tmp_path}/a.db"
    transport = transport_of(store, request.param.format(folder=tmp_path / "bells"))
    publisher = Publisher(transport)
    with connection_to(transport) as connection:
        yield publisher, connection
    publisher.close()


def test_exchange_and_queue_work_without_a_server(
    rig: Rig, connection: tuple[Publisher, kombu.Connection]
) -> None:
    publisher, reading = connection
    channel = reading.channel()
    bound = kombu.Queue("ends", queues.topic("events"), routing_key="done.#").bind(channel)
    bound.declare()
    with_events(rig)
    for n in range(20):
        rig.open(plan("a.b"), key=str(n), reply_to="replies")
        rig.claim().give()
    teller_of(rig, publisher).once()
    for name in ("ends", "replies"):
        queue = kombu.Queue(name).bind(channel)
        keys: list[str] = []
        while (message := queue.get(no_ack=True)) is not None:
            assert message.content_type == CONTENT_TYPE
            keys.append(msgspec.json.decode(message.body or b"")["data"]["key"])
        assert keys == [str(n) for n in range(20)], name
