"""How a drain that found its queue empty looks again for a moment, so that the next pack needs no doorbell."""

import time

from passdown.agents.options import Options

#: Each pause before a look is so much longer than the last, up to the longest (seconds).
_GROWTH, _LONGEST_S = 1.2, 0.005
#: What is told about the next look is good for so much longer than it should take (milliseconds).
_SLACK_MS = 50


class Linger:
    """The looks of one drain after its last pack: soon at first, then less often, until the time is over."""

    def __init__(self, options: Options) -> None:
        self._window_s = options.linger_seconds
        self._first_s = min(options.linger_look_seconds or self._window_s, self._window_s)
        self.begin()

    def begin(self) -> None:
        """Begin anew: there was a pack."""
        self._pause_s = self._first_s
        self._ends: float | None = None
        #: Whether the last look was made.
        self.over = self._window_s <= 0

    @property
    def told_ms(self) -> int:
        """How long nobody need be rung for the role where the next look finds nothing (0: they must)."""
        if self.over or self._first_s >= self._window_s:
            return 0
        left = self._window_s if self._ends is None else self._ends - time.monotonic()
        return max(1, int(left * 1000) + _SLACK_MS)

    def pause(self) -> float:
        """Return how long to wait before the next look (seconds)."""
        now = time.monotonic()
        if self._ends is None:
            self._ends = now + self._window_s
        pause = min(self._pause_s, max(0.0, self._ends - now))
        self._pause_s = min(self._pause_s * _GROWTH, max(_LONGEST_S, self._first_s))
        self.over = now + pause >= self._ends
        return pause
