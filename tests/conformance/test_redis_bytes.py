"""What a handoff costs on Redis: round trips while it runs, bytes once it ended, nothing after its removal."""

import random
import string
from collections.abc import Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from passdown.agents import Done, SyncContext, agent
from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, Transport
from passdown.broker.client import Broker, Submission
from passdown.broker.controller import Controller
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.gateway import DirectGateway
from passdown.broker.stores.base import Remove
from passdown.broker.stores.queries import FindPack, FindSessions, SessionRow
from passdown.broker.stores.redis import RedisStore
from passdown.broker.stores.redis.packed import squeeze, squeeze_with, unsqueeze
from passdown.broker.stores.redis.wire import Wire
from passdown.contracts.pack import Pack
from passdown.contracts.plans import Plan, Stage
from tests.conformance.building import ask, pack, request, row, step
from tests.servers.redis import RedisServer

PACK, RETURN = 2048, 1024
#: Of DESIGN's pack and return so much is what the plan, the task and the claim add to the text.
AROUND_INPUT, AROUND_OUTPUT = 660, 340


#: As many words as people use in such texts.
WORDS = ["".join(random.Random(n).choices(string.ascii_lowercase, k=2 + n % 9)) for n in range(2000)]


def prose(chance: random.Random, size: int) -> str:
    """Return words in no order: what people write can be made smaller than that."""
    return " ".join(chance.choices(WORDS, k=size))[:size]


@agent("worker")
def worker(pack: Pack, ctx: SyncContext) -> Done:
    return Done({"text": prose(random.Random(pack.session_id), RETURN - AROUND_OUTPUT)})


class Site:
    """A broker and a worker on one store, and how often they talked to the server."""

    def __init__(self, store: RedisStore) -> None:
        self.store = store
        self.trips = 0
        bell = SilentDoorbell()
        controller = Controller(store, bell)
        self.broker = Broker(App(store, Transport("", {}), bell, controller), "user:ann")
        options = Options(linger_seconds=0.0, turn_seconds=3600.0)
        self.runtime = Runtime(DirectGateway(controller), agents=[worker], options=options)
        self.broker.register(Plan(name="work", version=1, start="go", stages={"go": Stage(role="worker")}))
        self.runtime.start()

    def submit(self, count: int) -> None:
        chance = random.Random(count)
        work = [Submission({"text": prose(chance, PACK - AROUND_INPUT)}) for _ in range(count)]
        self.broker.submit_all("work", work)

    def drain(self) -> int:
        """Run all that waits; return how many round trips that took."""
        before = self.trips
        self.runtime.drain("worker")
        return self.trips - before


@pytest.fixture
def site(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    store = RedisStore(redis_server.url())
    site = Site(store)
    talk = Wire._talk  # pyright: ignore[reportPrivateUsage]

    def counted(wire: Wire, commands: Any) -> Any:
        site.trips += 1
        return talk(wire, commands)

    monkeypatch.setattr(Wire, "_talk", counted)
    yield site
    site.runtime.stop()
    store.close()


def used(server: RedisServer) -> int:
    """Return what the server's data takes, without what connections and the append-only file have in flight."""
    memory: dict[str, Any] = server.client().info("memory")
    return memory["used_memory"] - memory["mem_clients_normal"] - memory["mem_aof_buffer"]


def rows(site: Site) -> list[SessionRow]:
    found = site.store.find(FindSessions(limit=2000))
    assert isinstance(found, list)
    return cast("list[SessionRow]", found)


def test_a_handoff_one_by_one_is_three_round_trips(site: Site) -> None:
    site.submit(1)
    site.drain()
    trips: list[int] = []
    for _ in range(5):
        site.submit(1)
        trips.append(site.drain())
    # Take; claim; return with the next take, which finds nothing.
    assert max(trips) <= 3


def test_fifty_commits_and_a_take_are_one_round_trip(site: Site) -> None:
    steps = [step(f"s0-{n}", queue=pack()) for n in range(50)]
    site.store.commit(steps[:1], request())
    before = site.trips
    outcomes, taken = site.store.commit(steps[1:], request(slots=50))
    assert taken is not None
    assert (site.trips - before, len(outcomes), len(taken.packs)) == (1, 49, 49)


def test_rule_12_a_finished_handoff_takes_little_and_nothing_once_it_is_removed(
    site: Site, redis_server: RedisServer
) -> None:
    count = 300
    site.submit(1)
    site.drain()
    before = used(redis_server)
    site.submit(count)
    site.drain()
    each = (used(redis_server) - before) / count
    found = rows(site)
    assert {row.status for row in found} == {"done"}
    given = site.store.find(FindPack(session_id=found[0].session_id, step=1, attempt=1))
    assert isinstance(given, bytes)
    assert PACK * 0.95 < len(given) < PACK * 1.05
    assert each <= 2.5 * (PACK + RETURN), f"{each:.0f} bytes"

    for one in found:
        site.store.put(Remove(session_id=one.session_id, version=one.version, status="done", keep_ms=0))
    while site.store.due(ask()).next_ms == 0:
        continue
    names = {key.partition(b"}:")[2] for key in redis_server.client().scan_iter()}
    assert names == {b"meta", b"catalog", b"documents"}
    # Tables of the server shrink by and by, and buffers of connections stay.
    assert used(redis_server) - before < 0.2 * count * each


# -- texts that are made smaller --


@given(st.binary(max_size=6000), st.binary(max_size=6000))
def test_what_is_made_smaller_comes_back(text: bytes, first: bytes) -> None:
    assert unsqueeze(squeeze(text)) == text
    kept = squeeze(first)
    assert unsqueeze(squeeze(text, first), kept) == text
    assert unsqueeze(squeeze(first + text, first), kept) == first + text


@given(st.binary(max_size=6000), st.binary(max_size=6000), st.integers(1, 2**48 - 1))
def test_what_is_made_smaller_by_an_event_comes_back(text: bytes, event: bytes, seq: int) -> None:
    assert unsqueeze(squeeze_with(text, event, seq), squeeze(event)) == text
    assert unsqueeze(squeeze_with(event + text, event, seq), squeeze(event)) == event + text


def test_the_last_state_is_small_for_its_return_is_in_the_log(site: Site, redis_server: RedisServer) -> None:
    site.submit(1)
    site.drain()
    (ended,) = rows(site)
    name = ended.session_id
    kept: Any = redis_server.client().hget(f"pd:{{0}}:session:{name}", "s")
    state = site.store.load(name).state
    assert state is not None
    assert b'"output' in state
    assert len(kept) < len(squeeze(state)) - 200


def test_a_session_that_ended_with_a_pack_in_the_queue_can_be_taken(site: Site) -> None:
    """No controller leaves it there."""
    site.store.commit([step("s0-a", queue=pack())])
    ended = replace(step("s0-a", 1, row=row("s0-a", 2, status="failed")), state=b"x" * 500)
    site.store.commit([ended])
    (taken,) = site.store.take(request()).packs
    assert (taken.state, taken.pack) == (ended.state, pack().pack)


@pytest.mark.parametrize("size", [0, 159, 160, 4095, 4096, 40_000, 300_000])
def test_a_text_of_any_size_comes_back_and_a_repetitive_one_is_small(size: int) -> None:
    text = (b'{"spec":"passdown.state/1"}' * (size // 20 + 1))[:size]
    assert unsqueeze(squeeze(text)) == text
    assert len(squeeze(text)) <= 1 + min(size, 160 + size // 20)
