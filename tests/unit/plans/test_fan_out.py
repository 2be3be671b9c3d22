"""Fan-outs as they are written, in Python and in TOML: the same plan, and faults of shape at their places."""

from pathlib import Path
from typing import Any

import pytest

from passdown.broker.plans import FanOut, HumanStage, Join, Plan, Returns, Stage, compile_plan, load_plan
from passdown.broker.plans.compiling import compile_whole
from passdown.contracts import plans as stored
from passdown.contracts.codec import encode
from passdown.contracts.errors import PlanError
from tests.unit.plans.samples import DECISION, said

TOML = """\
name = "claims"
start = "review"

[stages.review]
goal = "Bring the reviews together."
inputs = { type = "object", properties = { documents = { type = "array" } } }
fan_out = { each = "documents", stage = "judge", item = "document", key = "id", give = ["order"], most = 500, at_once = 8 }
join = { need = 2, counts = ["done", "refused"], wait_for_people = false, deadline = "1h", merge = "vote", vote_on = ["decision"], conflict = ["rule"], on_conflict = "reviewers", on_short = "tell" }
deadline = "2h"
next = { done = "parts", failed = "tell" }

[stages.judge]
role = "judge"
returns = "decision.json"

[stages.parts]
constraints = ["be short"]
done_when = ["one text"]
returns = { evidence = "required" }
tools = ["texts.read"]
lease = "90s"
time_limit = "10m"
max_attempts = 5
max_entries = 7
backoff = { first = "2s" }
priority = 3
on_stale = "human"
escalation = ["leads"]
on_refused = "end"
on_failed = "fail"
next = "tell"

[stages.parts.fan_out.branches]
legal = "law"
price = "judge"

[stages.parts.join]
merge = "editor"
on_conflict = "tell"
on_short = "merge"
conflict = ["decision"]

[stages.law]
queue = "lawyers"
returns = "decision.json"

[stages.tell]
role = "desk"
"""

WRITTEN = Plan(
    name="claims",
    start="review",
    stages={
        "review": FanOut(
            goal="Bring the reviews together.",
            inputs={"type": "object", "properties": {"documents": {"type": "array"}}},
            each="documents",
            stage="judge",
            item="document",
            key="id",
            give=["order"],
            most=500,
            at_once=8,
            join=Join(
                need=2,
                counts=["done", "refused"],
                wait_for_people=False,
                deadline="1h",
                merge="vote",
                vote_on=["decision"],
                conflict=["rule"],
                on_conflict="reviewers",
                on_short="tell",
            ),
            deadline="2h",
            next="parts",
            on_failed="tell",
        ),
        "judge": Stage(role="judge", returns=Returns(schema=DECISION)),
        "parts": FanOut(
            branches={"legal": "law", "price": "judge"},
            constraints=["be short"],
            done_when=["one text"],
            returns={"evidence": "required"},  # pyright: ignore[reportArgumentType]
            tools=["texts.read"],
            lease="90s",
            time_limit="10m",
            max_attempts=5,
            max_entries=7,
            backoff={"first": "2s"},  # pyright: ignore[reportArgumentType]
            priority=3,
            on_stale="human",
            escalation=["leads"],
            on_refused="end",
            on_failed="fail",
            next="tell",
            join=Join(merge="editor", on_conflict="tell", on_short="merge", conflict=["decision"]),
        ),
        "law": HumanStage(queue="lawyers", returns=Returns(schema=DECISION)),
        "tell": Stage(role="desk"),
    },
)

STORED = {
    "review": stored.Stage(
        goal="Bring the reviews together.",
        inputs={"type": "object", "properties": {"documents": {"type": "array"}}},
        fan_out=stored.FanOut(
            each="documents",
            stage="judge",
            item="document",
            key="id",
            give=["order"],
            most=500,
            at_once=8,
            need=2,
            counts=["done", "refused"],
            wait_for_people=False,
            deadline_seconds=3600.0,
            merge="vote",
            vote_on=["decision"],
            conflict=["rule"],
            on_conflict="reviewers",
            on_short="tell",
        ),
        deadline_seconds=7200.0,
        next=stored.Next(to="parts"),
        on_failed="tell",
    ),
    "judge": stored.Stage(role="judge", returns=stored.Returns(schema=DECISION)),
    "parts": stored.Stage(
        fan_out=stored.FanOut(
            branches={"legal": "law", "price": "judge"},
            merge="editor",
            conflict=["decision"],
            on_conflict="tell",
            on_short="merge",
        ),
        constraints=["be short"],
        done_when=["one text"],
        returns=stored.Returns(evidence="required"),
        tools=[stored.Grant(tool="texts.read")],
        lease_seconds=90.0,
        time_limit_seconds=600.0,
        max_attempts=5,
        max_entries=7,
        backoff=stored.Backoff(first_seconds=2.0),
        priority=3,
        on_stale="human",
        escalation=[stored.Level(queue="leads")],
        on_refused="end",
        on_failed="fail",
        next=stored.Next(to="tell"),
    ),
    "law": stored.Stage(queue="lawyers", returns=stored.Returns(schema=DECISION)),
    "tell": stored.Stage(role="desk"),
}
LEAF = {"role": "leaf"}


