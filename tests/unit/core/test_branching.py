"""A session fans out and joins: windows, verdicts, what the plan says of what is short or in conflict."""

from typing import Any

import pytest

from passdown.broker.core.branching import due_at
from passdown.broker.core.decide import dues
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict
from passdown.contracts.ids import join_id
from passdown.contracts.plans import FAIL, FanOut, Next
from tests.unit.core.joins import Parent, fan, listed, named, spread
from tests.unit.core.plans import stage
from tests.unit.core.spec import TICK, Expected, like


def many(count: int, **contract: Any) -> Parent:
    """Return a session that fans out over so many items, none of them opened yet."""
    parent = Parent(fan(listed(most=100_000, **contract)))
    parent.submit({"items": list(range(count))})
    return parent


# -- opening --


def test_it_fans_out_once_a_step() -> None:
    parent = Parent(fan()).submit()
    name = join_id(parent.id, 1)
    parent.then(
        "SessionOpened",
        "StageEntered",
        like(ev.FannedOut, join_id=name, branches=3, opening=3, deadline=None),
    )
    parent.stands("waiting-join", owed=None, issued=None)
    parent.do(cmd.Due(kind="retry-at", subject="1/1", due_at=parent.at), TICK)
    parent.nothing()
    parent.look_anyway(name).nothing()
    parent.due("branches").then(like(ev.BranchesOpened, opened=3, opening=3))
    assert [entry.kind for entry in dues(parent.state)] == []


def test_a_stage_that_is_entered_again_fans_out_anew_under_another_join() -> None:
    parent = spread(next=Next(field="go", cases={"on": "tell", "again": "spread"}))
    parent.all_end(["done"] * 3).look().claim().done({"go": "again"})
    parent.then("Returned", "StageEntered", like(ev.FannedOut, join_id=join_id(parent.id, 2)))
    assert [one.join_id for one in parent.state.joins] == [join_id(parent.id, 2)]
    parent.opens().all_end(["done"] * 3).look().claim().done({"go": "on"}).stands("queued", stage="tell")


def test_branches_are_opened_in_windows() -> None:
    parent = many(1_200)
    subject = f"{parent.join.join_id}/open/"
    assert due_at(parent.state) == [("branches", f"{subject}500", parent.at)]
    parent.due("branches").then(like(ev.BranchesOpened, opened=500, opening=1_000))
    assert due_at(parent.state) == [("branches", f"{subject}1000", parent.at)]
    parent.due("branches").then(like(ev.BranchesOpened, opened=1_000, opening=1_200))
    parent.due("branches").then(like(ev.BranchesOpened, opened=1_200, opening=1_200))
    assert due_at(parent.state) == []


def test_what_was_opened_is_recorded_once_whoever_else_did_it() -> None:
    parent = many(1_200)
    entry = next(one for one in dues(parent.state) if one.kind == "branches")
    body = cmd.Due(kind=entry.kind, subject=entry.subject, due_at=entry.at)
    parent.do(body, TICK)
    parent.do(body, TICK)
    parent.nothing()


def test_at_once_opens_no_more_than_may_run() -> None:
    parent = many(5, at_once=2, counts=["done", "failed"])
    parent.opens()
    assert (parent.join.opened, parent.join.opening) == (2, 2)
    parent.look().nothing()
    parent.ends(1).look().then(like(ev.BranchesOpened, opened=2, opening=3))
    parent.due("branches").then(like(ev.BranchesOpened, opened=3, opening=3))
    parent.ends(0, "failed").ends(2, "waiting").look().then(like(ev.BranchesOpened, opened=3, opening=5))
    parent.opens().look().nothing()
    parent.ends(2).ends(3).ends(4).look().then("Joined", "PackIssued")


def test_the_event_that_records_what_is_open_moves_the_window_where_others_ended_meanwhile() -> None:
    """A long list with few at once has one event in the log for each step, and not two."""
    parent = many(100, at_once=2).opens().ends(0).look()
    for place in range(1, 90):
        parent.ends(place)
        parent.due("branches").then(like(ev.BranchesOpened, opened=place + 2, opening=place + 3))
    parent.due("branches").then(like(ev.BranchesOpened, opened=92, opening=92)).look().nothing()
    paused = many(100, at_once=2).opens().ends(0).look().pause()
    assert due_at(paused.state) == []


