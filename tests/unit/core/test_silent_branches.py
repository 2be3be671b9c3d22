"""Branches that a plan leads to their end without an output: they are done, and have nothing to say."""

from typing import Any

import pytest
from msgspec.structs import replace

from passdown.broker.core.join import about_of
from passdown.broker.core.parts import Outcome
from passdown.contracts import events as ev
from passdown.contracts.errors import ContractError
from passdown.contracts.plans import END, FanOut, Plan
from tests.unit.core.joins import Parent, fan, named, spread
from tests.unit.core.plans import stage
from tests.unit.core.spec import BOB, Session, like


def ending(contract: FanOut, how: str) -> Plan:
    """Return a plan whose branches end where they refuse, or fail for good."""
    plan = fan(contract)
    work = replace(stage(), max_attempts=1, **{how: END})
    return replace(plan, stages={**plan.stages, "work": work})


def refuses(branch: Session) -> None:
    branch.claim().refuse()


def fails(branch: Session) -> None:
    branch.claim().fail()


CONTRACTS: dict[str, dict[str, Any]] = {
    "collect": {},
    "first": {"merge": "first"},
    "conflict": {"conflict": ["x"]},
    "vote": {"merge": "vote"},
    "vote on fields": {"merge": "vote", "vote_on": ["x"], "conflict": ["x"]},
}


@pytest.mark.parametrize("how", ["on_refused", "on_failed"])
@pytest.mark.parametrize("contract", CONTRACTS)
def test_rule_01_a_branch_that_ends_without_an_output_is_done_and_is_joined(contract: str, how: str) -> None:
    parent = Parent(ending(named(**CONTRACTS[contract]), how)).submit()
    assert isinstance(parent, Parent)
    parent.opens()
    (refuses if how == "on_refused" else fails)(parent.branch(0))
    for place in (1, 2):
        parent.branch(place).claim().done({"x": 1})
    assert parent.rows.counts == {"done": 3}
    assert not parent.rows.rows[0].about.gave
    parent.look().then(like(ev.Joined, how="enough", counted=3), "PackIssued")


def test_it_neither_votes_nor_disagrees() -> None:
    contract = FanOut(merge="vote", vote_on=["x"], conflict=["x"])
    about = about_of(Outcome(result="done"), 0, contract)
    assert (about.agree, about.vote) == ({}, "")
    assert about_of(Outcome(result="done", output={}), 0, contract).vote == "[null]"


def test_whether_an_output_was_given_is_known_of_long_ones_and_empty_ones_too() -> None:
    for output in ({}, {"x": 1}, {"x": "y" * 10_000}):
        assert about_of(Outcome(result="done", output=output), 0, FanOut()).gave
    assert not about_of(Outcome(result="done"), 0, FanOut()).gave


def test_those_that_say_nothing_do_not_outvote_the_others() -> None:
    parent = spread(named(merge="vote"))
    parent.ends(0, output=None).ends(1, output=None).ends(2, output={"x": 1}).look()
    parent.then("Joined", "PackIssued")


def test_a_vote_of_which_nobody_took_part_is_a_persons_to_decide() -> None:
    parent = spread(named(merge="vote")).ends(0, output=None).ends(1, output=None).ends(2, output=None)
    parent.look().then("JoinConflict", like(ev.TicketOpened, why="no vote has a majority: nobody voted"))


def test_one_that_gave_none_cannot_be_chosen() -> None:
    parent = spread(named(conflict=["x"]))
    parent.ends(0, output=None).ends(1, output={"x": 1}).ends(2, output={"x": 2}).look()
    body = parent.resolution("choose", "a")
    parent.refuses(ContractError, body, BOB, match="branch 'a' has no output: it is done, and gave none")
    parent.resolve("choose", "b").then("TicketResolved", like(ev.Joined, branch="b"), "PackIssued")


def test_one_that_gave_none_can_be_sent_back_to() -> None:
    parent = spread(named(conflict=["x"]))
    parent.ends(0, output=None).ends(1, output={"x": 1}).ends(2, output={"x": 2}).look()
    parent.resolve("send-back", {"branches": ["a"], "feedback": "say something"}).then("TicketResolved")