def of(fan_out: Any, **stage: Any) -> dict[str, Any]:
    """Return an authored plan of the fan-out `a`, whose branches may begin in `leaf`."""
    return {"name": "p", "start": "a", "stages": {"a": {"fan_out": fan_out, **stage}, "leaf": LEAF}}


def test_toml_and_python_say_the_same_plan(tmp_path: Path) -> None:
    (tmp_path / "decision.json").write_bytes(encode(DECISION))
    (tmp_path / "p.toml").write_text(TOML)
    assert load_plan(tmp_path / "p.toml").stages == STORED
    assert compile_plan(WRITTEN) == load_plan(tmp_path / "p.toml")


def test_every_field_of_the_stored_fan_out_is_said_above() -> None:
    """So that a new one cannot be forgotten: each differs from its default in one of the two."""
    default = stored.FanOut()
    told = [stage.fan_out for stage in STORED.values() if stage.fan_out is not None]
    for field in stored.FanOut.__struct_fields__:
        assert any(getattr(one, field) != getattr(default, field) for one in told), field


def test_what_is_not_said_is_what_the_stored_form_defaults_to() -> None:
    plan = Plan(name="p", start="a", stages={"a": FanOut(branches={"b": "leaf"}), "leaf": Stage(role="leaf")})
    found = compile_plan(plan).stages["a"]
    assert found == stored.Stage(fan_out=stored.FanOut(branches={"b": "leaf"}))


def test_branches_as_pairs_can_say_a_name_twice_and_that_is_a_fault() -> None:
    pairs = [("legal", "leaf"), ("price", "leaf")]
    plan = Plan(name="p", start="a", stages={"a": FanOut(branches=pairs), "leaf": Stage(role="leaf")})
    found = compile_plan(plan).stages["a"].fan_out
    assert found is not None
    assert found.branches == dict(pairs)
    assert said(of({"branches": [*pairs, ["legal", "a"]]})) == [
        "stages.a.fan_out.branches[2]: there is a branch 'legal' already; give it a name of its own"
    ]


def test_next_by_result_says_where_a_merge_leads_once() -> None:
    plan = of({"branches": {"b": "leaf"}}, next={"failed": "leaf"}, on_failed="fail")
    assert said(plan) == [
        "stages.a.on_failed: `next` says where 'failed' leads, too; say it in one place",
    ]
    assert said(of({"branches": {"b": "leaf"}}, next={"denied": "leaf"})) == [
        "stages.a.next.denied: a fan-out has none; leave it out"
    ]


