"""Sessions as a worker process last saw them, so that an attempt's next command need not load its session."""

import threading
from collections import OrderedDict

from passdown.broker.acts import Held


class Seen:
    """A session as this process last saw it. One command of an attempt is carried out at a time."""

    __slots__ = ("held", "turn")

    def __init__(self, held: Held) -> None:
        self.held: Held | None = held
        self.turn = threading.Lock()


Key = tuple[str, int, int]


class Attempts:
    """What was last seen, by session, step and attempt: bounded, the longest unused goes first. Thread-safe."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._seen: OrderedDict[Key, Seen] = OrderedDict()

    def __len__(self) -> int:
        return len(self._seen)

    def get(self, key: Key) -> Seen | None:
        with self._lock:
            seen = self._seen.get(key)
            if seen is not None:
                self._seen.move_to_end(key)
            return seen

    def keep(self, key: Key, held: Held) -> None:
        with self._lock:
            self._seen[key] = Seen(held)
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)

    def forget(self, key: Key) -> None:
        with self._lock:
            self._seen.pop(key, None)
