"""What a person sees who decides about a join: the branches side by side, what agrees and what does not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.agents import Escalate, Refused
from passdown.broker.joins import comparing
from passdown.broker.joins.comparing import FieldView
from passdown.broker.session import Session
from passdown.contracts.errors import ContractError, NotFound
from passdown.contracts.plans import END, Next, Plan, Stage
from tests.unit.cli.workshop import Workshop, batch_plan, review_plan


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


def values(fields: list[FieldView]) -> dict[str, list[tuple[Any, list[str], int]]]:
    return {one.name: [(said.value, said.branches, said.count) for said in one.said] for one in fields}


def many(shop: Workshop, count: int, **more: Any) -> Session:
    docs = [{"name": f"d{n}"} for n in range(count)]
    session = shop.submit(batch_plan(**more), lists={"documents": docs})
    shop.work("reviewer")
    return session


def test_a_conflict_shows_outputs_evidence_uncertainty_and_effects_of_each_branch(shop: Workshop) -> None:
    shop.says = {
        "ann": {"verdict": "fine", "cents": 5, "note": True},
        "bob": {"verdict": "bad", "cents": 5},
        "carl": {"verdict": "fine", "cents": 5},
    }
    session = shop.submit(review_plan())
    shop.work()
    view = session.comparison(1)
    assert (view.kind, view.queue, view.more, view.ticket) == ("conflict", "operators", 0, f"{session.id}/1")
    assert values(view.differ) == {"verdict": [("fine", ["ann", "carl"], 2), ("bad", ["bob"], 1)]}
    assert values(view.agree) == {"cents": [(5, ["ann", "bob", "carl"], 3)]}
    assert [one.decides for one in (*view.differ, *view.agree)] == [True, False]
    ann, bob, _ = view.sides
    assert (ann.output, ann.by, ann.counts) == ({"verdict": "fine", "cents": 5}, "agent:reviewer", True)
    assert [(one.claim, one.source) for one in ann.evidence] == [("read by ann", "page 3")]
    assert ann.uncertainty is not None
    assert ann.uncertainty.level == 0.25
    effect = session.branch("ann").state().effects[0]
    assert [(one.effect_id, one.tool, one.status, one.args) for one in ann.effects] == [
        (effect.effect_id, "notes.write", "done", {"about": "ann"})
    ]
    assert bob.effects == []
    assert view.stages == ["fan", "letter"]


def test_a_short_join_shows_how_each_ended_and_who_is_still_waited_for(shop: Workshop) -> None:
    shop.says = {
        "ann": RuntimeError("no"),
        "bob": Refused("not mine"),
        "carl": Escalate("who?"),
    }
    session = shop.submit(review_plan())
    shop.work()
    view = session.comparison(1)
    assert view.kind == "short"
    ann, bob, carl = view.sides
    assert (ann.status, ann.output, ann.counts) == ("failed", None, False)
    assert "RuntimeError: no" in ann.reason
    assert (bob.status, bob.reason) == ("refused", "not mine")
    assert (carl.status, carl.waits) == (
        "waiting-human",
        [f"a person of operators: escalation {carl.session_id}/1"],
    )
    assert (view.agree, view.differ) == ([], [])


def test_a_split_vote_shows_who_votes_for_what(shop: Workshop) -> None:
    shop.says = {"ann": {"to": "a"}, "bob": {"to": "b"}, "carl": {"to": "c"}}
    session = shop.submit(review_plan(merge="vote", vote_on=["to"], conflict=[]))
    shop.work()
    view = session.comparison(1)
    assert "merge" not in view.actions
    assert values(view.differ) == {"to": [("a", ["ann"], 1), ("b", ["bob"], 1), ("c", ["carl"], 1)]}
    assert view.differ[0].decides


def test_one_that_gave_no_output_says_nothing(shop: Workshop) -> None:
    shop.says = {"ann": {"to": "a"}, "bob": {"to": "b"}, "carl": Refused("not mine")}
    plan = review_plan(merge="vote", vote_on=["to"], conflict=["cents"])
    plan.stages["review"] = replace(plan.stages["review"], on_refused=END)
    session = shop.submit(plan)
    shop.work()
    view = session.comparison(1)
    assert view.join.outcomes == {"done": 3}
    assert values(view.differ) == {"to": [("a", ["ann"], 1), ("b", ["bob"], 1)]}
    assert values(view.agree) == {"cents": [(None, ["ann", "bob"], 2)]}
    assert view.sides[2].output is None


def test_a_vote_on_the_whole_output_is_told_field_by_field(shop: Workshop) -> None:
    shop.says = {"ann": {"to": "a", "n": 1}, "bob": {"to": "b", "n": 1}, "carl": {"to": "c", "n": 1}}
    session = shop.submit(review_plan(merge="vote", conflict=[]))
    shop.work()
    view = session.comparison(1)
    assert [(one.name, one.decides) for one in (*view.differ, *view.agree)] == [("to", True), ("n", True)]


def test_a_value_that_is_long_is_told_by_its_digest(shop: Workshop) -> None:
    shop.says = {"ann": {"verdict": "x" * 500}, "bob": {"verdict": "y" * 500}, "carl": {"verdict": "x" * 500}}
    session = shop.submit(review_plan())
    shop.work()
    (field,) = session.comparison(1).differ
    assert [one.branches for one in field.said] == [["ann", "carl"], ["bob"]]
    assert all(str(one.value).startswith("sha256:") for one in field.said)


def test_of_many_branches_some_are_shown_each_different_value_among_them(shop: Workshop) -> None:
    shop.says = {"d57": {"verdict": "bad"}}
    session = many(shop, 60, conflict=["verdict"])
    view = session.comparison(1)
    names = [side.name for side in view.sides]
    assert names == [f"d{n}" for n in range(19)] + ["d57"]
    assert view.more == 40
    assert values(view.differ) == {
        "verdict": [("fine", [f"d{n}" for n in range(8)], 59), ("bad", ["d57"], 1)]
    }


def test_values_beyond_the_most_are_left_out(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "_VALUES", 3)
    shop.says = {f"d{n}": {"verdict": n} for n in range(6)}
    view = many(shop, 6, conflict=["verdict"]).comparison(1)
    assert [one.value for one in view.differ[0].said] == [0, 1, 2]


def test_what_a_person_gave_as_output_has_no_evidence_of_an_agent(shop: Workshop) -> None:
    review = batch_plan().stages["review"]
    plan = Plan(
        name="mixed",
        start="fan",
        stages={
            "fan": review_plan().stages["fan"],
            "review": Stage(role="reviewer", next=Next(to="sign")),
            "sign": Stage(queue="signers"),
            "letter": review,
        },
    )
    session = shop.submit(plan)
    shop.work("reviewer")
    for name, verdict in (("ann", "fine"), ("bob", "bad"), ("carl", "fine")):
        session.branch(name).resolve(1, "complete", {"verdict": verdict})
    shop.settle()
    ann = session.comparison(1).sides[0]
    assert (ann.output, ann.by, ann.evidence) == ({"verdict": "fine"}, "user:producer", [])


def test_the_last_return_is_found_also_behind_a_long_log(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "_BACK", 1)
    shop.says = {"ann": {"verdict": "bad"}}
    session = shop.submit(review_plan())
    shop.work()
    assert session.comparison(1).sides[0].evidence[0].claim == "read by ann"


def test_a_ticket_that_is_about_no_join_cannot_be_compared(shop: Workshop) -> None:
    shop.says = {"ann": Escalate("who?"), "bob": {"verdict": "bad"}}
    session = shop.submit(review_plan())
    shop.work()
    with pytest.raises(ContractError, match=r"is about no join: it is of kind escalation"):
        session.branch("ann").comparison(1)
    with pytest.raises(NotFound, match="there is no ticket"):
        session.comparison(1)
    with pytest.raises(NotFound):
        Session(shop.broker, "s0-nope").comparison(1)


def test_a_ticket_that_is_decided_says_so(shop: Workshop) -> None:
    shop.says = {"bob": {"verdict": "bad"}}
    session = shop.submit(review_plan())
    shop.work()
    session.resolve(1, "choose", "ann")
    with pytest.raises(NotFound, match="it is decided"):
        session.comparison(1)
    shop.settle()
    assert [row.counts for row in session.branches()] == [True, False, False]
    shop.work()
    assert session.status() == "done"
