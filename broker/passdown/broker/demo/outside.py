"""What the demo's outside saw, for `passdown export`: lines of the kind ``outside`` beside those of the sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from passdown.broker.demo.journal import Journal
from passdown.broker.demo.place import place_beside


def outside_lines(store: str, folder: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield a line for each key under which a write was applied, from the journal of a demo in this store.

    `folder` is where that has its files; by default it is looked for beside the store.
    ``{"kind": "outside", "sessionId", "key", "tool", "calls"}``; ``calls`` counts the writes applied under
    the key, ``arrivals`` how often the key came. Nothing where no demo ran in the store.
    """
    place = place_beside(store, folder)
    if place is None:
        return
    journal = Journal(place.journal)
    try:
        written = journal.written()
    finally:
        journal.close()
    for one in written:
        yield {
            "kind": "outside",
            "sessionId": one.session_id,
            "key": one.key,
            "tool": one.tool,
            "calls": one.calls,
            "arrivals": one.arrivals,
        }
