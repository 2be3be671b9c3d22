import pytest
from msgspec.structs import replace

from passdown.broker.plans import HumanStage, Level, Plan, Stage, as_mermaid, as_text, compile_plan
from passdown.broker.plans.picture import labelled_moves
from passdown.contracts import plans as stored
from passdown.contracts.plans import Next
from tests.unit.plans.samples import DECISION

REFUND = compile_plan(
    {
        "name": "refund",
        "start": "check",
        "description": "Refund an order under the policy.",
        "stages": {
            "check": {
                "role": "analyst",
                "goal": "Decide whether order {inputs.orderId} may be refunded under the policy.",
                "tools": ["orders.read"],
                "returns": {"schema": DECISION},
                "next": {"field": "decision", "approve": "pay", "deny": "tell"},
            },
            "pay": {
                "role": "cashier",
                "tools": [{"tool": "refunds.create", "approve": "refund-approvers"}],
                "recovery": "continue",
                "risk": "high",
                "next": {"done": "tell", "denied": "check"},
            },
            "tell": {"role": "desk", "tools": ["mail.send"], "recovery": "continue"},
        },
    }
)

REFUND_TEXT = """\
refund@1: 3 stages, at most 200 steps
Refund an order under the policy.

┌──────● check  analyst · rerun · start
│               goal  Decide whether order {inputs.orderId} may be refunded under the policy.
│               tools  orders.read
│   ┌─────────  decision=approve → pay
│ ┌─│─────────  decision=deny → tell
│ │ │
│ │ └──▶ pay    cashier · continue · high risk  ◀ here
│ │             tools  refunds.create ! refund-approvers
│ ├───────────  done → tell
└─│───────────  denied ↺ check, at most 10 entries
  │
  └────▶ tell   desk · continue
                tools  mail.send
                done → ■ end

! a person approves the call first   ↺ comes round again   ■ the session ends
"""

REVIEW = compile_plan(
    Plan(
        name="draft.review",
        version=4,
        start="write",
        max_steps=30,
        stages={
            "write": Stage(
                role="writer",
                tools=[f"documents.number-{n}" for n in range(8)],
                next="review",
                on_refused="ask",
                on_failed="fail",
            ),
            "review": Stage(
                role="reviewer",
                ask="experts",
                escalation=["leads", Level(queue="bosses", after="2h")],
                next={"suggest": ["write", "publish"], "done": "publish"},
            ),
            "ask": HumanStage(queue="editors", deadline="2d", next="write"),
            "publish": Stage(
                role="publisher", risk="high", waived="internal", next="end", on_failed="publish"
            ),
        },
    )
)

REVIEW_TEXT = """\
draft.review@4: 4 stages, at most 30 steps

┌──────● write    writer · rerun · start
│                 tools  documents.number-0, documents.number-1, documents.number-2,
│                        documents.number-3, documents.number-4, documents.number-5,
│                        documents.number-6, documents.number-7
│   ┌───────────  done → review
│ ┌─│───────────  refused → ask
│ │ │             failed → ■ failed
│ │ │
│ │ └──▶ review   reviewer · rerun
│ │               asks  experts
│ │               escalates  leads, then bosses after 2h
│ │ ┌───────────  done → publish
├─│─│───────────  suggested ↺ write, at most 10 entries
│ │ ├───────────  suggested → publish
│ │ │
│ │ ├──▶ publish  publisher · rerun · high risk, waived
│ │ │             done → ■ end
│ │ └───────────  failed ↺ publish, at most 10 entries
│ │
│ └────▶ ask      person of editors · within 2d
└───────────────  done ↺ write, at most 10 entries

↺ comes round again   ■ the session ends
"""


def test_the_picture_of_a_plan() -> None:
    assert as_text(REFUND, current="pay") == REFUND_TEXT
    assert as_text(REVIEW) == REVIEW_TEXT


def test_only_what_is_used_is_explained_and_only_where_a_session_stands_is_marked() -> None:
    plan = compile_plan({"name": "p", "start": "a", "stages": {"a": {"role": "r"}}})
    expected = "p@1: 1 stage, at most 200 steps\n\n ● a  r · rerun · start\n      done → ■ end\n\n■ the session ends\n"
    assert as_text(plan) == expected
    assert as_text(plan, current="elsewhere") == expected


@pytest.mark.parametrize("width", [20, 60, 100])
def test_long_lines_are_wrapped_and_the_lines_between_stages_go_on(width: int) -> None:
    lines = as_text(REVIEW, width=width).splitlines()
    assert max(map(len, lines)) <= max(width, 80)
    assert sum("▶ " in line for line in lines) == 3


def test_a_plan_that_nobody_checked_is_drawn_as_it_is() -> None:
    lost = stored.Stage(role="r\x1b[31m", next=Next(to="nowhere"), goal="a\nb")
    plan = replace(REFUND, start="void", stages={**REFUND.stages, "lo\u202est": lost})
    text = as_text(plan)
    assert "nowhere, which does not exist" in text
    assert text.count("never reached") == 4
    assert all(line.isprintable() for line in text.splitlines())
    assert "(to nowhere, which does not exist)" in as_mermaid(plan).replace("#40;", "(").replace(
        "#44;", ","
    ).replace("#41;", ")")
    assert as_text(replace(REFUND, stages={})).startswith("refund@1: 0 stages")


def test_a_picture_of_many_stages_has_a_bounded_margin() -> None:
    names = [f"s{n}" for n in range(40)]
    everywhere = Next(suggest=[*names, "end"])
    plan = stored.Plan(
        name="p", start="s0", stages={name: stored.Stage(role="r", next=everywhere) for name in names}
    )
    lines = as_text(plan).splitlines()
    assert max(map(len, lines)) <= 100
    assert all(f"→ {name}" in "\n".join(lines) for name in names[1:])


def test_moves_are_labelled_with_their_cause() -> None:
    stage = stored.Stage(role="r", next=Next(suggest=["a"], to="b"), on_refused="end", on_failed="fail")
    assert labelled_moves(stage) == [
        ("done", "b"),
        ("suggested", "a"),
        ("refused", "end"),
        ("failed", "fail"),
    ]
    assert labelled_moves(stored.Stage(role="r", on_failed="a")) == [("done", "end"), ("failed", "a")]


def test_the_same_as_mermaid() -> None:
    assert (
        as_mermaid(REFUND, current="pay")
        == """\
stateDiagram-v2
    state "check: analyst · rerun" as s1
    state "pay: cashier · continue · high risk" as s2
    state "tell: desk · continue" as s3
    [*] --> s1
    s1 --> s2: decision=approve
    s1 --> s3: decision=deny
    s2 --> s3: done
    s2 --> s1: denied
    s3 --> [*]: done
    classDef here stroke-width:4px
    class s2 here
"""
    )
    assert "    class s4 person\n" in as_mermaid(REVIEW)


def test_no_text_can_end_a_label_of_mermaid() -> None:
    cases = {'"--> [*]; %% \n#quot;': "end", "end": "end"}
    plan = stored.Plan(
        name="p", start="a", stages={"a": stored.Stage(role='"', next=Next(field="f:", cases=cases))}
    )
    assert (
        as_mermaid(plan)
        == """\
stateDiagram-v2
    state "a: #34; · rerun" as s1
    [*] --> s1
    s1 --> [*]: f#58;=#34;--#62; #91;#42;#93;#59; #37;#37;  #35;quot#59;
    s1 --> [*]: f#58;=end
"""
    )