@pytest.mark.parametrize(
    ("stage", "fault"),
    [
        ({"fan_out": 3}, "fan_out: expected a table, got 3"),
        ({"fan_out": {"branches": 3}}, 'fan_out.branches: expected a table of branches, got 3; write branches = { name = "stage", … }'),
        ({"fan_out": {"branches": {"b": 3}}}, "fan_out.branches: a branch is a name and the stage in which it begins, not 'b' and 3; write branches"),
        ({"fan_out": {"branches": ["b"]}}, "fan_out.branches: a branch is a name and the stage in which it begins, not 'b'; write branches"),
        ({"fan_out": {"branches": {5: "leaf"}}}, "fan_out.branches: a branch is a name and the stage in which it begins, not 5 and 'leaf'; write"),
        ({"join": 3}, "join: expected a table, got 3"),
        ({"join": {"need": "al"}}, "join.need: 'al' is no number of branches; name a number, or 'all', 'any' or 'veto'"),
        ({"join": {"need": True}}, "join.need: true is no number of branches; name a number, or 'all', 'any' or 'veto'"),
        ({"join": {"need": 1.5}}, "join.need: 1.5 is no number of branches; name a number, or 'all', 'any' or 'veto'"),
        ({"join": {"counts": ["late"]}}, "join.counts[0]: expected 'done', 'refused', 'failed' or 'cancelled', got 'late'"),
        ({"join": {"deadline": 5}}, 'join.deadline: a bare number has no unit; write a number with its unit (ms, s, m, h, d), such as "90s"'),
        ({"join": {"wait_for_people": "no"}}, "join.wait_for_people: expected true or false, got 'no'"),
        ({"join": {"votes_on": []}}, "join.votes_on: unknown field; did you mean 'vote_on'?"),
        ({"join": {"most": 3}}, "join.most: unknown field; it stands under `fan_out`"),
        ({"fan_out": {"branches": {"b": "leaf"}, "need": 2}}, "fan_out.need: unknown field; it stands under `join`"),
        ({"fan_out": {"branches": {"b": "leaf"}, "next": "end"}}, "fan_out.next: unknown field; it stands in the stage itself"),
        ({"fan_out": {"branches": {"b": "leaf"}, "most": "many"}}, "fan_out.most: expected an integer, got 'many'"),
        ({"each": "documents"}, "each: unknown field; it stands under `fan_out`"),
        ({"need": 2}, "need: unknown field; it stands under `join`"),
        ({"role": "r"}, 'role: unknown field; a fan-out has no worker but for its merge: join = { merge = "the role" }'),
        ({"queue": "q"}, "queue: unknown field; a fan-out is no person's stage: leave out `queue` or `fan_out`"),
        ({"risk": "high"}, "risk: unknown field; only a stage of a role has it"),
        ({"gaol": "x"}, "gaol: unknown field; did you mean 'goal'?"),
    ],
)  # fmt: skip
def test_faults_of_shape_are_said_in_our_words_and_once(stage: dict[str, Any], fault: str) -> None:
    stages = {"a": {"fan_out": {"branches": {"b": "leaf"}}, **stage}, "leaf": LEAF}
    (found,) = said({"name": "p", "start": "a", "stages": stages})
    assert found.startswith(f"stages.a.{fault}")


@pytest.mark.parametrize("stage", [{"role": "r"}, {"queue": "q"}])
def test_what_only_a_fan_out_has_is_told_to_any_other_stage(stage: dict[str, Any]) -> None:
    plan: dict[str, Any] = {"name": "p", "start": "a", "stages": {"a": {**stage, "join": {}, "each": "x"}}}
    mend = "unknown field; only a fan-out has it, which is a stage with a table `fan_out`"
    assert sorted(said(plan)) == [f"stages.a.each: {mend}", f"stages.a.join: {mend}"]


def test_in_python_faults_come_where_the_fan_out_is_made() -> None:
    with pytest.raises(PlanError) as caught:
        FanOut(branches=3, at_once="x", need=2)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert caught.value.plan == "(FanOut)"
    assert sorted(caught.value.faults) == [
        "at_once: expected an integer, got 'x'",
        'branches: expected a table of branches, got 3; write branches = { name = "stage", … }',
        "need: unknown field; it stands under `join`",
    ]
    with pytest.raises(PlanError, match="'al' is no number of branches"):
        Join(need="al")  # pyright: ignore[reportArgumentType]


def test_what_was_cut_out_leads_to_no_other_fault() -> None:
    """Neither that nothing is opened, nor that `leaf` is never reached, nor that nothing can conflict."""
    plan = of({"branches": {"b": 3}}, join={"conflict": 3, "on_conflict": "people", "need": 7})
    assert sorted(str(fault).partition(":")[0] for fault in compile_whole(plan)[1]) == [
        "stages.a.fan_out.branches",
        "stages.a.join.conflict",
    ]


def test_what_is_not_said_changes_no_digest() -> None:
    """Sessions that were opened before there were fan-outs still find their plans."""
    assert b"fanOut" not in encode(compile_plan({"name": "p", "start": "a", "stages": {"a": {"role": "r"}}}))


def test_the_rest_of_a_fan_out_whose_branches_cannot_be_read_is_checked() -> None:
    plan = {"name": "p", "start": "a", "stages": {"a": {"fan_out": 3, "join": {"need": 0}, "next": "b"}}}
    assert said(plan) == [
        "stages.a.fan_out: expected a table, got 3",
        "stages.a.join.need: 0 is out of range; needed is at least 1 branch",
        "stages.a.next: there is no stage 'b'; there are: a, end",
    ]