def test_at_once_many_are_looked_at_after_an_eighth_of_them() -> None:
    parent = many(100, at_once=40).opens()
    for place in range(4):
        parent.ends(place).look().nothing()
    parent.ends(4).look().then(like(ev.BranchesOpened, opened=40, opening=45))


def test_a_window_of_those_that_may_run_at_once_is_bounded_too() -> None:
    parent = many(3_000, at_once=1_100)
    assert parent.join.opening == 500
    parent.due("branches").then(like(ev.BranchesOpened, opened=500, opening=1_000))
    parent.due("branches").then(like(ev.BranchesOpened, opened=1_000, opening=1_100)).opens()
    for place in range(136):
        parent.ends(place).look().nothing()
    parent.ends(136).look().then(like(ev.BranchesOpened, opened=1_100, opening=1_237))


def test_nothing_is_looked_at_before_enough_rows_are_there() -> None:
    parent = spread()
    parent.ends(0).ends(1)
    assert not parent.rows.woken
    parent.look_anyway().nothing()
    parent.ends(2)
    assert parent.rows.woken


# -- enough --

ENOUGH: list[tuple[dict[str, Any], list[str], int]] = [
    ({"need": "all"}, ["done", "done", "done"], 3),
    ({"need": "any"}, ["failed", "done"], 1),
    ({"need": 2}, ["failed", "done", "done"], 2),
    ({"need": "veto"}, ["done", "done", "done"], 3),
    ({"counts": ["done", "refused"]}, ["refused", "done", "refused"], 3),
    ({"counts": ["failed"], "need": "any"}, ["done", "failed"], 1),
    ({"wait_for_people": False, "need": 2}, ["done", "waiting", "done"], 2),
]


@pytest.mark.parametrize(("contract", "outcomes", "counted"), ENOUGH)
def test_enough_closes_it_once_and_its_merge_is_the_next_attempt(
    contract: dict[str, Any], outcomes: list[str], counted: int
) -> None:
    parent = spread(named(**contract)).all_end(outcomes).look()
    parent.then(like(ev.Joined, how="enough", counted=counted, upto=len(outcomes)), "PackIssued")
    parent.stands("queued")
    assert parent.rows.closes == 1
    parent.look_anyway().nothing()
    join = parent.pack.join
    assert join is not None
    assert (join.counted, join.branches, join.digest) == (counted, 3, parent.join.digest)
    assert join.outcomes == {name: outcomes.count(name) for name in outcomes}


@pytest.mark.parametrize(
    ("merge", "role"),
    [
        ("collect", "passdown.merge"),
        ("first", "passdown.merge"),
        ("vote", "passdown.merge"),
        ("reduce:add", "reduce.add"),
        ("editor", "editor"),
    ],
)
def test_who_merges(merge: str, role: str) -> None:
    parent = spread(named(merge=merge)).all_end(["done"] * 3).look()
    assert parent.state.issued
    assert (parent.state.issued.role, parent.pack.role) == (role, role)
    assert parent.pack.join
    assert parent.pack.join.merge == merge
    assert (parent.pack.step, parent.pack.attempt, parent.pack.cause) == (1, 1, "first")


def test_what_is_merged_goes_on_as_the_stages_output() -> None:
    parent = spread().all_end(["done"] * 3).look().claim().done({"sum": 6})
    parent.then("Returned", "StageEntered", "PackIssued").stands("queued", stage="tell", joins=[])
    assert parent.pack.inputs == {"sum": 6}
    assert parent.pack.join is None
    parent.claim().done().stands("done")


@pytest.mark.parametrize("how", ["lost", "rejected", "released"])
def test_a_merge_that_fails_is_a_retry_like_any_other(how: str) -> None:
    parent = spread().all_end(["done"] * 3).look().claim()
    acts = {"lost": parent.lose, "rejected": parent.fail, "released": parent.release}
    acts[how]()
    assert parent.last[-1] == like_pack(parent, "retry")
    assert parent.pack.join
    assert parent.pack.join.digest == parent.join.digest
    parent.claim().done({}).stands("queued", stage="tell")
    assert parent.records[join_id(parent.id, 1)].closes == 1


