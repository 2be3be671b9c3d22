"""Where a demo keeps its things: the store, and in a folder what belongs to the demo and to the outside."""

import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from passdown.broker.app import SQLITE, shown_address, transport_of
from passdown.broker.transports import memory
from passdown.contracts.errors import ContractError, Unavailable

#: Tells a worker's modules which folder is meant.
FOLDER_VARIABLE = "PASSDOWN_DEMO_FOLDER"
_FILE = "passdown.db"
_JOURNAL = "outside.db"


@dataclass(frozen=True, slots=True)
class Where:
    """Where a demo is to work, as far as that was said: a store, what carries doorbells, a folder for its own files."""

    store: str | None = None
    transport: str = ""
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A store, what carries its doorbells (empty: what is beside the store), and a folder."""

    store: str
    folder: Path
    transport: str = ""

    @property
    def journal(self) -> Path:
        """The outside system's own file."""
        return self.folder / _JOURNAL

    @property
    def runs(self) -> Path:
        """One file per recorded run."""
        return self.folder / "runs"

    @property
    def tools(self) -> Path:
        """The names of the recorded tools."""
        return self.folder / "tools.json"

    @property
    def logs(self) -> Path:
        """What the processes said."""
        return self.folder / "logs"


def place(where: Where, name: str) -> Place:
    """Return the place for a demo: a new folder that stays, a given folder, or beside the store at an address.

    A store on a server has no beside: the demo's own files go to the folder that is named, or to a new one that
    stays. Raises ContractError for an address of another kind of store and for what several processes cannot
    share, Unavailable where nothing can be made there.
    """
    _require_shared(where)
    try:
        made = _place(where, name)
        for folder in (made.runs, made.logs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        tried = where.folder or where.store or tempfile.gettempdir()
        raise Unavailable(f"the folder {tried}", str(error.strerror)) from error
    return made


def _require_shared(where: Where) -> None:
    """Raise ContractError for what one process alone reaches, and for an address of a transport that is none."""
    store = where.store or ""
    # Without a transport a server carries its own doorbells; what is beside a file is a folder.
    transport = transport_of(store if _on_server(store) else f"{SQLITE}{_FILE}", where.transport)
    alone = "store" if store == f"{SQLITE}:memory:" else "transport"
    if alone == "store" or transport.url.startswith(memory.SCHEME):
        raise ContractError(alone, "the demo has several processes, which one in memory cannot serve")


def _on_server(store: str) -> bool:
    return store.startswith(("redis://", "rediss://", "unix://"))


def _place(where: Where, name: str) -> Place:
    if where.store and _on_server(where.store):
        return Place(where.store, (where.folder or _new(name)).absolute(), where.transport)
    path = _file(where.store, name).absolute()
    folder = where.folder or path.with_name(f"{path.name}.demo")
    return Place(f"{SQLITE}{path}", folder.absolute(), where.transport)


def _file(store: str | None, name: str) -> Path:
    if not store:
        return _new(name) / _FILE
    if store.startswith(SQLITE):
        return Path(store.removeprefix(SQLITE))
    if "://" in store:
        problem = f"expected a folder, sqlite:///path or redis://host:port/db, got {shown_address(store)!r}"
        raise ContractError("store", problem)
    return Path(store) / _FILE


def _new(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"passdown-{name}-"))


def require_files_of(at: Place, known: Collection[str]) -> None:
    """Raise ContractError where sessions of a demo are `known` to the store, by their keys, and its files are not here.

    What they wrote outside stands in those files: without them nothing could be proved, and a write could happen
    a second time.
    """
    if known and not at.journal.exists():
        problem = (
            f"it holds {min(known)!r} of a demo whose files are not in {at.folder}; name theirs with --folder"
        )
        raise ContractError(f"store {shown_address(at.store)}", problem)


def place_beside(store: str, folder: Path | None = None) -> Place | None:
    """Return the place of a demo that ran in this store, with its files in `folder` or beside it; None where none did.

    Raises ContractError where a folder is named, and no demo's files are there.
    """
    if folder and not (folder / _JOURNAL).exists():
        raise ContractError("folder", f"there is no {_JOURNAL} of a demo in {folder}")
    if folder is None and not store.startswith(SQLITE):
        return None
    found = _place(Where(store, folder=folder), "")
    return found if found.journal.exists() else None


def folder_of_worker() -> Place | None:
    """Return the place that the environment names; None outside a demo's worker."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Place("", Path(folder)) if folder else None
