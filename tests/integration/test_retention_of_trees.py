"""Retention of sessions with branches, three levels deep, with real processes on both stores: killed anywhere, two at once."""

import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from passdown.broker.archive import Archive, Entry, read_tree
from passdown.broker.cli.views.transitions import prove
from passdown.broker.client import Session
from tests.integration.site import Site
from tests.servers.redis import RedisServer
from tests.unit.broker.groves import REGIONS, grove, in_archive, regions, tree_in, work

#: So many documents in each of so many regions.
SIZES = (3, 0, 5)
WHOLE = 1 + len(SIZES) + sum(SIZES)
#: Tables of sessions and of what belongs to them.
GROWING = ("sessions", "log", "joins", "join_rows", "pages", "tickets", "leases", "telling")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "archive"
    made.mkdir()
    return made


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """A site on each of the stores; what is left on the Redis that no session owns fails the test."""
    store = transport = ""
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        store, transport = server.url(0), server.url(1)
    made = Site(tmp_path, store, transport)
    yield made
    made.close()


def grown(site: Site, count: int = 1, *sizes: int) -> dict[str, list[str]]:
    """Let sessions with branches run to their end; returns all ids of each tree by the id of its session."""
    site.broker.register(grove())
    sessions = [
        site.broker.submit("grove", lists={REGIONS: regions(*(sizes or SIZES), bad=1)}, key=f"key-{n}")
        for n in range(count)
    ]
    for session in sessions:
        work(site.broker, session)
    return {session.id: tree_in(site.broker.app.store, session.id) for session in sessions}


def archive(site: Site, folder: Path, *doom: str) -> subprocess.Popen[bytes]:
    """Start a process that archives all that ended."""
    return site.start("tests.integration.archiving", site.store, str(folder), "10", *doom)


def there(site: Site, ids: list[str]) -> set[str]:
    return {one for one in ids if site.broker.app.store.load(one).state is not None}


def entries(folder: Path) -> list[Entry]:
    return [one for one in Archive(folder).entries() if isinstance(one, Entry)]


@pytest.mark.parametrize(
    ("point", "count"),
    [
        ("after_session", 1),
        ("after_session", 7),
        ("before_rename", 1),
        ("after_rename", 1),
        ("after_remove", 1),
        ("after_remove", sum(SIZES)),
        ("after_remove", WHOLE - 1),
    ],
)
def test_rule_06_killed_at_any_point_no_branch_is_lost_or_doubled(
    place: Site, folder: Path, point: str, count: int
) -> None:
    ((root, ids),) = grown(place).items()
    assert len(ids) == WHOLE
    doomed = archive(place, folder, point, str(count))
    assert doomed.wait(timeout=60) == -signal.SIGKILL
    left = there(place, ids)
    assert root in left, "what is left is found by its session"
    assert in_archive(folder, root).keys() | left == {*ids}

    assert archive(place, folder).wait(timeout=60) == 0
    assert there(place, ids) == set()
    assert in_archive(folder, root) == Counter(ids)
    (entry,) = entries(folder)
    assert all(prove(one, one.session_id).holds for one in read_tree(entry))


def test_two_at_once_archive_many_trees_and_nothing_is_left_beside_their_keys(
    place: Site, folder: Path
) -> None:
    trees = grown(place, 8, 2, 1)
    processes = [archive(place, folder) for _ in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    # Where they were in each other's way a tree stays until it is looked at again.
    assert archive(place, folder).wait(timeout=60) == 0
    for root, ids in trees.items():
        assert there(place, ids) == set()
        assert in_archive(folder, root).keys() == {*ids}
    again = place.broker.submit("grove", lists={REGIONS: regions(2, 1, bad=1)}, key="key-7")
    assert again.id in trees
    if place.store.startswith("sqlite"):
        assert growing(place) == dict.fromkeys(GROWING, 0)


def test_the_rest_of_a_tree_whose_session_was_asked_for_meanwhile_is_there(place: Site, folder: Path) -> None:
    """What is shown of a session half of whose branches are gone is what there is; its branches say what became of them."""
    ((root, ids),) = grown(place).items()
    doomed = archive(place, folder, "after_remove", "4")
    assert doomed.wait(timeout=60) == -signal.SIGKILL
    assert Session(place.broker, root).status() == "done"
    gone = {*ids} - there(place, ids)
    assert len(gone) >= 4
    for branch in gone:
        assert place.broker.app.store.load(branch).removed in ("done", "failed")
    assert {*tree_in(place.broker.app.store, root)} == there(place, ids)


def growing(site: Site) -> dict[str, int]:
    with closing(sqlite3.connect(site.folder / "passdown.db")) as db:
        return {name: db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in GROWING}
