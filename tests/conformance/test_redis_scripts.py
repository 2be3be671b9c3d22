"""Each script at its limit and one beyond, and what it is sent that does not fit: refused before anything is written."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from passdown.broker.stores.base import Committed, Documents, DueRequest, Lease, Renewal
from passdown.broker.stores.queries import Catalog, FindCatalog, FindTickets
from passdown.broker.stores.redis import RedisStore, scripts
from passdown.broker.stores.redis.committing import MOST_BYTES, batches_of
from passdown.broker.stores.redis.packed import pack_ticket
from passdown.broker.stores.redis.scripts import SCRIPTS, Script
from passdown.contracts.errors import ContractError
from tests.conformance.building import (
    Clock,
    ask,
    claim,
    do,
    done,
    entry,
    events_of,
    names,
    opened,
    pack,
    request,
    row,
    step,
    take,
    ticket,
)
from tests.conformance.scripted import call
from tests.conformance.suite_reading import tool
from tests.servers.redis import RedisServer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(redis_server: RedisServer, clock: Clock) -> Iterator[RedisStore]:
    store = RedisStore(redis_server.url(), clock=clock)
    yield store
    store.close()


def test_every_script_says_in_its_first_line_what_it_is_and_then_what_it_does() -> None:
    for script in SCRIPTS.values():
        first, rest = script.source.split("\n", 1)
        assert first in ("#!lua", "#!lua flags=allow-oom", "#!lua flags=no-writes"), script.name
        assert "cjson" not in rest
        about = rest.partition("-- A head:")[2]
        assert "\n-- " in about, script.name


# -- commit --


def a_commit(**other: Any) -> tuple[list[Any], list[bytes]]:
    """Return what `commit.lua` takes for a step of a new session, with other values in some places."""
    about: dict[str, Any] = {
        "session": "s0-raw",
        "command": "c1",
        "expected": 0,
        "catalog": -1,
        "ended": 0,
        "task": "t1",
        "opened": 1000,
        "changed": 1000,
        "events": 1,
        "queue": ("analyst", 1, 1, 0, 0),
        "lease": ("c1", "analyst", 60_000),
        "dues": [("deadline", "", 7, 5000)],
        "tickets": [pack_ticket(ticket("s0-raw"))],
        "tell": 1,
        "taking": "",
        "room": 0,
        "joins": False,
    }
    texts: dict[str, bytes] = {
        "digest": b"d" * 16,
        "state": b"\0{}",
        "reply": b"\0{}",
        "row": b"\0",
        "filed": b"f" * 24,
        "pack": b"\0{}",
        "prev": b"",
        "tip": b"t" * 8,
        "event": b"\0{}",
    }
    for name, value in other.items():
        (about if name in about else texts)[name] = value
    return [list(about.values())], list(texts.values())


MARK = b"a" * 16 + b"\0"
BAD_JOINS: list[Any] = [
    ("s0-raw.j-1", [], -1),
    ("s0-other.j-1", [], -1, 0),
    (7, [], -1, 0),
    ("s0-raw.j-1", "", -1, 0),
    ("s0-raw.j-1", [], -2, 0),
    ("s0-raw.j-1", [], 0, -1),
    ("s0-raw.j-1", [], 0.5, 0),
    ("s0-raw.j-1", ["done"], -1, 0),
    ("s0-raw.j-1", [()], -1, 0),
    ("s0-raw.j-1", [(-1, "done")], -1, 0),
    ("s0-raw.j-1", [("1", "done")], -1, 0),
    ("s0-raw.j-1", [(1, 2)], -1, 0),
    ("s0-raw.j-1", [(1, *["done"] * 21)], -1, 0),
    ("s0-raw.j-1", [(1, "done")] * 21, -1, 0),
]
BAD_ROWS: list[Any] = [
    "s0-p.j-1",
    ("s0-p.j-1", 0),
    (7, 0, "done"),
    ("s0-p.j-1", -1, "done"),
    ("s0-p.j-1", "0", "done"),
    ("s0-p.j-1", 0, 7),
    ("s0-p.j-1", 0, "x" * 256),
]
BAD_TICKETS: list[Any] = [
    (1, "0" * 12, 1000, ""),
    (1, "0" * 11, 1000, "", "", "", ""),
    (1, 7, 1000, "", "", "", ""),
    (-1, "0" * 12, 1000, "", "", "", ""),
    (1, "0" * 12, "1000", "", "", "", ""),
    (1, "0" * 12, 1000, "", "0" * 11, "", ""),
    (1, "0" * 12, 1000, "", "", 7, ""),
    (1, "0" * 12, 1000, "", "", "leads", False),
    (1, "0" * 12, 1000, "", "", "leads", "p1\0"),
]
BAD: list[dict[str, Any]] = [
    {"session": ""},
    {"session": 7},
    {"command": 7},
    {"expected": -1},
    {"expected": 0.5},
    {"expected": "0"},
    {"expected": 2**60},
    {"catalog": "1"},
    {"ended": -1},
    {"opened": -1},
    {"changed": 1.5},
    {"events": 2},
    {"events": 0},
    {"events": 1001},
    {"queue": "enqueue"},
    {"queue": ("analyst", 1, 1, 0)},
    {"queue": ("analyst", 1, -1, 0, 0)},
    {"queue": (7, 1, 1, 0, 0)},
    {"queue": 7},
    {"lease": "stop"},
    {"lease": ("c1", "analyst")},
    {"lease": ("c1", "analyst", "60")},
    {"lease": ("c1", "analyst", -1)},
    {"dues": [("deadline", "", 7)]},
    {"dues": [("deadline", "", 7, -1)]},
    {"dues": [("deadline", "", "7", 1)]},
    {"dues": [("deadline", "", 7, 1)] * 1001},
    *({"tickets": [one]} for one in BAD_TICKETS),
    {"tickets": [(n, "0" * 12, 1000, "", "", "", "") for n in range(1001)]},
    {"tell": "yes"},
    {"taking": 7},
    {"room": -1},
    {"joins": True},
    {"joins": (False,)},
    {"joins": ("s0-raw.j-1", False)},
    *({"joins": (put, False)} for put in BAD_JOINS),
    *({"joins": (False, row), "mark": MARK} for row in BAD_ROWS),
    {"joins": (False, ("s0-p.j-1", 0, "done"))},
    {"joins": (False, ("s0-p.j-1", 0, "done")), "mark": MARK[:16]},
    {"joins": (("s0-raw.j-1", [], -1, 0), False), "mark": MARK},
    {"mark": MARK},
    {"digest": b"short"},
    {"filed": b"short"},
    {"tip": b"short"},
    {"prev": b"short"},
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: next(iter(bad)))
def test_rule_11_a_commit_of_another_form_is_refused_and_leaves_nothing(
    store: RedisStore, redis_server: RedisServer, bad: dict[str, Any]
) -> None:
    about, texts = a_commit(**bad)
    with pytest.raises(ContractError, match="a script refused"):
        call(store, scripts.COMMIT, about, *texts)
    assert [*redis_server.client().scan_iter()] == [b"pd:{0}:meta"]
    assert b"sessions" not in redis_server.client().hkeys("pd:{0}:meta")  # pyright: ignore[reportOperatorIssue]
    about, texts = a_commit()
    (answers,) = call(store, scripts.COMMIT, about, *texts)
    assert msgspec.msgpack.decode(answers)[0][0] == "c"


def test_a_commit_of_a_thousand_of_each_is_written(store: RedisStore, clock: Clock) -> None:
    tickets = [ticket("s0-a", n, queue=f"q{n % 7}") for n in range(1000)]
    dues = [entry("retry-at", str(n), after_ms=n) for n in range(1000)]
    done(store, step("s0-a", events=1000, dues=dues, tickets=tickets))
    assert store.events("s0-a", limit=2000) == events_of("s0-a", 1, 1000)
    assert len(store.find(FindTickets(limit=2000))) == 1000  # pyright: ignore[reportArgumentType]
    clock.forward(1000)
    assert len(store.due(ask(1000)).entries) == 1000
    done(store, step("s0-a", 1000, dues=[], tickets=[]))
    assert store.find(FindTickets()) == []
    clock.forward(60_000)
    assert store.due(ask(1000)).entries == []


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("events", step("s0-a", events=1001)),
        ("due entries", step("s0-a", dues=[entry("retry-at", str(n), after_ms=n) for n in range(1001)])),
        ("tickets", step("s0-a", tickets=[ticket("s0-a", n) for n in range(1001)])),
    ],
)
def test_a_commit_of_more_is_refused_before_it_is_sent(store: RedisStore, what: str, act: Any) -> None:
    with pytest.raises(ContractError, match=f"it has 1001 {what}, and may have 1000"):
        do(store, step("s0-b"), act)
    assert store.load("s0-a").version == store.load("s0-b").version == 0


def test_fifty_commits_go_at_once_and_more_in_several_calls(store: RedisStore) -> None:
    texts = a_commit()[1]
    abouts = [a_commit(session=f"s0-{n}")[0][0] for n in range(51)]
    with pytest.raises(ContractError, match="more than 50 steps"):
        call(store, scripts.COMMIT, abouts, *texts * 51)
    assert store.load("s0-0").version == 0
    outcomes = do(store, *(step(f"s0-{n % 60}", n // 60) for n in range(120)))
    assert [getattr(one, "version", None) for one in outcomes] == [1] * 60 + [2] * 60


def test_a_commit_of_many_bytes_goes_without_others(store: RedisStore) -> None:
    large = [replace(step(f"s0-{n}"), reply=b"x" * MOST_BYTES) for n in range(3)]
    assert [len(batch.places) for batch in batches_of(large, "", 1)] == [1, 1, 1]
    assert [type(one) for one in do(store, *large)] == [Committed] * 3


@pytest.mark.parametrize(
    ("good", "texts"), [(1, 1), (1, 3), (2, 1)], ids=["a bad one", "texts too many", "texts missing"]
)
def test_rule_11_with_one_of_another_form_all_are_refused(store: RedisStore, good: int, texts: int) -> None:
    abouts = [a_commit(session=f"s0-{n}")[0][0] for n in range(good)]
    if texts == good:
        abouts += a_commit(session="s0-bad", opened=-1)[0]
        texts += 1
    with pytest.raises(ContractError, match="a script refused"):
        call(store, scripts.COMMIT, abouts, *a_commit()[1] * texts)
    assert store.load("s0-0").version == 0


def test_a_number_beyond_what_lua_tells_apart_is_refused_one_below_comes_back(store: RedisStore) -> None:
    most = 2**53 - 1
    done(store, step("s0-a", dues=[entry(after_ms=0, at=most)]))
    assert [one.at for one in store.due(ask()).entries] == [most]
    with pytest.raises(ContractError, match="a script refused"):
        do(store, step("s0-b", dues=[entry(after_ms=0, at=most + 1)]))
    assert store.load("s0-b").version == 0


# -- the others --


def test_a_take_fills_a_thousand_slots_at_most(store: RedisStore) -> None:
    for start in range(0, 1200, 400):
        opened(store, *(f"s0-{n}" for n in range(start, start + 400)))
    taken = take(store, slots=5000)
    assert (len(taken.packs), taken.more) == (1000, True)
    assert len(take(store, slots=5000).packs) == 200
    with pytest.raises(ContractError, match="more than 1000 slots"):
        call(store, scripts.TAKE, ("analyst", 1001, 10_000, 0, 0, 0, 0))


def test_packs_of_a_task_without_room_hide_no_other_however_many_they_are(
    store: RedisStore, clock: Clock
) -> None:
    def of_task(name: str, task: str) -> Any:
        act = step(name, queue=pack())
        return replace(act, row=replace(act.row, task_id=task))

    done(store, of_task("s0-first", "busy"))
    take(store, task_limit=1)
    clock.forward(1)
    done(store, *(of_task(f"s0-{n}", "busy") for n in range(1500)))
    clock.forward(1)
    done(store, of_task("s0-other", "idle"))
    takes = 0
    while "s0-other" not in names(taken := take(store, task_limit=1)):
        assert taken.more, "nobody would come back for it"
        takes += 1
    assert takes <= 1
    clock.forward(1000)
    assert len(take(store, slots=5).packs) == 5


def test_a_task_limit_counts_what_ran_before_anybody_named_one(store: RedisStore, clock: Clock) -> None:
    def act(name: str, version: int = 0, **more: Any) -> Any:
        return step(name, version, row=row(name, version + 1, task_id="one"), **more)

    def claimed(name: str) -> None:
        assert names(take(store)) == [name]
        lease = Lease(claim_id="c1", role="analyst", lease_ms=60_000)
        done(store, act(name, 1, queue="withdraw", lease=lease))

    for name in ("s0-claimed", "s0-lost", "s0-reserved", "s0-d", "s0-e"):
        done(store, act(name, queue=pack()))
        clock.forward(1)
    claimed("s0-claimed")
    claimed("s0-lost")
    clock.forward(60_000)
    assert (
        len(store.due(ask(1)).entries) == 1
    )  # a claim that ran out is handed out, and stands until it is ended
    assert names(take(store)) == ["s0-reserved"]
    assert names(take(store, slots=5, task_limit=3)) == []
    assert names(take(store, slots=5, task_limit=4)) == ["s0-d"]
    done(store, act("s0-claimed", 2, lease="end"))
    assert names(take(store, slots=5, task_limit=4)) == ["s0-e"]
    assert names(take(store, slots=5, task_limit=4)) == []


def test_five_hundred_leases_are_kept_by_one_script_and_more_by_several(store: RedisStore) -> None:
    opened(store, "s0-a")
    claim(store, "s0-a")
    kept = Renewal(session_id="s0-a", claim_id="c1", lease_ms=5)
    lost = replace(kept, claim_id="c2")
    assert store.renew([lost] * 600 + [kept]) == ["lost"] * 600 + ["held"]
    assert len(call(store, scripts.RENEW, [("s0-a", "c1", 5)] * 500)) == 500
    with pytest.raises(ContractError, match="more than 500 renewals"):
        call(store, scripts.RENEW, [("s0-a", "c1", 5)] * 501)


def test_any_number_of_documents_is_registered(store: RedisStore) -> None:
    tools = [tool(f"t{n}") for n in range(501)]
    store.put(Documents(tools=tools[:500]))
    assert store.load("").catalog == 1
    store.put(Documents(tools=tools))
    found = store.find(FindCatalog())
    assert isinstance(found, Catalog)
    assert len(found.tools) == 501
    with pytest.raises(ContractError, match="more than 500 documents"):
        call(store, scripts.REGISTER, [("tool:x", "d")] * 501, *[b"\0"] * 501)


def test_a_tick_is_handed_a_thousand_entries_at_most(store: RedisStore) -> None:
    for start in range(0, 1200, 400):
        done(store, *(step(f"s0-{n}", dues=[entry(after_ms=0)]) for n in range(start, start + 400)))
    found = store.due(DueRequest(limit=5000, reserve_ms=1000, tell=5000))
    assert (len(found.entries), found.next_ms) == (1000, 0)
    assert len(store.due(ask(5000)).entries) == 200
    for about in ((1001, 0, -1, -1, 0, 0, 1), (1, 0, -1, -1, 0, 1001, 1)):
        with pytest.raises(ContractError, match="more than 1000 entries"):
            call(store, scripts.DUE, about)


@pytest.mark.parametrize(
    ("script", "about"),
    [
        (scripts.TAKE, ("analyst", "1", 10, 0, 0, 0, 0)),
        (scripts.TAKE, ("analyst", 1, 10)),
        (scripts.HAND_BACK, ("s0-a", 1, 1, -1, "")),
        (scripts.RENEW, [("s0-a", "c1")]),
        (scripts.DUE, (1, 2, 3)),
        (scripts.LOAD, ("s0-a",)),
        (scripts.BESIDE, (7,)),
        (scripts.COUNT, ("s0-a", 7)),
        (scripts.TOLD, ("s0-a", -1)),
        (scripts.REMOVE, ("s0-a", 1, "done", "3")),
        (scripts.JOIN_SEEN, ("s0-p.j-1", "1")),
        (scripts.JOIN_SEEN, ("s0-p.j-1",)),
        (scripts.PAGE, ("s0-a", "items", -1, 9)),
        (scripts.PAGE, ("", "items", 0, 9)),
        (scripts.PAGE, ("s0-a", "items", 0, -1)),
        (scripts.PAGE, ("s0-a", "items", 0, "9")),
        (scripts.PAGE, ("s0-a", "items", 0)),
        (scripts.DRAFT, ("s0-a", -1, "user:ann", 0)),
        (scripts.DRAFT, ("s0-a", 1, 7, 0)),
        (scripts.DRAFT, ("s0-a", 1, "user:ann", "0")),
        (scripts.DRAFT, ("s0-a", 1, "user:ann")),
        (scripts.RECORDS, [("token", "t1", -1, 1)]),
        (scripts.RECORDS, [("token", "t1", 0, 2)]),
        (scripts.RECORDS, [("token", 7, 0, 1)]),
        (scripts.RECORDS, [("token", "t1", 0)]),
        (scripts.RECORDS, [("token", "t1", 0, 0)]),
        (scripts.RECORDS, [("token", "t1", 0, 1), ("token", "t2", 0, 1)]),
        (scripts.FIND_RECORDS, ("token", "", -1)),
        (scripts.FIND_RECORDS, ("token", 7, 1)),
        (scripts.FIND_RECORDS, ("token", "")),
        (scripts.QUARANTINE, ("http", 7, 10)),
        (scripts.REGISTER, [("tool:x",)]),
        (scripts.ADOPT, ("1",)),
        (scripts.OPEN, (1,)),
        (scripts.RESTARTED, (1,)),
    ],
    ids=lambda value: value.name if isinstance(value, Script) else "",
)
def test_rule_11_what_does_not_fit_is_refused_by_every_script(
    store: RedisStore, redis_server: RedisServer, script: Script, about: object
) -> None:
    opened(store, "s0-a")
    before = {key: redis_server.client().dump(key) for key in redis_server.client().scan_iter()}
    with pytest.raises(ContractError, match="a script refused"):
        call(store, script, about, b"\0")
    assert {key: redis_server.client().dump(key) for key in redis_server.client().scan_iter()} == before


def test_a_commit_and_a_take_that_ask_for_too_much_do_not_disturb_each_other(store: RedisStore) -> None:
    outcomes, taken = store.commit([step("s0-a", queue=pack())], request(slots=10_000))
    assert isinstance(outcomes[0], Committed)
    assert taken is not None
    assert names(taken) == ["s0-a"]
