"""Plans that could write twice after a store lost its last moments are refused there, unless that is accepted."""

from collections.abc import Iterator

import pytest

from passdown.broker.app import App, Transport
from passdown.broker.client import Broker, Submission
from passdown.broker.controller import Controller
from passdown.broker.doctor.work import durability_findings
from passdown.broker.doorbell import SilentDoorbell
from passdown.broker.durability import losing_writes
from passdown.broker.stores.sqlite import SqliteStore
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Grant, Plan
from passdown.contracts.tools import ToolSpec
from tests.unit.broker.rig import plan

LOST = "the last second (appendfsync everysec)"
READS = ToolSpec(name="look", params={"type": "object"})
SAFE = ToolSpec(name="pay", params={"type": "object"}, effect=True, dedupes=True)
UNSAFE = ToolSpec(name="mail", params={"type": "object"}, effect=True)


class Forgetful(SqliteStore):
    """Says of itself what a Redis store with everysec says."""

    may_lose = LOST


def broker(store: SqliteStore, *, accept: bool = False) -> Broker:
    app = App(store, Transport("", {}), SilentDoorbell(), Controller(store, SilentDoorbell()), accept)
    return Broker(app, "user:producer")


@pytest.fixture
def forgetful() -> Iterator[Broker]:
    made = broker(Forgetful(":memory:"))
    yield made
    made.close()


def granting(*tools: str) -> Plan:
    return plan("writes", tools=[Grant(tool=name) for name in tools])


def test_rule_03_a_plan_that_could_write_twice_is_refused_when_it_is_registered(forgetful: Broker) -> None:
    forgetful.register_tools([READS, SAFE, UNSAFE])
    with pytest.raises(PlanError) as caught:
        forgetful.register(granting("look", "pay", "mail"))
    (fault,) = caught.value.faults
    assert fault == (
        "stage only writes with mail, which lacks `dedupes`, and this store may lose the last second (appendfsync"
        " everysec): it could write twice; set appendfsync always, let the tool dedupe, or accept that with"
        " accept_effect_loss = true"
    )
    assert losing_writes(forgetful.app.store) == [], "nothing was registered"
    assert [one.level for one in durability_findings(forgetful.app.store, accepted=False)] == ["green"]


def test_rule_03_and_when_it_is_submitted_for_tools_may_come_after_their_plan(forgetful: Broker) -> None:
    forgetful.register(granting("mail"))
    early = forgetful.submit("writes", key="early")
    forgetful.register_tools([UNSAFE])
    with pytest.raises(PlanError, match="stage only writes with mail"):
        forgetful.submit("writes")
    with pytest.raises(PlanError, match="stage only writes with mail"):
        forgetful.submit_all("writes", [Submission(), Submission()])
    assert len(forgetful.sessions()) == 1
    assert forgetful.submit("writes", key="early").id == early.id, "what is open already is met as before"


def test_the_doctor_names_them(forgetful: Broker) -> None:
    forgetful.register(granting("mail"))
    forgetful.register_tools([UNSAFE])
    (found,) = durability_findings(forgetful.app.store, accepted=False)
    assert found.level == "red"
    assert found.found.endswith("may write twice: writes@1 stage only with mail")
    (found,) = durability_findings(forgetful.app.store, accepted=True)
    assert (found.level, found.advice) == ("yellow", "accepted by `accept_effect_loss`")


def test_tools_that_read_or_dedupe_may_be_granted_on_any_store(forgetful: Broker) -> None:
    forgetful.register_tools([READS, SAFE])
    forgetful.register(granting("look", "pay"))
    assert forgetful.submit("writes").status() == "queued"
    assert forgetful.delegate("worker", "do it").status() == "queued"


def test_it_can_be_accepted(forgetful: Broker) -> None:
    accepting = broker(Forgetful(":memory:"), accept=True)
    accepting.register_tools([UNSAFE])
    accepting.register(granting("mail"))
    assert accepting.submit("writes").status() == "queued"
    accepting.close()


def test_a_store_that_loses_nothing_takes_all_plans() -> None:
    lasting = broker(SqliteStore(":memory:"))
    lasting.register_tools([UNSAFE])
    lasting.register(granting("mail"))
    assert lasting.submit("writes").status() == "queued"
    lasting.close()
