"""Fixtures of the tests with real processes."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.flow import Flow, clock
from tests.integration.site import Site
from tests.servers.fixtures import StartRedis


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A store in a folder of its own; every process that the test started ends with it."""
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def start_flow(tmp_path: Path, start_redis: StartRedis) -> Iterator[Callable[..., Flow]]:
    """``start_flow(store, transport)`` starts two workers and a tick there, and has sessions flow all the while."""
    # Asked for only so that the servers end after the processes that use them.
    with ExitStack() as ending:

        def start(
            store: str = "", transport: str = "", *, clocks: tuple[str, str] | None = None, **more: float
        ) -> Flow:
            made = Site(tmp_path, store, transport)
            ending.callback(made.close)
            flow = ending.enter_context(Flow(made, **more))
            flow.tick()
            for ahead in clocks or ("", ""):
                flow.worker(prefix=clock(ahead) if ahead else ())
            flow.warm()
            return flow

        yield start
