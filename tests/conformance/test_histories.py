"""Generated histories: whatever happens, in whatever order, the rules of DESIGN §3 hold (habit 41).

A history that breaks a rule is shrunk and printed as the steps that lead to it, with a line to run it again.
"""

import os
import time
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from passdown.broker.core.state import TRANSITIONS
from passdown.contracts import events as ev
from tests.conformance.histories.machine import Histories
from tests.conformance.histories.stores import Redis
from tests.conformance.histories.surroundings import in_slow_motion
from tests.servers.redis import RedisServer

#: How many histories `make test` runs over SQLite and over Redis, and how many things happen in one before all heals.
HISTORIES = 900
#: What no plan of this world leads to; `tests/conformance/test_trees.py` has a world of fan-outs.
OF_FAN_OUTS = {
    one.__name__
    for one in (
        ev.FannedOut,
        ev.BranchesOpened,
        ev.JoinConflict,
        ev.JoinShort,
        ev.Joined,
        ev.BranchesTold,
        ev.JoinDrained,
        ev.Reopened,
    )
}
#: What no plan of this world asks of people: `tests/unit/core/test_random_desks.py` plays that, without stores.
OF_PATHS = {one.__name__ for one in (ev.TicketApproved, ev.TicketEscalated, ev.TicketExpired)}
HISTORIES_ON_REDIS = 85
STEPS = 25
LONG = 80
#: The share of SOAK_MINUTES that goes to each store.
SOAK_SHARE = 0.15

_settings = settings(
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    # A history is many small draws and much work between them: neither is a sign of a bad strategy here.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(autouse=True)
def slow_motion() -> Generator[None]:
    with in_slow_motion():
        yield


def machine(store: str) -> type[Histories]:
    """Return histories over one store, counted by themselves."""
    return type(
        f"HistoriesOver{store.capitalize()}", (Histories,), {"store": store, "finished": 0, "seen": Counter()}
    )


@pytest.fixture
def on_redis(redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Redis, "server", redis_server)


@pytest.mark.timeout(900)  # about a minute; much longer where it shrinks what it found
def test_the_rules_hold_in_every_history() -> None:
    histories = machine("sqlite")
    run_state_machine_as_test(histories, settings=settings(_settings, max_examples=HISTORIES))
    assert histories.finished >= HISTORIES, "fewer histories ran than are asked for"
    # A machine that no longer reaches an event would find no fault in it.
    assert set(TRANSITIONS) - set(histories.seen) == OF_FAN_OUTS | OF_PATHS


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("on_redis")
def test_the_rules_hold_in_histories_over_redis() -> None:
    histories = machine("redis")
    run_state_machine_as_test(histories, settings=settings(_settings, max_examples=HISTORIES_ON_REDIS))
    assert histories.finished >= HISTORIES_ON_REDIS, "fewer histories ran than are asked for"


@pytest.mark.soak
@pytest.mark.usefixtures("on_redis")
@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_the_rules_hold_in_long_histories(store: str) -> None:
    histories = machine(store)
    ends = time.monotonic() + 60 * SOAK_SHARE * float(os.environ.get("SOAK_MINUTES", "10"))
    ran = 0
    while ran == 0 or time.monotonic() < ends:
        run_state_machine_as_test(
            histories,
            settings=settings(
                _settings,
                max_examples=50,
                stateful_step_count=LONG,
                phases=[Phase.explicit, Phase.generate, Phase.shrink],
                database=None,
            ),
        )
        ran += 50
    assert histories.finished >= ran
