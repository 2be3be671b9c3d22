from typing import Any

import pytest
import stamina

from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.port import Port
from passdown.agents.testing import make_pack
from passdown.contracts.errors import Denied, Unavailable


class Away:
    """An act that is unavailable for its first tries."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.tries = 0

    def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.left:
            raise Unavailable("store", "away")
        return "done"


@pytest.fixture(autouse=True)
def no_waits():
    with stamina.set_testing(True, attempts=10, cap=True):
        yield


def test_an_act_is_asked_again_while_the_gateway_is_away():
    act = Away(3)
    assert Port(MemoryGateway(), patience_seconds=5).retried(act) == "done"
    assert act.tries == 4


def test_patience_ends():
    with stamina.set_testing(False):
        act = Away(1_000_000)
        with pytest.raises(Unavailable):
            Port(MemoryGateway(), patience_seconds=0.2).retried(act)
    assert act.tries > 1


def test_other_errors_are_not_retried():
    tries: list[int] = []

    def act() -> None:
        tries.append(1)
        raise Denied("a", "b", "c")

    with pytest.raises(Denied):
        Port(MemoryGateway()).retried(act)
    assert len(tries) == 1


def test_hooks_stand_around_an_act_and_its_retries():
    seen: list[Any] = []
    port = Port(MemoryGateway(), hooks=lambda point, pack: seen.append((point, pack)))
    pack = make_pack()
    port.commit("give", pack, Away(2))
    assert seen == [("before_give", pack), ("after_give", pack)]


def test_no_hook_after_what_failed():
    seen: list[str] = []

    def act() -> None:
        raise Denied("a", "b", "c")

    with pytest.raises(Denied):
        Port(MemoryGateway(), hooks=lambda point, _: seen.append(point)).commit("claim", None, act)
    assert seen == ["before_claim"]
