"""The merges that Passdown does itself."""

import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from passdown.agents import Agent, BranchResult, Done, PackJoin, Runtime, SyncContext
from passdown.agents.memory_gateway import MemoryGateway
from passdown.agents.merging import MERGE_AGENT
from passdown.agents.testing import Outcome, make_pack, run_agent
from passdown.contracts.codec import KIB, PACK_BUDGET, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.pack import PAGE_ITEMS, Pack
from passdown.contracts.plans import MERGER
from passdown.contracts.returns import DoneReturn, EscalateReturn
from passdown.contracts.votes import ballot
from tests.unit.agents.helpers import QUICK, runtime_of
from tests.unit.agents.joining import branch, branches, merge_pack


def merged(merge: str, given: Sequence[BranchResult], **fields: Any) -> Outcome:
    return run_agent(MERGE_AGENT, merge_pack(merge, given, **fields), branches=given, max_attempts=1)


def escalated(outcome: Outcome) -> str:
    assert isinstance(outcome.result, EscalateReturn)
    return outcome.result.reason


def test_every_runtime_merges_beside_its_roles():
    gateway = MemoryGateway()
    given = branches(2)
    session = gateway.submit(merge_pack("collect", given), branches=given)
    with Runtime(gateway, options=QUICK) as runtime:
        runtime.drain(MERGER)
    assert session.status == "done"


def test_no_agent_takes_its_place():
    def mine(_pack: Pack, _ctx: SyncContext) -> Done:
        return Done()

    with pytest.raises(ContractError, match=r"agent of role 'passdown.merge'.*two of them"):
        runtime_of(MemoryGateway(), Agent(mine, MERGER))
    assert Runtime(MemoryGateway(), agents=[MERGE_AGENT]).registry.agents == {MERGER: MERGE_AGENT}


def test_many_are_merged_in_one_turn():
    gateway = MemoryGateway()
    given = branches(3)
    packs = [make_pack(MERGER, session_id=f"s0-{n}", join=_join_of(given)) for n in range(30)]
    sessions = [gateway.submit(pack, branches=given) for pack in packs]
    with Runtime(gateway, options=QUICK) as runtime:
        runtime.drain(MERGER)
    assert {one.status for one in sessions} == {"done"}


def _join_of(given: Sequence[BranchResult]) -> PackJoin:
    join = merge_pack("collect", given).join
    assert join is not None
    return join


class TestCollect:
    def test_all_outcomes_in_the_order_of_places(self):
        given = [
            branch(2, {"x": 1}),
            branch(0, outcome="refused", reason="not ours"),
            branch(1, {"x": 2}, name="legal"),
        ]
        assert merged("collect", given).output == {
            "results": [
                {"branch": "b0", "outcome": "refused", "reason": "not ours"},
                {"branch": "legal", "outcome": "done", "output": {"x": 2}},
                {"branch": "b2", "outcome": "done", "output": {"x": 1}},
            ]
        }

    def test_of_none_it_is_empty(self):
        assert merged("collect", []).output == {"results": []}

    def test_over_budget_it_is_a_reference(self):
        given = [branch(place, {"text": "x" * 1000}) for place in range(PAGE_ITEMS + 1)]
        output = merged("collect", given).output
        whole = encode(
            {"results": [{"branch": b.branch, "outcome": "done", "output": b.output} for b in given]}
        )
        assert output == {
            "results": {
                "uri": "passdown:join/s0-1.j-1",
                "branches": PAGE_ITEMS + 1,
                "bytes": len(whole),
                "digest": "d" * 64,
            }
        }

    def test_it_leaves_room_for_the_next_pack_beside_the_inputs(self):
        """The stage after the merge is given both: together with the rest of its pack they stay within its budget."""
        given = branches(20)
        results = merged("collect", given).output
        size = len(encode(results))
        fits = PACK_BUDGET - 16 * KIB - size - len(encode({"text": ""}))
        for more, kept in ((0, True), (1, False)):
            inputs = {"text": "x" * (fits + more)}
            output = merged("collect", given, inputs=inputs).output
            assert (output == results) is kept
            assert len(encode({**inputs, **output})) < PACK_BUDGET - 16 * KIB

    def test_an_earlier_collection_which_it_takes_the_place_of_does_not_count(self):
        inputs = {"results": ["x" * 50_000]}
        assert isinstance(merged("collect", branches(20), inputs=inputs).output["results"], list)

    def test_what_is_no_larger_than_a_reference_is_given_in_any_case(self):
        inputs = {"text": "x" * (PACK_BUDGET - 2 * KIB)}
        assert isinstance(merged("collect", branches(2), inputs=inputs).output["results"], list)
        assert "uri" in merged("collect", branches(20), inputs=inputs).output["results"]

    @pytest.mark.parametrize("evidence", ["none", "required"])
    def test_whatever_the_size_the_return_fits(self, evidence: str):
        """Around the budget there is no size at which it would be refused."""
        kinds: set[bool] = set()
        most = PACK_BUDGET - 16 * KIB
        for size in range(most - 500, most + 500, 100):
            outcome = merged("collect", [branch(0, {"text": "x" * size})], evidence=evidence)
            assert outcome.status == "done", size
            kinds.add("uri" in outcome.output["results"])
        assert kinds == {False, True}

    def test_memory_is_bounded_by_the_budget_and_a_page(self):
        given = [branch(place, {"text": f"{place:0500}"}) for place in range(20_000)]
        run_agent(MERGE_AGENT, merge_pack("collect", given[:9]), branches=given[:9])
        tracemalloc.start()
        assert "uri" in merged("collect", given).output["results"]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 3_000_000  # the outputs alone have 10 MB; the gateway in memory lists what it has


