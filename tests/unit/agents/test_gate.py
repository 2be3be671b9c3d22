import threading

from passdown.agents.gate import Gate
from tests.unit.agents.helpers import wait_until


def test_many_may_be_inside():
    gate = Gate()
    assert gate.enter(solo=False, seconds=0)
    assert gate.enter(solo=False, seconds=0)
    assert gate.inside == 2


def test_a_solo_pack_enters_an_empty_gate_only_and_keeps_others_out():
    gate = Gate()
    gate.enter(solo=False, seconds=0)
    assert not gate.enter(solo=True, seconds=0)
    gate.leave(solo=False)
    assert gate.enter(solo=True, seconds=0)
    assert not gate.enter(solo=False, seconds=0)
    assert not gate.enter(solo=True, seconds=0)
    assert not gate.wait_open(0)
    gate.leave(solo=True)
    assert gate.wait_open(0)
    assert gate.enter(solo=False, seconds=0)


def test_while_a_solo_pack_waits_nobody_enters_and_it_gets_in_first():
    gate = Gate()
    gate.enter(solo=False, seconds=0)
    entered: list[str] = []

    def solo() -> None:
        if gate.enter(solo=True, seconds=5):
            entered.append("solo")

    thread = threading.Thread(target=solo)
    thread.start()
    wait_until(lambda: not gate.wait_open(0), "the solo pack waits")
    assert not gate.enter(solo=False, seconds=0)
    gate.leave(solo=False)
    thread.join(5)
    assert entered == ["solo"]


def test_a_solo_pack_that_gave_up_lets_others_in_again():
    gate = Gate()
    gate.enter(solo=False, seconds=0)
    gate.enter(solo=True, seconds=0.01)
    assert gate.enter(solo=False, seconds=0)


def test_waiting_for_an_empty_gate():
    gate = Gate()
    assert gate.wait_empty(0)
    gate.enter(solo=False, seconds=0)
    assert not gate.wait_empty(0)
