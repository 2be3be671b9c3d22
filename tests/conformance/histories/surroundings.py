"""What surrounds the broker in a history: two clocks, doorbells that get lost, a store that fails."""

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Literal
from unittest.mock import patch

import stamina
import stamina.instrumentation
import structlog

from passdown.broker import acts, controller, tick
from passdown.broker.stores import base
from passdown.broker.stores.sqlite import store as sqlite_store
from tests.conformance.faulty import Fault, FaultyStore

#: When every history starts, in store milliseconds.
START = 1_700_000_000_000
#: How often a patient controller tries again while the store is away.
RETRIES = 2


class Clock:
    """The store's clock (``wall``, it may jump) and what truly elapsed (``mono``), both in milliseconds."""

    def __init__(self) -> None:
        self.wall = START
        self.mono = 0

    def __call__(self) -> int:
        return self.wall

    def elapse(self, ms: int) -> None:
        """Let time go by."""
        self.wall += ms
        self.mono += ms

    def jump(self, ms: int) -> None:
        """Set the store's clock ahead, or back (below zero)."""
        self.wall += ms


class Timepiece:
    """Stands in for the module `time` where the broker measures what elapsed in its own process."""

    def __init__(self) -> None:
        self.clock = Clock()

    def monotonic(self) -> float:
        return self.clock.mono / 1000


class TickLog:
    """Stands in for the tick's log: it swallows what goes wrong with an entry, so here it is kept."""

    def __init__(self) -> None:
        self.broken: list[str] = []

    def warning(self, event: str, **facts: Any) -> None:
        pass

    def exception(self, event: str, **facts: Any) -> None:
        import traceback

        self.broken.append(f"{event} {facts}: {traceback.format_exc()}")


timepiece = Timepiece()
tick_log = TickLog()


@contextmanager
def in_slow_motion() -> Generator[None]:
    """Make the broker's processes tell the time by the history's clock, never wait for it, and log nothing."""
    logging = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("critical"))
    stamina.instrumentation.set_on_retry_hooks([])
    with (
        patch.object(acts, "time", timepiece),
        patch.object(controller, "time", timepiece),
        patch.object(sqlite_store, "time", timepiece),
        patch.object(tick, "_log", tick_log),
        stamina.set_testing(True, attempts=RETRIES),
    ):
        try:
            yield
        finally:
            structlog.configure(**logging)
            stamina.instrumentation.set_on_retry_hooks(None)


class Bells:
    """A doorbell whose rings wait until the history delivers, loses or doubles them."""

    def __init__(self) -> None:
        self.pending: list[str] = []
        #: The role of each ring, take and new pack, in order: what must ring is told from this.
        self.order: list[tuple[Literal["ring", "take", "pack"], str, str]] = []

    def ring(self, role: str) -> None:
        self.pending.append(role)
        self.order.append(("ring", role, ""))


class Observed(FaultyStore):
    """A store that works, and notes in what order packs come and go."""

    def __init__(self, inner: base.Store, bells: Bells) -> None:
        super().__init__(inner, lambda _: None)
        self._order = bells.order

    def commit(
        self, commits: list[base.Commit], take: base.TakeRequest | None = None
    ) -> tuple[list[base.Outcome], base.Taken | None]:
        outcomes, taken = super().commit(commits, take)
        for commit, outcome in zip(commits, outcomes, strict=True):
            if isinstance(outcome, base.Committed) and isinstance(commit.queue, base.Enqueue):
                self._order.append(("pack", commit.queue.role, commit.session_id))
        if take is not None:
            self._order.append(("take", take.role, ""))
        return outcomes, taken

    def take(self, request: base.TakeRequest) -> base.Taken:
        self._order.append(("take", request.role, ""))
        return super().take(request)


class Faults:
    """Gives the faults that the history has drawn to the next calls of the store, in turn; then it works."""

    def __init__(self) -> None:
        self.pending: deque[Fault | None] = deque()

    def __call__(self, method: str) -> Fault | None:
        return self.pending.popleft() if self.pending else None