def like_pack(parent: Parent, cause: str) -> ev.Event:
    last = parent.last[-1]
    assert isinstance(last, ev.PackIssued)
    assert last.cause == cause
    return last


@pytest.mark.parametrize(
    ("on_failed", "events", "status"),
    [
        (None, ["ReturnRejected", "TicketOpened"], "waiting-human"),
        (FAIL, ["ReturnRejected", "Failed"], "failed"),
        ("other", ["ReturnRejected", "StageEntered", "PackIssued"], "queued"),
    ],
)
def test_a_merge_whose_attempts_are_used_up(
    on_failed: str | None, events: list[Expected], status: str
) -> None:
    parent = spread(on_failed=on_failed, max_attempts=1).all_end(["done"] * 3).look().claim().fail()
    parent.then(*events).stands(status)
    if status == "queued":
        return
    parent.retry()
    like_pack(parent, "retry")
    parent.claim().done().stands("queued", stage="tell")


def test_a_merge_that_used_up_its_attempts_fails_the_session_after_its_branches() -> None:
    parent = spread(named(need="any"), on_failed=FAIL, max_attempts=1).ends(0).look().claim().fail()
    parent.then("ReturnRejected", like(ev.Ending, status="failed")).stands("waiting-join", owed=None)
    assert {one.kind for one in dues(parent.state)} == {"branches"}
    parent.opens().ends(1, "cancelled").ends(2, "cancelled").look()
    parent.then("JoinDrained", "Failed").stands("failed")


# -- short --


@pytest.mark.parametrize(
    ("contract", "outcomes", "why"),
    [
        ({}, ["done", "failed"], "3 of 3 branches must count, and 1 can: 1 done, 1 failed"),
        ({"need": "any"}, ["failed", "cancelled", "refused"], "1 of 3"),
        ({"need": 2}, ["failed", "cancelled"], "2 of 3"),
        ({"need": "veto"}, ["failed"], "3 of 3"),
        ({"wait_for_people": False}, ["waiting"], "3 of 3"),
        ({"counts": ["failed"], "need": "any"}, ["done", "done", "done"], "1 of 3"),
    ],
)
def test_short_of_enough_a_person_is_asked(contract: dict[str, Any], outcomes: list[str], why: str) -> None:
    parent = spread(named(**contract)).all_end(outcomes).look()
    parent.then(
        "JoinShort", like(ev.TicketOpened, kind="short", queue="operators", about=parent.join.join_id)
    )
    parent.stands("waiting-human")
    ticket = parent.state.tickets[0]
    assert why in ticket.why
    assert ticket.actions == ["choose", "merge", "complete", "send-back", "redirect", "cancel"]
    parent.look_anyway().nothing()


ON_SHORT: dict[str, tuple[list[Expected], str]] = {
    "other": (["JoinShort", like(ev.Joined, how="left", to="other"), "StageEntered", "PackIssued"], "queued"),
    FAIL: (["JoinShort", like(ev.Joined, how="left", to=FAIL), "Failed"], "failed"),
    "desk": (["JoinShort", like(ev.TicketOpened, queue="desk")], "waiting-human"),
    "merge": (["JoinShort", like(ev.Joined, how="partial", counted=1), "PackIssued"], "queued"),
}


@pytest.mark.parametrize("on_short", ON_SHORT)
def test_what_the_plan_says_of_what_is_short(on_short: str) -> None:
    events, status = ON_SHORT[on_short]
    parent = spread(named(on_short=on_short)).all_end(["done", "failed", "refused"]).look()
    parent.then(*events).stands(status)
    record = parent.records[join_id(parent.id, 1)]
    assert record.closes == (on_short != "desk")
    assert not record.woken


