"""Retention of a session with branches: it is archived with all of them, and removed after them (rule 6, DESIGN §8).

The branches go first, the deepest before all; whoever is interrupted anywhere leaves the session in the store, by
whose log the rest is found again, and in a finished file all that is gone. So what goes on with it writes nothing
anew unless something changed meanwhile.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import NamedTuple

from passdown.broker.archive import Archive, Entry, Writing, read_tree
from passdown.broker.branches import Branches, Fan
from passdown.broker.core.decide import dues
from passdown.broker.core.state import State
from passdown.broker.gathering import write_session
from passdown.broker.stores.base import Loaded, Remove, Store
from passdown.broker.stores.queries import SessionRow
from passdown.contracts.codec import decode
from passdown.contracts.errors import ContractError, PassdownError

#: So many sessions are removed at a time.
REMOVERS = 8
#: After so many removals it is looked again whether the tree may go at all.
_LOOK_EVERY = 200


class Done(NamedTuple):
    """What became of a tree: the file that was written (none where there was one), and its branches, that are gone.

    Where it stays, or some of it, ``stays`` says why; ``for_good``: no later try will change that.
    """

    file: str = ""
    branches: int = 0
    stays: str = ""
    for_good: bool = False


class _Seen(NamedTuple):
    """A branch as it is archived."""

    version: int
    status: str


class _Grown(NamedTuple):
    """A fan-out and its branches by place; None stands for one that is gone, by an earlier try."""

    fan: Fan
    seen: list[_Seen | None]

    def present(self) -> Iterator[tuple[str, _Seen]]:
        """Yield the branches that are there."""
        return (
            (branch, seen) for branch, seen in zip(self.fan.ids(), self.seen, strict=True) if seen is not None
        )


class _Stays(Exception):
    """The tree, or what is left of it, stays in the store."""

    def __init__(self, why: str, *, for_good: bool = False) -> None:
        super().__init__(why)
        self.for_good = for_good


class Trees:
    """Archives and removes trees. Beside one session it holds some 100 bytes for each branch.

    ``after_ms`` is how long ago all of a tree must have ended, ``keep_ms`` how long its ids stay known. ``hook`` is told
    of each point that it passes, for tests.
    """

    def __init__(
        self,
        store: Store,
        branches: Branches,
        archive: Archive | None,
        *,
        after_ms: int,
        keep_ms: int,
        hook: Callable[[str], None],
    ) -> None:
        self._store = store
        self._branches = branches
        self._archive = archive
        self._after_ms = after_ms
        self._keep_ms = keep_ms
        self._hook = hook

    def fell(self, row: SessionRow, fans: list[Fan], stopped: Callable[[], bool]) -> Done:
        """Archive and remove a session that ended, with these fan-outs; where `stopped` says so, leave the rest.

        Raises Unavailable where store or archive are away: then nothing is removed that is not archived.
        """
        file = ""
        try:
            grown = self._look(fans, stopped)
            if self._archive:
                file = self._archived(self._archive, row, grown, stopped)
            self._remove_all(row, grown, stopped)
        except _Stays as why:
            return Done(file=file, stays=str(why), for_good=why.for_good)
        return Done(file=file, branches=sum(fan.fan.places for fan in grown))

    # -- what there is of it --

    def _look(self, fans: list[Fan], stopped: Callable[[], bool]) -> list[_Grown]:
        """Return all of the tree but its root, parents before their branches; raises _Stays where some must stay."""
        grown: list[_Grown] = []
        ahead = deque(fans)
        while ahead:
            fan = ahead.popleft()
            seen: list[_Seen | None] = []
            for branch in fan.ids():
                _go_on(stopped)
                loaded = self._store.load(branch)
                # A session does not end before the branches that it opened: one that is not there is there no more.
                if loaded.state is None:
                    seen.append(None)
                    continue
                with _reading(branch):
                    seen.append(self._seen(branch, loaded))
                    ahead += self._branches.fans(branch, loaded)
            grown.append(_Grown(fan, seen))
        return grown

    def _seen(self, branch: str, loaded: Loaded) -> _Seen:
        state = decode(loaded.state or b"", State, what="state")
        if not state.over or state.tickets or dues(state):
            raise _Stays(f"something of its branch {branch} is open: it is {state.shown_status}")
        if loaded.now - state.at < self._after_ms:
            raise _Stays(f"its branch {branch} changed not long enough ago")
        return _Seen(loaded.version, state.status)

    # -- into the archive --

    def _archived(
        self, archive: Archive, row: SessionRow, grown: list[_Grown], stopped: Callable[[], bool]
    ) -> str:
        """Write the tree into a file, and return that; empty where an earlier try has written the same."""
        earlier = archive.tree_of(row, row.updated_at + self._after_ms)
        if earlier and _holds(Entry(row, earlier, []), grown):
            return ""
        with archive.writing([row], [one.fan for one in grown]) as writing:
            self._write(writing, row.session_id, row.version)
            for one in grown:
                for branch, seen in one.present():
                    _go_on(stopped)
                    self._write(writing, branch, seen.version)
            writing.complete()
            self._hook("before_rename")
            writing.finish()
            self._hook("after_rename")
        return str(writing.path)

    def _write(self, writing: Writing, session_id: str, version: int) -> None:
        with _reading(session_id):
            if not write_session(self._store, writing, session_id, version):
                raise _Stays(f"{session_id} changed meanwhile")
        self._hook("after_session")

    # -- out of the store --

    def _remove_all(self, row: SessionRow, grown: list[_Grown], stopped: Callable[[], bool]) -> None:
        pool = ThreadPoolExecutor(REMOVERS, thread_name_prefix="passdown-archivist")
        try:
            for one in reversed(grown):
                present = one.present()
                while some := list(islice(present, _LOOK_EVERY)):
                    _go_on(stopped)
                    self._require_unchanged(row)
                    self._remove_some(pool, some)
        finally:
            pool.shutdown(cancel_futures=True)
        self._remove(row.session_id, _Seen(row.version, row.status))
        self._hook("after_remove")

    def _require_unchanged(self, row: SessionRow) -> None:
        """A session that is retried needs its branches."""
        loaded = self._store.load(row.session_id)
        if loaded.state is not None and loaded.version != row.version:
            raise _Stays("it changed meanwhile")

    def _remove_some(self, pool: ThreadPoolExecutor, some: list[tuple[str, _Seen]]) -> None:
        stay: list[str] = []
        for (branch, _), gone in zip(some, pool.map(self._gone, some), strict=True):
            self._hook("after_remove")
            if not gone:
                stay.append(branch)
        if stay:
            raise _Stays(f"its branch {stay[0]} changed, or something of it is open or still to be told")

    def _gone(self, one: tuple[str, _Seen]) -> bool:
        branch, seen = one
        self._remove(branch, seen)
        return self._store.load(branch).state is None

    def _remove(self, session_id: str, seen: _Seen) -> None:
        self._store.put(
            Remove(session_id=session_id, version=seen.version, status=seen.status, keep_ms=self._keep_ms)
        )


def _go_on(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise _Stays("this process stops")


@contextmanager
def _reading(session_id: str) -> Generator[None]:
    """Say of which session it is that cannot be read; people look at it, and until then its tree stays."""
    try:
        yield
    except ContractError as error:
        raise _Stays(f"{session_id} cannot be read: {error}", for_good=True) from error


def _holds(entry: Entry, grown: list[_Grown]) -> bool:
    """Whether a file holds what there still is of a tree, as it is now."""
    try:
        versions = {one.session_id: one.version for one in read_tree(entry)}
    except PassdownError:
        return False
    wanted = {branch: seen.version for one in grown for branch, seen in one.present()}
    wanted[entry.row.session_id] = entry.row.version
    return wanted.items() <= versions.items()
