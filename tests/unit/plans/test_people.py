import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.plans import (
    Calendar,
    FanOut,
    Grant,
    HumanStage,
    Join,
    Level,
    Overdue,
    People,
    Permit,
    Plan,
    Stage,
    Subject,
    as_text,
    compile_plan,
    load_plan,
)
from passdown.contracts import plans as stored
from passdown.contracts.errors import PlanError
from tests.unit.plans.samples import said

TOML = """\
name = "refund"
start = "pay"

[calendars.office]
zone = "Europe/Berlin"
weekdays = ["09:00-12:00", "13:00-17:30"]
hours = { fri = ["09:00-14:00"], sat = ["22:00-24:00"] }
holidays = [2026-12-25, "2026-12-26"]

[subjects]
account = "user_id"
order = ["order_id", "orderId"]
reservation = { fields = ["reservation_id"], pattern = "\\\\b[A-Z0-9]{6}\\\\b" }

[stages.pay]
role = "cashier"
tools = [{ tool = "refunds.create", approve = "approvers", approvals = 2, params = { cents = { maximum = 5000 } } }]
permits = [{ tool = "refunds.create", queue = "supervisors", approvals = 2, approval = "1h", params = { cents = { maximum = 9000 } } }]
people = { candidates = ["user:ann", "group:leads"], skills = ["refunds", "lang-{inputs.language}"], calendar = "office" }
next = "ask"

[stages.ask]
queue = "deciders"
people = { exclude_initiator = true, lease = "20m", due = "4h" }
escalation = [{ queue = "leads", after = "4h" }]
overdue = { after = "8h", to = "look" }

[stages.look]
fan_out = { branches = { one = "read" } }
overdue = { after = "1d", to = "fail" }
people = { due = "1h" }

[stages.read]
role = "reader"
"""

MORNING_AND_AFTERNOON = [(540, 720), (780, 1050)]
STORED = stored.Plan(
    name="refund",
    start="pay",
    calendars={
        "office": stored.Calendar(
            zone="Europe/Berlin",
            hours={
                "mon": MORNING_AND_AFTERNOON,
                "tue": MORNING_AND_AFTERNOON,
                "wed": MORNING_AND_AFTERNOON,
                "thu": MORNING_AND_AFTERNOON,
                "fri": [(540, 840)],
                "sat": [(1320, 1440)],
            },
            holidays=["2026-12-25", "2026-12-26"],
        )
    },
    subjects={
        "account": stored.Subject(fields=["user_id"]),
        "order": stored.Subject(fields=["order_id", "orderId"]),
        "reservation": stored.Subject(fields=["reservation_id"], pattern=r"\b[A-Z0-9]{6}\b"),
    },
    stages={
        "pay": stored.Stage(
            role="cashier",
            tools=[
                stored.Grant(
                    tool="refunds.create", approve="approvers", approvals=2, params={"cents": {"maximum": 5000}}
                )
            ],
            permits=[
                stored.Permit(
                    tool="refunds.create",
                    queue="supervisors",
                    approvals=2,
                    approval_seconds=3600.0,
                    params={"cents": {"maximum": 9000}},
                )
            ],
            people=stored.People(
                candidates=["user:ann", "group:leads"],
                skills=["refunds", "lang-{inputs.language}"],
                calendar="office",
            ),
            next=stored.Next(to="ask"),
        ),
        "ask": stored.Stage(
            queue="deciders",
            people=stored.People(exclude_initiator=True, lease_seconds=1200.0, due_seconds=14_400.0),
            escalation=[stored.Level(queue="leads", after_seconds=14_400.0)],
            overdue=stored.Overdue(after_seconds=28_800.0, to="look"),
        ),
        "look": stored.Stage(
            fan_out=stored.FanOut(branches={"one": "read"}),
            overdue=stored.Overdue(after_seconds=86_400.0, to="fail"),
            people=stored.People(due_seconds=3600.0),
        ),
        "read": stored.Stage(role="reader"),
    },
)  # fmt: skip

WRITTEN = Plan(
    name="refund",
    start="pay",
    calendars={
        "office": Calendar(
            zone="Europe/Berlin",
            weekdays=["09:00-12:00", "13:00-17:30"],
            hours={"fri": ["09:00-14:00"], "sat": ["22:00-24:00"]},
            holidays=[dt.date(2026, 12, 25), "2026-12-26"],
        )
    },
    subjects={
        "account": "user_id",
        "order": ["order_id", "orderId"],
        "reservation": Subject(fields=["reservation_id"], pattern=r"\b[A-Z0-9]{6}\b"),
    },
    stages={
        "pay": Stage(
            role="cashier",
            tools=[Grant(tool="refunds.create", approve="approvers", approvals=2, params={"cents": {"maximum": 5000}})],
            permits=[
                Permit(tool="refunds.create", queue="supervisors", approvals=2, approval="1h", params={"cents": {"maximum": 9000}})
            ],
            people=People(candidates=["user:ann", "group:leads"], skills=["refunds", "lang-{inputs.language}"], calendar="office"),
            next="ask",
        ),
        "ask": HumanStage(
            queue="deciders",
            people=People(exclude_initiator=True, lease="20m", due=dt.timedelta(hours=4)),
            escalation=[Level(queue="leads", after="4h")],
            overdue=Overdue(after="8h", to="look"),
        ),
        "look": FanOut(
            branches={"one": "read"}, join=Join(), overdue=Overdue(after="1d", to="fail"), people=People(due="1h")
        ),
        "read": Stage(role="reader"),
    },
)  # fmt: skip