def test_the_stage_that_the_plan_names_is_told_what_became_of_the_join() -> None:
    parent = spread(named(on_short="other", conflict=["x"])).ends(0, output={"x": 1}).ends(1, "failed").look()
    given = parent.pack.inputs["spread"]
    assert given["joinId"] == join_id(parent.id, 1)
    assert given["outcomes"] == {"done": 1, "failed": 1}
    assert "3 of 3 branches must count" in given["why"]
    assert given["disagree"] == []


@pytest.mark.parametrize("on_short", ["other", FAIL])
def test_where_the_plan_goes_on_the_other_branches_are_called_off(on_short: str) -> None:
    parent = spread(named(on_short=on_short)).ends(0, "failed").look()
    assert parent.join.told == 0
    parent.opens().then(like(ev.BranchesTold, what="cancel", upto=3))
    parent.ends(1, "cancelled").ends(2, "cancelled").look()
    drained = like(ev.JoinDrained, outcomes={"failed": 1, "cancelled": 2})
    parent.then(drained, *(["Failed"] if on_short == FAIL else []))


def test_a_join_that_is_left_at_its_very_end_is_closed_in_its_record_too() -> None:
    """All have ended, so that the join is over in the same commit in which it is closed and left."""
    parent = spread(named(on_short="other")).all_end(["failed"] * 3).look()
    assert parent.state.joins == []
    record = parent.records[join_id(parent.id, 1)]
    assert (record.closed_at, record.closes, record.wakes) == (3, 1, [])


def test_a_stage_that_may_be_entered_no_more_is_a_ticket_also_from_a_join() -> None:
    plan = fan(named(on_short="other"))
    plan.stages["other"] = stage(max_entries=0)
    parent = Parent(plan)
    parent.submit()
    parent.opens().all_end(["failed"] * 3).look()
    parent.then("JoinShort", "Joined", like(ev.TicketOpened, kind="failure")).stands("waiting-human")
    # Nothing was merged, so there is nobody to send it back to.
    assert parent.state.tickets[0].actions == ["complete", "redirect", "cancel"]
    parent.refuses(Conflict, cmd.Retry(seen=parent.state.seq), match="were not joined")
    parent.resolve("complete", {"by": "hand"}).then("TicketResolved", "StageEntered", "PackIssued")
    assert parent.pack.inputs["by"] == "hand"


def test_what_is_merged_short_of_enough_must_agree_too() -> None:
    parent = spread(named(on_short="merge", conflict=["x"]))
    parent.ends(0, output={"x": 1}).ends(1, output={"x": 2}).ends(2, "failed").look()
    parent.then("JoinShort", "JoinConflict", like(ev.TicketOpened, kind="conflict"))
    parent = spread(named(on_short="merge", merge="vote")).ends(0, output={"x": 1}).ends(1, output={"x": 2})
    parent.ends(2, "failed").look().then("JoinShort", "JoinConflict", "TicketOpened")
    assert "merge" not in parent.state.tickets[0].actions


# -- the deadline --


def test_at_the_deadline_of_the_join_it_is_short() -> None:
    parent = spread(named(deadline_seconds=60.0)).ends(0)
    assert parent.join.deadline == parent.at + 60_000
    parent.due("join-deadline").then(
        like(ev.JoinShort, why="at the deadline 1 of 3 branches count", outcomes={"done": 1}), "TicketOpened"
    )
    assert not any(one.kind == "join-deadline" for one in dues(parent.state))


@pytest.mark.parametrize("on_short", ON_SHORT)
def test_what_the_plan_says_of_what_is_short_at_the_deadline(on_short: str) -> None:
    events, _ = ON_SHORT[on_short]
    parent = spread(named(on_short=on_short, deadline_seconds=60.0)).ends(0).due("join-deadline")
    # It fails after its branches, and not before.
    parent.then(*["Ending" if one == "Failed" else one for one in events])


def test_at_the_deadline_what_is_enough_is_enough() -> None:
    parent = spread(named(deadline_seconds=60.0)).all_end(["done"] * 3)
    parent.due("join-deadline").then(like(ev.Joined, how="enough"), "PackIssued")


def test_a_deadline_goes_on_while_paused() -> None:
    parent = spread(named(deadline_seconds=60.0, on_short="merge")).ends(0).pause()
    parent.due("join-deadline").then("JoinShort", "Joined").stands("paused")
    parent.resume().then("Resumed", "PackIssued")


