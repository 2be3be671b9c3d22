"""What is wrong with what stages say of people: who takes tickets, how many approve, what may be permitted, and when it ends."""

from typing import Any

import pytest

from passdown.broker.plans import check_plan, check_tools, compile_plan
from passdown.contracts.plans import FanOut, Overdue, People, Permit, Plan, Stage
from tests.unit.plans.samples import SPECS, plan_of, said, said_of

TAKERS = 'is nobody who takes tickets; name a user, a group or a service: "user:ann", "group:legal"'


def people(**fields: Any) -> dict[str, Any]:
    return {"people": fields}


def permit(**fields: Any) -> dict[str, Any]:
    return {"permits": [{"tool": "t", "queue": "q", **fields}]}


FAULTS: list[Any] = [
    (people(candidates=["user:ann", "bob"]), f"people.candidates[1]: 'bob' {TAKERS}"),
    (people(candidates=["agent:cashier"]), f"people.candidates[0]: 'agent:cashier' {TAKERS}"),
    (people(candidates=["User:ann"]), f"people.candidates[0]: 'User:ann' {TAKERS}"),
    (people(candidates=["user:ann\n"]), f"people.candidates[0]: 'user:ann\\n' {TAKERS}"),
    (people(candidates=[""]), f"people.candidates[0]: '' {TAKERS}"),
    (people(candidates=["user:ann", "user:ann"]), "people.candidates[1]: is there twice; leave it out"),
    (people(candidates=[f"user:u{n}" for n in range(101)]), "people.candidates: 101 are named; at most 100"),
    (people(candidates=["user:a\ud800"]), "people.candidates[0]: a string has a lone surrogate"),
    (people(skills=["Deep Thought"]), "people.skills[0]: 'Deep Thought' is no name for a skill; use lower-case words"),
    (people(skills=["X-{inputs.a}"]), "people.skills[0]: 'X-{inputs.a}' is no name for a skill; use lower-case"),
    (people(skills=["{}"]), "people.skills[0]: '{}' is no name for a skill;"),
    (people(skills=["{language}"]), "people.skills[0]: {language} is filled in from nothing; did you mean {inputs.language}?"),
    (people(skills=["x", "x"]), "people.skills[1]: is there twice; leave it out"),
    (people(skills=[f"s{n}" for n in range(21)]), "people.skills: 21 are named; at most 20"),
    (people(lease="9s"), "people.lease: 9s is out of range; from 10s to 1d"),
    (people(lease="25h"), "people.lease: 1d1h is out of range; from 10s to 1d"),
    (people(due="0s"), "people.due: 0s is out of range; leave it out for the default"),
    (people(due="3651d"), "people.due: 3651d is out of range; from 10ms to 3650d"),
    (permit(approvals=6), "permits[0].approvals: 6 is out of range; from 1 to 5"),
    (permit(approvals=0), "permits[0].approvals: 0 is out of range; from 1 to 5"),
    ({"tools": [{"tool": "t", "approve": "q", "approvals": 6}]}, "tools[0].approvals: 6 is out of range; from 1 to 5"),
    ({"tools": [{"tool": "t", "approvals": 2}]}, "tools[0].approvals: nobody is asked to approve; name the queue as `approve`"),
    (
        {"tools": [{"tool": "t", "approve": "q", "approvals": 2}], **people(candidates=["user:ann"])},
        "tools[0].approvals: 2 must approve, each another, and 1 may take the ticket; name more `candidates`, or a group",
    ),
    ({**permit(approvals=2), **people(candidates=["user:ann"])}, "permits[0].approvals: 2 must approve, each another,"),
    (permit(tool="no tool"), "permits[0]: 'no tool' is no name for a tool; use letters, digits and"),
    (permit(queue="The Boss"), "permits[0].queue: 'The Boss' is no name for a queue; use lower-case words"),
    (permit(queue="producer"), "permits[0].queue: 'producer' is reserved"),
    (permit(approval="0s"), "permits[0].approval: 0s is out of range"),
    (
        {"permits": [{"tool": "t", "queue": "q"}, {"tool": "t", "queue": "r"}]},
        "permits[1]: 't' may be permitted already, as stages.a.permits[0]; name it once",
    ),
    (
        {**permit(params={"cents": {"maximum": 5}}), "tools": ["t"]},
        ("permits[0]: 't' is granted within these limits, so that nothing is left to permit;"
        " leave it out, or narrow the `params` of the grant"),
    ),
    (
        {**permit(params={"cents": {"maximum": 5}}), "tools": [{"tool": "t", "params": {"cents": {"maximum": 5}}}]},
        "permits[0]: 't' is granted within these limits,",
    ),
    (
        {"overdue": {"after": "1h", "to": "fail"}, "escalation": ["q", {"queue": "r", "after": "1h"}]},
        "overdue.after: 1h is not later than the last level of the escalation; say after how long, more than 1h",
    ),
    ({"overdue": {"after": "0s", "to": "fail"}}, "overdue.after: 0s is out of range"),
    (
        {"overdue": {"after": "2h", "to": "fail"}, "deadline": "2h"},
        "overdue.after: 2h is not before the deadline of the stage, 2h; make it shorter, or the deadline longer",
    ),
    (
        {**permit(), "delivery": "push", "lease": "5m"},
        "permits: packs of this stage are pushed, to workers that no tool call can be checked and recorded for;",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("stage", "fault"), FAULTS)
def test_a_fault_of_people(stage: dict[str, Any], fault: str) -> None:
    found = said_of(stage)
    assert len(found) == 1
    assert found[0].startswith(f"stages.a.{fault}")


@pytest.mark.parametrize(
    "stage",
    [
        people(candidates=["user:ann", "group:legal", "service:desk.bot"]),
        people(skills=["german", "lang-{inputs.language}", "{inputs.a.b}"], lease="10s", due="10ms"),
        people(lease="1d"),
        {"tools": [{"tool": "t", "approve": "q", "approvals": 5}], **people(candidates=["group:legal"])},
        {"tools": [{"tool": "t", "approve": "q", "approvals": 2}], **people(candidates=["user:a", "user:b"])},
        {**permit(params={"cents": {"maximum": 9}}), "tools": [{"tool": "t", "params": {"cents": {"maximum": 5}}}]},
        {**permit(), "tools": [{"tool": "t", "params": {"cents": {"maximum": 5}}}]},
        {**permit(), "tools": ["u"]},
        {"overdue": {"after": "2h", "to": "fail"}, "escalation": ["q", {"queue": "r", "after": "1h"}], "deadline": "3h"},
    ],
)  # fmt: skip
def test_sound_people(stage: dict[str, Any]) -> None:
    assert said_of(stage) == []


def test_only_a_stage_of_a_role_has_permits() -> None:
    permits = [Permit(tool="t", queue="q")]
    of_person = Plan(name="p", start="a", stages={"a": Stage(queue="q", permits=permits)})
    assert [str(fault) for fault in check_plan(of_person)] == [
        "stages.a.permits: a person's stage has none; leave it out, or give the stage to a role"
    ]
    joined = Stage(fan_out=FanOut(branches={"x": "b"}), permits=permits)
    plan = Plan(name="p", start="a", stages={"a": joined, "b": Stage(role="r")})
    assert [str(fault) for fault in check_plan(plan)] == [
        "stages.a.permits: a fan-out has none; leave it out"
    ]


@pytest.mark.parametrize("stage", [{"role": "r"}, {"queue": "q"}, {"fan_out": {"branches": {"x": "b"}}}])
def test_any_stage_may_say_who_takes_its_tickets_and_what_follows(stage: dict[str, Any]) -> None:
    told = {**stage, **people(candidates=["user:ann"]), "overdue": {"after": "1h", "to": "c"}}
    stages = {"a": {**told, "next": "b"}, "b": {"role": "r"}, "c": {"role": "r"}}
    found = compile_plan({"name": "p", "start": "a", "stages": stages}).stages["a"]
    assert found.people == People(candidates=["user:ann"])
    assert found.overdue == Overdue(after_seconds=3600.0, to="c")


def test_what_is_overdue_leads_on_like_any_move() -> None:
    def way(**stages: Any) -> list[str]:
        return said({"name": "p", "start": "a", "stages": stages})

    back = {"overdue": {"after": "1h", "to": "a"}}
    assert way(a={"role": "r", "next": "b"}, b={"queue": "q", "next": "b", **back}) == [
        ("stages.a.next: no way leads to an end from here: a → b → a;"
        " let one of these stages move to `end`, or to a stage that does")
    ]  # fmt: skip
    assert way(
        a={"queue": "q", "overdue": {"after": "1h", "to": "b"}, "next": "b"}, b={"role": "r"}, c={"role": "r"}
    ) == ["stages.c: no move leads here from 'a'; add a move to it, or remove it"]
    unread = {"queue": "q", "overdue": {"after": 5, "to": "b"}}
    assert way(a=unread, b={"role": "r"})[0].startswith("stages.a.overdue.after: a bare number has no unit")
    assert len(way(a=unread, b={"role": "r"})) == 1


def told_of_tools(stage: dict[str, Any], **stages: Any) -> list[str]:
    plan = plan_of(stage)
    plan["stages"] |= stages
    found = check_tools(compile_plan(plan), SPECS)
    return [f"{'~ ' if fault.severity == 'warning' else ''}{fault}" for fault in found]


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        (
            permit(tool="refunds.craete"),
            "~ stages.a.permits[0]: 'refunds.craete' is not registered yet; register it, or else: did you mean 'refunds.create'?",
        ),
        (
            permit(tool="orders.read"),
            ("stages.a.permits[0].queue: 'orders.read' only reads, and reading calls are never put to a person;"
            " leave it out, or register the tool with effect=True"),
        ),
        (
            permit(tool="refunds.create", params={"cent": {}}),
            "stages.a.permits[0].params.cent: 'refunds.create' has no parameter 'cent'; did you mean 'cents'?",
        ),
        (
            permit(tool="refunds.create", params={"cents": {"type": "string"}}),
            "stages.a.permits[0].params.cents: no value fits this and what 'refunds.create' asks for:",
        ),
        (
            {**permit(tool="refunds.create"), "scopes": []},
            "stages.a.permits[0]: 'refunds.create' has the scope 'refunds:write', which `scopes` leaves out;",
        ),
        (
            {**permit(tool="refunds.create"), "delivery": "push", "gateway": True, "lease": "5m"},
            "stages.a.permits[0]: 'refunds.create' has effects outside, and the packs of this stage are pushed;",
        ),
    ],
)  # fmt: skip
def test_a_fault_of_a_permit(stage: dict[str, Any], fault: str) -> None:
    found = told_of_tools(stage)
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_a_call_that_people_permit_is_approved_however_high_the_risk() -> None:
    high = {**permit(tool="refunds.create"), "risk": "high"}
    assert told_of_tools(high) == []
    assert told_of_tools({**high, "scopes": ["refunds:write"]}) == []
    narrow = {"tool": "refunds.create", "params": {"cents": {"maximum": 5}}}
    assert told_of_tools({**high, "tools": [{**narrow, "approve": "people"}]}) == []
    assert [one.partition(", and nobody")[0] for one in told_of_tools({**high, "tools": [narrow]})] == [
        "stages.a.tools[0]: 'refunds.create' has effects outside, the risk is high"
    ]


def test_silence_never_leads_to_a_call_at_high_risk_that_nobody_approves() -> None:
    stage = {"overdue": {"after": "1h", "to": "pay"}, "next": "pay"}
    pay = {"role": "cashier", "risk": "high", "waived": "decided before", "tools": ["refunds.create"]}
    assert told_of_tools(stage, pay=pay) == [
        ("stages.a.overdue.to: where nobody answers it leads to 'pay', which calls 'refunds.create' at high risk and asks"
        " nobody; lead to another stage or to 'fail', or name a queue as `approve` there")
    ]  # fmt: skip
    approved = {**pay, "tools": ["orders.read", {"tool": "refunds.create", "approve": "people"}]}
    assert told_of_tools(stage, pay={**approved, "waived": ""}) == []
    assert told_of_tools(stage, pay={**pay, "risk": "normal", "waived": ""}) == []
    assert told_of_tools({**stage, "overdue": {"after": "1h", "to": "fail"}}, pay=pay) == []
