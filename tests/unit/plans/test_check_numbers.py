from typing import Any

import pytest

from passdown.broker.plans import check_plan
from passdown.contracts.plans import Backoff, Grant, Level, Plan, Stage
from tests.unit.plans.samples import said, said_of


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        ({"max_attempts": 0}, "stages.a.max_attempts: 0 is out of range; from 1 to 100"),
        ({"max_attempts": -1}, "stages.a.max_attempts: -1 is out of range; from 1 to 100"),
        ({"max_attempts": 101}, "stages.a.max_attempts: 101 is out of range; from 1 to 100"),
        ({"max_entries": 0}, "stages.a.max_entries: 0 is out of range; from 1 to 10000"),
        ({"max_entries": 10**30}, "stages.a.max_entries: a huge integer is out of range; from 1 to 10000"),
        ({"priority": 1000}, "stages.a.priority: 1000 is out of range; from -100 to 100"),
        ({"lease": "0s"}, "stages.a.lease: 0s is out of range; leave it out for the default"),
        ({"lease": "1ms"}, "stages.a.lease: 1ms is out of range; from 10ms to 1d"),
        ({"lease": "2d"}, "stages.a.lease: 2d is out of range; from 10ms to 1d"),
        ({"deadline": "0s"}, "stages.a.deadline: 0s is out of range; leave it out for the default"),
        ({"deadline": "4000d"}, "stages.a.deadline: 4000d is out of range; from 10ms to 3650d"),
        (
            {"deadline": "60s"},
            "stages.a.deadline: 1m is over before the first lease of 1m is; make the deadline longer, or the lease shorter",
        ),
        ({"time_limit": "0s"}, "stages.a.time_limit: 0s is out of range; leave it out for the default"),
        ({"time_limit": "1ms"}, "stages.a.time_limit: 1ms is out of range; from 10ms to 3650d"),
        (
            {"time_limit": "11m", "deadline": "10m"},
            "stages.a.time_limit: a run of 11m is longer than the deadline of the stage, 10m; make the limit shorter,",
        ),
        (
            {"tools": [{"tool": "t", "approve": "q", "approval": "0s"}]},
            "stages.a.tools[0].approval: 0s is out of range;",
        ),
        (
            {"backoff": {"first": "0s"}},
            "stages.a.backoff.first: 0s is out of range; leave it out for the default",
        ),
        ({"backoff": {"most": "60d"}}, "stages.a.backoff.most: 60d is out of range; from 10ms to 30d"),
        (
            {"backoff": {"first": "10m"}},
            "stages.a.backoff.most: 5m is shorter than the first wait of 10m; make it longer",
        ),
        ({"backoff": {"factor": 0}}, "stages.a.backoff.factor: 0.0 is out of range; from 1 to 100"),
        ({"backoff": {"factor": 1e300}}, "stages.a.backoff.factor: 1e+300 is out of range; from 1 to 100"),
        ({"escalation": ["The Boss"]}, "stages.a.escalation[0].queue: 'The Boss' is no name for a queue;"),
        (
            {"escalation": ["a", "b"]},
            "stages.a.escalation[1].after: 0s is not later than the level before; say after how long, more than 0s",
        ),
        (
            {"escalation": ["a", {"queue": "b", "after": "2h"}, {"queue": "c", "after": "1h"}]},
            "stages.a.escalation[2].after: 1h is not later than the level before; say after how long, more than 2h",
        ),
        (
            {"escalation": ["a", {"queue": "a", "after": "2h"}]},
            "stages.a.escalation[1]: the ticket is on 'a' already; name another queue, or leave it out",
        ),
        (
            {"escalation": ["a", {"queue": "b", "after": "2h"}], "deadline": "2h"},
            "stages.a.escalation[1].after: 2h is not before the deadline of the stage, 2h; escalate earlier,",
        ),
    ],
)
def test_a_limit_out_of_range(stage: dict[str, Any], fault: str) -> None:
    found = said_of(stage)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_limits_within_range_are_sound() -> None:
    assert said_of({"lease": "10ms", "deadline": "3650d", "backoff": {"first": "5m", "factor": 1}}) == []
    assert said_of({"time_limit": "10m", "deadline": "10m"}) == said_of({"time_limit": "10ms"}) == []
    assert said_of({"escalation": ["a", {"queue": "b", "after": "1s"}, {"queue": "a", "after": "2s"}]}) == []


def test_a_persons_ticket_is_on_its_queue_first() -> None:
    def of(*escalation: Any) -> list[str]:
        return said(
            {"name": "p", "start": "a", "stages": {"a": {"queue": "q", "escalation": list(escalation)}}}
        )

    assert of({"queue": "b", "after": "1h"}) == []
    assert of("b")[0].startswith("stages.a.escalation[0].after: 0s is not later than the level before")
    assert of({"queue": "q", "after": "1h"})[0].startswith(
        "stages.a.escalation[0]: the ticket is on 'q' already"
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, 0.0, 1e300])
def test_a_stored_duration_that_is_none_is_refused_wherever_it_stands(value: float) -> None:
    stage = Stage(
        role="r",
        lease_seconds=value,
        deadline_seconds=value,
        tools=[Grant(tool="t", approve="q", approval_seconds=value)],
        backoff=Backoff(first_seconds=value, most_seconds=value, factor=value),
        escalation=[Level(queue="q", after_seconds=value or -1.0)],
    )
    places = {fault.place for fault in check_plan(Plan(name="p", start="a", stages={"a": stage}))}
    fields = (
        "lease",
        "deadline",
        "tools[0].approval",
        "backoff.first",
        "backoff.most",
        "escalation[0].after",
    )
    assert places >= {f"stages.a.{field}" for field in fields}
    assert "stages.a.backoff.factor" in places
