"""The join contract by numbers and by rows, as pure functions."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from passdown.broker.core import join as jn
from passdown.broker.core.join import FINAL, WAITING, WINDOW, About, Row
from passdown.broker.core.parts import Join, SentBack
from passdown.contracts.plans import BranchOutcome, FanOut

#: A branch that waits for a person counts as an outcome, too, where the contract does not wait for people.
OUTCOMES = (*FINAL, WAITING)


def judged(fan_out: FanOut, branches: int, **counts: int) -> str:
    return jn.judge(fan_out, branches, counts)


# -- by numbers --


@pytest.mark.parametrize(
    ("contract", "branches", "needed"),
    [
        ({"need": "all"}, 3, 3),
        ({"need": "all"}, 0, 0),
        ({"need": "veto"}, 3, 3),
        ({"need": "veto"}, 0, 0),
        ({"need": "any"}, 3, 1),
        ({"need": "any"}, 0, 1),
        ({"need": 2}, 3, 2),
        ({"need": 5}, 3, 5),
        ({"need": "all", "merge": "vote"}, 0, 1),
        ({"need": "all", "merge": "first"}, 0, 1),
        ({"need": "all", "merge": "vote"}, 3, 3),
        ({"need": "all", "merge": "reduce:sum"}, 0, 0),
    ],
)
def test_how_many_must_count(contract: dict[str, Any], branches: int, needed: int) -> None:
    assert jn.needed(FanOut(**contract), branches) == needed


@pytest.mark.parametrize(
    ("need", "branches", "counts", "verdict"),
    [
        ("all", 3, {}, "wait"),
        ("all", 3, {"done": 2}, "wait"),
        ("all", 3, {"done": 3}, "enough"),
        ("all", 3, {"done": 2, "failed": 1}, "short"),
        ("all", 3, {"refused": 1}, "short"),
        ("all", 3, {"cancelled": 1}, "short"),
        ("all", 3, {"done": 2, "waiting": 1}, "wait"),
        ("all", 3, {"done": 2, "open": 1}, "wait"),
        ("all", 0, {}, "enough"),
        ("any", 3, {"failed": 2}, "wait"),
        ("any", 3, {"failed": 2, "done": 1}, "enough"),
        ("any", 3, {"failed": 2, "cancelled": 1}, "short"),
        ("any", 0, {}, "short"),
        (2, 3, {"done": 1, "failed": 1}, "wait"),
        (2, 3, {"done": 2}, "enough"),
        (2, 3, {"done": 1, "failed": 2}, "short"),
        (2, 3, {"failed": 1, "refused": 1}, "short"),
        (4, 3, {}, "short"),
        (4, 3, {"done": 3}, "short"),
        ("veto", 3, {"done": 2}, "wait"),
        ("veto", 3, {"done": 3}, "enough"),
        ("veto", 3, {"done": 1, "refused": 1}, "vetoed"),
        ("veto", 3, {"failed": 1}, "short"),
        ("veto", 3, {"failed": 1, "refused": 1}, "vetoed"),
        ("veto", 0, {}, "enough"),
    ],
)
def test_what_the_contract_says_of_so_many_rows(
    need: Any, branches: int, counts: dict[str, int], verdict: str
) -> None:
    assert jn.judge(FanOut(need=need), branches, counts) == verdict


@pytest.mark.parametrize("outcome", FINAL)
def test_the_contract_says_which_outcomes_satisfy_it(outcome: BranchOutcome) -> None:
    fan_out = FanOut(counts=[outcome])
    assert judged(fan_out, 2, **{outcome: 2}) == "enough"
    for other in set(FINAL) - {outcome}:
        assert judged(fan_out, 2, **{outcome: 1, other: 1}) == "short"
    both = FanOut(counts=["done", "refused"], need=3)
    assert judged(both, 4, done=1, refused=2, failed=1) == "enough"


def test_a_branch_that_waits_for_a_person_is_waited_for_where_the_contract_says_so() -> None:
    assert judged(FanOut(wait_for_people=True), 2, done=1, waiting=1) == "wait"
    assert judged(FanOut(wait_for_people=False), 2, done=1, waiting=1) == "short"
    assert judged(FanOut(wait_for_people=False, need="any"), 2, waiting=1) == "wait"


def test_where_every_outcome_counts_nothing_can_spoil_it_but_too_few_branches() -> None:
    every = FanOut(counts=["done", "refused", "failed", "cancelled"], need=3)
    assert judged(every, 3, failed=2) == "wait"
    assert judged(every, 2) == "short"
    assert woken(every, opened(2), {}), "a join that is short from the beginning is never looked at"


def opened(branches: int, upto: int | None = None, **more: Any) -> Join:
    """Return a join of which the branches before `upto` are opened, all by default."""
    upto = branches if upto is None else upto
    said: dict[str, Any] = {"opened": upto, "opening": upto, **more}
    return Join(join_id="s.j-1", step=1, stage="spread", branches=branches, items="d", **said)


def woken(fan_out: FanOut, join: Join, counts: dict[str, int]) -> bool:
    return any(jn.total(counts, outcomes) >= at for outcomes, at in jn.wakes(fan_out, join))


def test_at_once_limits_how_many_run_and_those_that_wait_for_people_keep_no_place() -> None:
    fan_out = FanOut(at_once=3)
    assert jn.room(fan_out, opened(10, 3), {}) == 3
    assert jn.room(fan_out, opened(10, 3), {"done": 1}) == 4
    assert jn.room(fan_out, opened(10, 3), {"done": 1, "failed": 1, "waiting": 1}) == 6
    assert jn.room(fan_out, opened(10, 9), {"done": 9}) == 10
    # Who goes on after a person answered may be one too many: nobody is called off for it.
    assert jn.room(fan_out, opened(10, 6), {"done": 1, "open": 3}) == 6


def test_no_window_is_longer_than_its_bound() -> None:
    assert jn.room(FanOut(), opened(20_000, 500), {}) == 500 + WINDOW
    assert jn.room(FanOut(at_once=2_000), opened(20_000, 500), {}) == 500 + WINDOW


def test_a_closed_join_is_woken_by_the_last_of_its_branches_and_then_no_more() -> None:
    fan_out = FanOut(need="any")
    left = opened(9, 5, closed=True, told=0)
    assert not woken(fan_out, left, {"done": 1, "cancelled": 3, "waiting": 1})
    assert woken(fan_out, left, {"done": 1, "cancelled": 4})
    assert jn.wakes(fan_out, opened(9, 5, closed=True, drained=True)) == []


def test_a_veto_wakes_also_while_a_person_is_asked() -> None:
    short = opened(3, asked="short")
    assert woken(FanOut(need="veto"), short, {"refused": 1})
    assert not woken(FanOut(need="veto"), short, {"failed": 1})
    assert woken(FanOut(need="veto"), short, {"done": 3})


contracts = st.builds(
    FanOut,
    need=st.one_of(st.sampled_from(["all", "any", "veto"]), st.integers(1, 60)),
    counts=st.sampled_from(
        [
            ["done"],
            ["done", "refused"],
            ["failed"],
            ["cancelled", "done"],
            ["done", "refused", "failed", "cancelled"],
        ]
    ),
    wait_for_people=st.booleans(),
    at_once=st.one_of(st.just(0), st.integers(1, 40)),
    merge=st.sampled_from(["collect", "first", "vote"]),
)


@st.composite
def standings(draw: st.DrawFn) -> tuple[FanOut, Join, dict[str, int]]:
    """A contract, a join of which some branches are opened, and what those say by now."""
    fan_out = draw(contracts)
    branches = draw(st.integers(0, 50))
    upto = draw(st.integers(min(1, branches), branches)) if fan_out.at_once else branches
    counts: dict[str, int] = {}
    for outcome in draw(st.lists(st.sampled_from([*OUTCOMES, jn.OPEN]), max_size=upto)):
        counts[outcome] = counts.get(outcome, 0) + 1
    return fan_out, opened(branches, upto), counts


@given(standings())
@example((FanOut(need=5, counts=["done", "refused", "failed", "cancelled"]), opened(3), {}))
@example((FanOut(at_once=1), opened(2, 1), {"done": 1}))
@example((FanOut(at_once=1), opened(2, 1), {"waiting": 1}))
def test_nothing_waits_for_what_cannot_happen(standing: tuple[FanOut, Join, dict[str, int]]) -> None:
    """Where no wake holds the contract says to wait, and some branch that was opened can still act."""
    fan_out, join, counts = standing
    verdict = jn.judge(fan_out, join.branches, counts)
    room = jn.room(fan_out, join, counts)
    if woken(fan_out, join, counts):
        assert verdict != "wait" or room > join.opening, "it is woken for nothing"
        return
    assert verdict == "wait"
    assert jn.total(counts, FINAL) < join.opening, "all have ended, and it waits"
    if join.opening < join.branches:
        # More may be opened only where enough run to bring the next look.
        assert jn.total(counts, OUTCOMES) < join.opening, "nobody runs, and no more are opened"
        assert room - join.opening <= max(0, fan_out.at_once // 8 - 1)


@given(standings(), st.sampled_from(["conflict", "short"]))
def test_while_a_person_is_asked_it_is_woken_by_what_could_spare_the_answer(
    standing: tuple[FanOut, Join, dict[str, int]], about: Any
) -> None:
    fan_out, join, counts = standing
    verdict = jn.judge(fan_out, join.branches, counts)
    holds = woken(fan_out, replace(join, asked=about), counts)
    if about == "short" and verdict in ("enough", "vetoed"):
        assert holds
    if about == "conflict" and jn.total(counts, FINAL) == join.branches:
        assert holds


@given(standings())
def test_what_is_sent_back_is_not_looked_at_before_it_is_reopened(
    standing: tuple[FanOut, Join, dict[str, int]],
) -> None:
    fan_out, join, _ = standing
    told = SentBack(ticket_no=1, branches=["a"], feedback="f", by="user:bob")
    waiting = replace(join, sent_back=told)
    assert jn.wakes(fan_out, waiting) == []


@given(contracts, st.integers(1, 50), st.data())
def test_rows_one_after_another_come_to_a_verdict_that_is_never_taken_back(
    fan_out: FanOut, branches: int, data: st.DataObject
) -> None:
    """Until a branch is sent back to, more rows only turn *wait* into another verdict."""
    counts: dict[str, int] = {}
    said = "wait"
    for _ in range(branches):
        outcome = data.draw(st.sampled_from(FINAL))
        counts[outcome] = counts.get(outcome, 0) + 1
        verdict = jn.judge(fan_out, branches, counts)
        assert said in ("wait", verdict) or verdict == "vetoed"
        said = verdict
    assert said != "wait"


# -- by rows --


def rows(*outcomes: str, **about: Any) -> list[Row]:
    return [Row(n, f"b{n}", outcome, n + 1, About(**about)) for n, outcome in enumerate(outcomes)]


def voted(*votes: str, outcome: str = "done") -> list[Row]:
    return [Row(n, f"b{n}", outcome, n + 1, About(digest=vote, vote=vote)) for n, vote in enumerate(votes)]


def test_those_that_count_are_fixed_by_a_digest_over_place_branch_outcome_and_output() -> None:
    fan_out = FanOut(counts=["done", "refused"])
    base = rows("done", "failed", "refused")
    summary = jn.summarize(fan_out, base, 3)
    assert summary.counted == 2
    assert summary.digest == jn.summarize(fan_out, list(base), 99).digest
    for other in (
        base[:2],
        [base[0]._replace(about=About(digest="x")), *base[1:]],
        [base[0]._replace(branch="z"), *base[1:]],
        [base[0]._replace(outcome="refused"), *base[1:]],
        [base[0]._replace(place=7), *base[1:]],
    ):
        assert jn.summarize(fan_out, other, 3).digest != summary.digest
    # A row that does not count is none of its business.
    assert jn.summarize(fan_out, [base[0], base[2]], 3).digest == summary.digest


def test_rows_that_came_later_are_not_counted() -> None:
    base = rows("done", "done", "done")
    early = jn.summarize(FanOut(), base, 2)
    assert early.counted == 2
    assert early.digest == jn.summarize(FanOut(), base[:2], 2).digest
    assert jn.summarize(FanOut(need="veto"), rows("done", "refused"), 1).refused == ""
    assert jn.summarize(FanOut(), base, 2, asked_about=frozenset({"b2"})).named == {}


def test_the_branches_that_are_asked_about_are_named_once_they_ended() -> None:
    asked = frozenset({"b0", "b1", "b3", "nobody"})
    summary = jn.summarize(FanOut(), rows("done", "failed", "done", "waiting"), 9, asked_about=asked)
    assert summary.named == {"b0": "done", "b1": "failed"}


def test_the_first_that_refused_is_named() -> None:
    assert jn.summarize(FanOut(), rows("done", "refused", "refused"), 3).refused == "b1"


def agreeing(*values: dict[str, str]) -> list[Row]:
    return [Row(n, f"b{n}", "done", n + 1, About(agree=value)) for n, value in enumerate(values)]


def test_the_fields_that_must_agree_are_told_with_who_says_what() -> None:
    fan_out = FanOut(conflict=["x", "y"])
    found = jn.summarize(
        fan_out, agreeing({"x": "1", "y": "0"}, {"x": "2", "y": "0"}, {"x": "1", "y": "0"}), 3
    )
    assert found.values == {"x": {"1": ["b0", "b2"], "2": ["b1"]}}
    assert jn.summarize(fan_out, agreeing({"x": "1", "y": "0"}), 3).values == {}


def test_only_outputs_that_count_must_agree() -> None:
    fan_out = FanOut(conflict=["x"], counts=["done", "refused"], need="any")
    refused = Row(1, "b1", "refused", 2, About(reason="no"))
    assert jn.summarize(fan_out, [*agreeing({"x": "1"}), refused], 2).values == {}
    late = Row(1, "b1", "done", 3, About(agree={"x": "2"}))
    assert jn.summarize(fan_out, [*agreeing({"x": "1"}), late], 2).values == {}


def test_rule_12_of_many_values_and_branches_only_some_are_told() -> None:
    fan_out = FanOut(conflict=["x"], merge="vote")
    many = [
        Row(n, f"b{n}", "done", n + 1, About(agree={"x": str(n % 100)}, vote=str(n % 100)))
        for n in range(2_000)
    ]
    found = jn.summarize(fan_out, many, 2_000)
    assert len(found.values["x"]) == 16
    assert {len(names) for names in found.values["x"].values()} == {8}
    assert len(found.split) < 1_000


@pytest.mark.parametrize(
    ("votes", "split"),
    [
        (["1", "1", "2"], ""),
        (["1"], ""),
        (["1", "2"], "no vote has a majority: 1 for 1 (b0), 1 for 2 (b1)"),
        (["1", "1", "2", "2"], "no vote has a majority: 2 for 1 (b0, b1), 2 for 2 (b2, b3)"),
        (["3", "1", "1", "2"], "no vote has a majority: 2 for 1 (b1, b2), 1 for 2 (b3), 1 for 3 (b0)"),
        ([], "no vote has a majority: nobody voted"),
    ],
)
def test_a_vote_needs_more_than_half_of_those_that_voted(votes: list[str], split: str) -> None:
    assert jn.summarize(FanOut(merge="vote"), voted(*votes), 9).split == split


def test_whoever_has_no_output_does_not_vote() -> None:
    fan_out = FanOut(merge="vote", counts=["done", "refused"])
    refused = [Row(n, f"b{n}", "refused", n + 1, About()) for n in range(5, 9)]
    found = jn.summarize(fan_out, [*voted("1", "1", "2"), *refused], 9)
    assert (found.split, found.counted) == ("", 7)


def test_without_a_vote_nothing_is_split() -> None:
    assert jn.summarize(FanOut(), rows("done", "done"), 2).split == ""


def test_a_join_that_a_state_leaves_out_is_over_and_is_known_as_it_was_last() -> None:
    one, two = opened(3), replace(opened(2), join_id="s.j-2", closed=True, told=0, digest="d")
    assert jn.followed({}, []) == {}
    assert jn.followed({}, [one]) == {"s.j-1": one}
    known = jn.followed({"s.j-1": one, "s.j-2": two}, [one])
    assert known == {"s.j-1": one, "s.j-2": replace(two, drained=True, told=None)}
