"""Fan-outs drawn: their branches, their join, and where it leads."""

from msgspec.structs import replace

from passdown.broker.plans import FanOut, HumanStage, Join, Plan, Stage, as_mermaid, as_text, compile_plan
from passdown.broker.plans.picture import labelled_branches, labelled_moves
from passdown.contracts import plans as stored

CLAIMS = compile_plan(
    Plan(
        name="claims",
        start="review",
        stages={
            "review": FanOut(
                goal="Bring the reviews together.",
                each="documents",
                stage="judge",
                key="id",
                at_once=8,
                join=Join(
                    need=2,
                    counts=["done", "refused"],
                    wait_for_people=False,
                    deadline="1h",
                    merge="vote",
                    on_conflict="reviewers",
                    on_short="tell",
                ),
                next="parts",
            ),
            "judge": Stage(role="judge"),
            "parts": FanOut(
                branches={"legal": "law", "tax": "law", "price": "pricing"},
                join=Join(need="veto", merge="editor", on_short="merge"),
                deadline="2d",
                on_failed="fail",
                next="tell",
            ),
            "law": HumanStage(queue="lawyers"),
            "pricing": Stage(role="pricing"),
            "tell": Stage(role="desk"),
        },
    )
)

CLAIMS_TEXT = """\
claims@1: 6 stages, at most 200 steps

       ● review   fan-out · start
                  goal  Bring the reviews together.
  ┌─────────────  each of documents ⇉ judge
  │               opens  at most 1000, 8 at once, named by id
  │               join  2 done or refused, within 1h, people are not waited for, then vote
  │               conflict  person of reviewers
  │ ┌───────────  done → parts
┌─│─│───────────  short → tell
│ │ │
│ └─│──▶ judge    judge · rerun  ◀ here
│   │             done → ■ end
│   │
│   └──▶ parts    fan-out · within 2d
│   ┌───────────  legal, tax ⇉ law
│ ┌─│───────────  price ⇉ pricing
│ │ │             join  all done, one that refuses ends it, then editor merges
│ │ │             short  merges what is there
├─│─│───────────  done → tell
│ │ │             failed → ■ failed
│ │ │
│ │ └──▶ law      person of lawyers
│ │               done → ■ end
│ │
│ └────▶ pricing  pricing · rerun
│                 done → ■ end
│
└──────▶ tell     desk · rerun
                  done → ■ end

⇉ opens branches, each of which goes its way to an end   ■ the session ends
"""


def test_the_picture_of_fan_outs() -> None:
    assert as_text(CLAIMS, current="judge") == CLAIMS_TEXT


def test_the_same_as_mermaid() -> None:
    drawn = as_mermaid(CLAIMS)
    assert '    state "review: fan-out" as s1' in drawn
    assert "    s1 --> s2: opens each of documents\n" in drawn
    assert "    s1 --> s6: short\n" in drawn
    assert "    s3 --> s4: opens legal#44; tax\n    s3 --> s5: opens price\n    s3 --> s6: done\n" in drawn


def test_a_fan_out_that_nobody_checked_is_drawn_as_it_is() -> None:
    fan_out = stored.FanOut(each="a\nb", stage="gone\x1b", branches={"x\ny": "judge"}, merge="reduce:\x1b")
    plan = replace(CLAIMS, stages={**CLAIMS.stages, "review": stored.Stage(fan_out=fan_out)})
    text = as_text(plan)
    assert "each of a b ⇉ gone , which does not exist" in text
    assert "x y ⇉ judge" in text
    assert all(line.isprintable() for line in text.splitlines())
    assert "(to gone" in as_mermaid(plan).replace("#40;", "(")
    assert "⇉ , which does not exist" in as_text(
        replace(CLAIMS, stages={"review": stored.Stage(fan_out=stored.FanOut(each="a"))})
    )


def test_many_branches_that_begin_alike_are_one_line() -> None:
    fan_out = stored.FanOut(branches={f"branch-{n}": "judge" for n in range(500)})
    ((names, start),) = labelled_branches(stored.Stage(fan_out=fan_out))
    assert (start, names[:19]) == ("judge", "branch-0, branch-1,")
    assert len(names) <= 121
    assert labelled_branches(stored.Stage(role="r")) == []


def test_where_a_join_leads_is_a_move_only_to_a_stage() -> None:
    fan_out = stored.FanOut(on_conflict="tell", on_short="people")
    assert labelled_moves(stored.Stage(fan_out=fan_out), ["tell"]) == [("done", "end"), ("conflict", "tell")]
    failing = stored.FanOut(on_conflict="fail", on_short="fail")
    assert labelled_moves(stored.Stage(fan_out=failing), ["tell"])[1:] == [
        ("conflict", "fail"),
        ("short", "fail"),
    ]