def test_people_are_said_alike_in_toml_and_in_python(tmp_path: Path) -> None:
    file = tmp_path / "refund.toml"
    file.write_text(TOML)
    assert load_plan(file) == STORED
    assert compile_plan(WRITTEN) == STORED


def test_a_picture_names_people() -> None:
    drawn = [
        " ".join(line.split()).lstrip("│├┌└▶─◀●▼┐┘ ↺") for line in as_text(STORED, width=160).splitlines()
    ]
    for line in (
        "tools refunds.create ! 2 of approvers",
        "permits refunds.create ! 2 of supervisors",
        "people user:ann, group:leads, skilled in refunds, lang-{inputs.language}, in the hours of office",
        "people not the initiator, due in 4h, 20m a claim",
        "escalates leads after 4h, then overdue after 8h",
        "overdue → look",
        "overdue → ■ failed",
    ):
        assert any(one.endswith(line) for one in drawn), line


def plan(**more: Any) -> dict[str, Any]:
    return {"name": "p", "start": "a", "stages": {"a": {"role": "r"}}, **more}


def calendar(**fields: Any) -> dict[str, Any]:
    return plan(calendars={"c": {"zone": "UTC", "weekdays": ["09:00-17:00"], **fields}})


@pytest.mark.parametrize(
    ("authored", "fault"),
    [
        (calendar(zon="UTC"), "calendars.c.zon: unknown field; did you mean 'zone'?"),
        (calendar(zone=5), "calendars.c.zone: expected a string, got 5"),
        (
            calendar(weekdays=["9-17"]),
            "calendars.c.weekdays[0]: '9-17' is no span of hours; write from when to when, as in \"09:00-17:30\"",
        ),
        (calendar(hours={"sat": ["09:60-17:00"]}), "calendars.c.hours.sat[0]: '09:60-17:00' is no span of hours;"),
        (calendar(hours={"sat": [5]}), "calendars.c.hours.sat[0]: 5 is no span of hours;"),
        (calendar(hours={"sat": "09:00-17:00"}), "calendars.c.hours.sat: expected a list, got '09:00-17:00'"),
        (calendar(holidays=[5]), 'calendars.c.holidays[0]: 5 is no day; write it as "2026-12-25"'),
        (
            calendar(holidays=[dt.datetime(2026, 12, 25)]),  # noqa: DTZ001 - as TOML has it
            "calendars.c.holidays[0]: the date or time 2026-12-25 00:00:00 is no day;",
        ),
        (plan(calendars={"c": {"weekdays": ["09:00-17:00"]}}), "calendars.c: 'zone' is missing; add it"),
        (plan(subjects={"s": 5}), "subjects.s: expected a table, got 5"),
        (
            plan(subjects={"s": ["a", 5]}),
            'subjects.s: not all of these are names of fields; write ["user_id", "userId"]',
        ),
        (plan(subjects={"s": {"field": ["a"]}}), "subjects.s.field: unknown field; did you mean 'fields'?"),
        (
            plan(stages={"a": {"role": "r", "people": {"candidate": []}}}),
            "stages.a.people.candidate: unknown field; did you mean 'candidates'?",
        ),
        (plan(stages={"a": {"role": "r", "overdue": {"to": "fail"}}}), "stages.a.overdue: 'after' is missing; add it"),
        (
            plan(stages={"a": {"role": "r", "permits": [{"tool": "t"}]}}),
            "stages.a.permits[0]: 'queue' is missing; add it",
        ),
        (
            plan(stages={"a": {"role": "r", "permits": [{"tool": "t", "aproval": "1d", "queue": "q"}]}}),
            "stages.a.permits[0].aproval: unknown field; did you mean 'approval'?",
        ),
        (
            plan(stages={"a": {"queue": "q", "permits": []}}),
            "stages.a.permits: unknown field; only a stage of a role has it; this is a person's,",
        ),
        (
            plan(stages={"a": {"fan_out": {"branches": {"x": "b"}}, "permits": []}, "b": {"role": "r"}}),
            "stages.a.permits: unknown field; only a stage of a role has it",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_shape(authored: dict[str, Any], fault: str) -> None:
    found = [one for one in said(authored) if not one.startswith("~")]
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_nothing_is_said_of_what_follows_from_a_fault_of_shape() -> None:
    stages = {"a": {"role": "r", "people": {"calendar": "c"}}}
    assert said(plan(calendars={"c": {"zone": 5, "hours": {"mon": ["x"]}}}, stages=stages)) == [
        "calendars.c.zone: expected a string, got 5",
        "calendars.c.hours.mon[0]: 'x' is no span of hours; write from when to when, as in \"09:00-17:30\"",
    ]


def test_in_python_a_fault_of_people_comes_where_it_is_made() -> None:
    with pytest.raises(PlanError) as caught:
        People(candidats=["user:ann"], lease=5)  # pyright: ignore[reportCallIssue, reportArgumentType]
    assert caught.value.plan == "(People)"
    assert [fault.partition(";")[0] for fault in caught.value.faults] == [
        "lease: a bare number has no unit",
        "candidats: unknown field",
    ]