class TestFirst:
    def test_it_is_the_lowest_place_that_has_an_output(self):
        given = [branch(3), branch(1, outcome="refused", reason="no"), branch(2)]
        assert merged("first", given).output == {"n": 2}

    def test_where_none_has_an_output_a_person_goes_on(self):
        given = [branch(0, outcome="refused", reason="no")]
        assert escalated(merged("first", given)) == "none of the 1 branches that count has an output"


class TestVote:
    def test_the_first_output_of_the_majority(self):
        given = [branch(place, {"ok": place != 1, "by": place}) for place in range(4)]
        assert merged("vote", given, vote_on=["ok"]).output == {"ok": True, "by": 0}
        assert merged("vote", given[1:], vote_on=["ok"]).output == {"ok": True, "by": 2}

    def test_on_the_whole_output_unless_fields_are_named(self):
        given = [branch(0, {"ok": 1}), branch(1, {"ok": 2}), branch(2, {"ok": 2})]
        assert merged("vote", given).output == {"ok": 2}
        assert "no vote" in escalated(merged("vote", [*given, branch(3, {"ok": 2, "by": 1})]))

    def test_half_is_no_majority(self):
        given = [branch(place, {"ok": place % 2}) for place in range(4)]
        assert escalated(merged("vote", given, vote_on=["ok"])) == (
            "no vote has a majority of 4: they are for 2 values"
        )

    def test_what_has_no_output_votes_not(self):
        given = [branch(0, {"ok": 1}), *(branch(place, outcome="refused") for place in (1, 2))]
        assert merged("vote", given).output == {"ok": 1}
        assert escalated(merged("vote", given[1:])) == "nobody voted"

    def test_a_missing_field_is_null_and_numbers_are_what_they_are_written_as(self):
        given = [branch(0, {"ok": None}), branch(1, {}), branch(2, {"ok": 1})]
        assert merged("vote", given, vote_on=["ok"]).output == {"ok": None}
        given = [branch(0, {"ok": 1}), branch(1, {"ok": 1.0}), branch(2, {"ok": True})]
        assert "no vote" in escalated(merged("vote", given))

    def test_long_values_are_told_apart_by_their_digest(self):
        texts = ["x" * 5000, "x" * 4999 + "y", "x" * 5000]
        given = [branch(place, {"text": text, "by": place}) for place, text in enumerate(texts)]
        assert merged("vote", given, vote_on=["text"]).output["by"] == 0
        assert "no vote has a majority of 2" in escalated(merged("vote", given[:2], vote_on=["text"]))

    def test_a_winner_that_comes_late_among_many_is_found(self):
        alone = [branch(place, {"v": place}) for place in range(PAGE_ITEMS)]
        agreeing = [branch(place, {"v": -1, "by": place}) for place in range(PAGE_ITEMS, 2 * PAGE_ITEMS + 1)]
        assert merged("vote", [*alone, *agreeing], vote_on=["v"]).output == {"v": -1, "by": PAGE_ITEMS}

    @pytest.mark.parametrize("vote_on", [[], ["v"]])
    def test_it_is_counted_as_the_broker_counts(self, vote_on: list[str]):
        """Whoever is done without an output votes for nothing there, not for null, and does not vote here."""
        silent = [branch(place, {"v": None}) for place in range(2)]
        given = [*(replace(one, output=None) for one in silent), branch(2, {"v": 1})]
        assert ballot(None, vote_on) == ""
        assert merged("vote", given, vote_on=vote_on).output == {"v": 1}
        assert merged("vote", [*silent, branch(2, {"v": 1})], vote_on=vote_on).output == {"v": None}


class TestChosen:
    @pytest.mark.parametrize("merge", ["collect", "first", "vote"])
    def test_its_output_is_the_merges(self, merge: str):
        pack = merge_pack(merge, branches(1), how="chosen", branch="b2", branches=5)
        outcome = run_agent(MERGE_AGENT, pack, branches=branches(5), max_attempts=1)
        assert outcome.output == {"n": 2}

    def test_one_without_an_output_is_for_a_person(self):
        given = [branch(0, outcome="refused", reason="no")]
        outcome = merged("collect", given, how="chosen", branch="b0")
        assert escalated(outcome) == "branch b0 was chosen, and has no output: it is refused"


@pytest.mark.parametrize(
    ("merge", "claim"),
    [
        ("collect", "collected from 3 branches"),
        ("first", "the first that counts is branch b0"),
        ("vote", "3 of 3 votes agree with branch b0"),
    ],
)
def test_evidence_names_the_join(merge: str, claim: str):
    given = [branch(place, {"ok": True}) for place in range(3)]
    result = merged(merge, given, evidence="required").result
    assert isinstance(result, DoneReturn)
    (one,) = result.evidence
    assert (one.claim, one.source, one.digest) == (claim, "passdown:join/s0-1.j-1", "d" * 64)
    assert merged(merge, given, evidence="none").status == "done"


def test_a_merge_of_a_newer_version_is_said():
    outcome = merged("median", branches(1))
    (problem,) = outcome.problems
    assert problem.kind == "contract"
    assert "merge 'median' does not fit its contract: this worker does collect, first, vote" in problem.text


def test_a_worker_that_dies_in_a_merge_is_a_retry_like_any_other():
    given = branches(3)
    outcome = run_agent(MERGE_AGENT, merge_pack("collect", given), branches=given, crash=("before_give", 1))
    assert outcome.causes == ["first", "retry"]
    assert len(outcome.output["results"]) == 3


def test_without_a_join_there_is_nothing_to_merge():
    outcome = run_agent(MERGE_AGENT, make_pack(MERGER), max_attempts=1)
    assert "this attempt merges nothing" in outcome.problems[0].text