# -- conflict --

ON_CONFLICT: dict[str, tuple[list[Expected], str]] = {
    "other": (
        ["JoinConflict", like(ev.Joined, how="left", fields=["x"]), "StageEntered", "PackIssued"],
        "queued",
    ),
    FAIL: (["JoinConflict", like(ev.Joined, how="left"), "Failed"], "failed"),
    "desk": (["JoinConflict", like(ev.TicketOpened, kind="conflict", queue="desk")], "waiting-human"),
}


@pytest.mark.parametrize("on_conflict", ON_CONFLICT)
def test_what_the_plan_says_of_branches_that_disagree(on_conflict: str) -> None:
    events, status = ON_CONFLICT[on_conflict]
    parent = spread(named(conflict=["x"], on_conflict=on_conflict))
    parent.ends(0, output={"x": 1}).ends(1, output={"x": 1}).ends(2, output={"x": 2}).look()
    parent.then(*events).stands(status)


def test_a_conflict_says_who_says_what() -> None:
    parent = spread(named(conflict=["x", "y"]))
    parent.ends(0, output={"x": 1, "y": 0}).ends(1, output={"x": 1, "y": 0}).ends(2, output={"y": 0}).look()
    why = "the branches disagree in x: 1 by a, b, null by c"
    parent.then(like(ev.JoinConflict, fields=["x"], counted=3, why=why), like(ev.TicketOpened, why=why))


def test_branches_that_agree_are_merged() -> None:
    parent = spread(named(conflict=["x"], need=2)).ends(0, output={"x": 1}).ends(2, output={"x": 1}).look()
    parent.then("Joined", "PackIssued")


def test_a_vote_without_a_majority_is_a_conflict_that_no_merge_can_settle() -> None:
    parent = spread(named(merge="vote", vote_on=["x"]))
    for place in range(3):
        parent.ends(place, output={"x": place, "why": "w"})
    parent.look().then(like(ev.JoinConflict, fields=[]), like(ev.TicketOpened, kind="conflict"))
    assert "merge" not in parent.state.tickets[0].actions
    agreed = spread(named(merge="vote", vote_on=["x"]))
    agreed.ends(0, output={"x": 1, "why": "a"}).ends(1, output={"x": 1, "why": "b"}).ends(2, output={"x": 2})
    agreed.look().then("Joined", "PackIssued")


# -- veto --


def test_one_that_refuses_ends_it_at_once_under_a_veto() -> None:
    parent = spread(named(need="veto")).ends(1, "refused").look()
    refused = like(ev.Ending, status="refused", reason="branch b refused")
    parent.then(like(ev.Joined, how="vetoed", why="branch b refused"), refused).stands("waiting-join")
    parent.opens().ends(0, "cancelled").ends(2).look()
    parent.then("JoinDrained", like(ev.Refused, reason="branch b refused")).stands("refused")


def test_a_veto_of_the_last_branch_refuses_in_one_commit() -> None:
    parent = spread(named(need="veto")).all_end(["done", "done", "refused"]).look()
    parent.then("Joined", "Refused").stands("refused")


def test_a_veto_goes_where_the_plan_says() -> None:
    parent = spread(named(need="veto"), on_refused="other").ends(1, "refused").look()
    parent.then("Joined", like(ev.StageEntered, stage="other"), "PackIssued")
    parent.opens().ends(0, "cancelled").ends(2, "cancelled").look().then("JoinDrained")
    parent.stands("queued", joins=[]).claim().done().stands("done")


def test_a_veto_withdraws_what_a_person_was_asked() -> None:
    parent = spread(named(need="veto")).ends(0, "failed").look().ends(1, "refused").look()
    parent.then("TicketWithdrawn", like(ev.Joined, how="vetoed"), "Ending")


def test_without_a_veto_a_refusal_is_one_outcome_of_others() -> None:
    parent = (
        spread(FanOut(branches={"a": "work", "b": "work"}, need="any")).ends(0, "refused").look().nothing()
    )
    parent.ends(1).look().then("Joined", "PackIssued")
