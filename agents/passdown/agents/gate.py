"""Lets a solo pack run alone in its process, so that a pack that kills its worker takes no neighbours down."""

import threading
from collections.abc import Callable


class Gate:
    """Packs enter and leave; a solo pack enters when nobody is inside, and nobody enters while it is."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._alone = False

    @property
    def inside(self) -> int:
        """How many packs are inside."""
        with self._changed:
            return self._inside

    def enter(self, *, solo: bool, seconds: float) -> bool:
        """Enter, waiting at most `seconds`; False where that was not long enough.

        While a solo pack waits nobody else enters, so that it gets in as soon as those inside are out.
        """
        with self._changed:
            if not solo:
                return self._admit(lambda: not self._alone, seconds)
            if self._alone:
                return False
            self._alone = True
            if self._admit(lambda: not self._inside, seconds):
                return True
            self._alone = False
            self._changed.notify_all()
            return False

    def leave(self, *, solo: bool) -> None:
        """Leave."""
        with self._changed:
            self._inside -= 1
            if solo:
                self._alone = False
            self._changed.notify_all()

    def wait_open(self, seconds: float) -> bool:
        """Wait at most `seconds` until no solo pack is inside; False where one still is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._alone, seconds)

    def wait_empty(self, seconds: float) -> bool:
        """Wait at most `seconds` until nobody is inside; False where somebody still is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._inside, seconds)

    def _admit(self, free: Callable[[], bool], seconds: float) -> bool:
        if not self._changed.wait_for(free, seconds):
            return False
        self._inside += 1
        return True
