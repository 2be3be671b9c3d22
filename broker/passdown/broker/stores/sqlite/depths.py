"""How many packs wait for a role. Counting a long queue takes long, so it is counted now and then."""

import sqlite3

from passdown.broker.stores.sqlite import statements as sql

#: For how long a count is good, with what this process adds to it; before a refusal (milliseconds).
_GOOD_MS, _GOOD_TO_REFUSE_MS = 1_000, 100


class Depths:
    """The counts of one process; what others take and add is seen with the next count."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[int, int]] = {}

    def room(self, db: sqlite3.Connection, role: str, now: int, most: int) -> int | None:
        """Return None where fewer than `most` packs wait, and count one more; else how many do."""
        at, count = self._counted.get(role, (0, 0))
        good_ms = _GOOD_MS if count < most else _GOOD_TO_REFUSE_MS
        if not at <= now < at + good_ms:
            at, count = now, db.execute(sql.WAITING, (role,)).fetchone()[0]
        full = count >= most
        self._counted[role] = (at, count if full else count + 1)
        return count if full else None
