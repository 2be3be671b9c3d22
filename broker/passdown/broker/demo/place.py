"""Where a demo keeps its things: the store, and beside it what belongs to the demo and to the outside."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from passdown.broker.app import SQLITE
from passdown.contracts.errors import ContractError, Unavailable

#: Tells a worker's modules which folder is meant.
FOLDER_VARIABLE = "PASSDOWN_DEMO_FOLDER"
_FILE = "passdown.db"


@dataclass(frozen=True, slots=True)
class Place:
    """A store and a folder."""

    store: str
    folder: Path

    @property
    def journal(self) -> Path:
        """The outside system's own file."""
        return self.folder / "outside.db"

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


def place(store: str | None, name: str) -> Place:
    """Return the place for a demo: a new folder that stays, a given folder, or beside the store at an address.

    Raises ContractError for an address of another kind of store, Unavailable where nothing can be made there.
    """
    if store == f"{SQLITE}:memory:":
        raise ContractError("store", "the demo has several processes, which one in memory cannot serve")
    try:
        made = _place(store, name)
        for folder in (made.runs, made.logs):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unavailable(f"the folder {store or tempfile.gettempdir()}", str(error.strerror)) from error
    return made


def _place(store: str | None, name: str) -> Place:
    if not store:
        path = Path(tempfile.mkdtemp(prefix=f"passdown-{name}-")) / _FILE
    elif store.startswith(SQLITE):
        path = Path(store.removeprefix(SQLITE))
    elif "://" in store:
        raise ContractError("store", f"expected a folder or sqlite:///path, got {store!r}")
    else:
        path = Path(store) / _FILE
    path = path.absolute()
    return Place(f"{SQLITE}{path}", path.with_name(f"{path.name}.demo"))


def place_beside(store: str) -> Place | None:
    """Return the place of a demo that ran in this store; None where none did."""
    if not store.startswith(SQLITE):
        return None
    found = _place(store, "")
    return found if found.journal.exists() else None


def folder_of_worker() -> Place | None:
    """Return the place that the environment names; None outside a demo's worker."""
    folder = os.environ.get(FOLDER_VARIABLE)
    return Place("", Path(folder)) if folder else None
