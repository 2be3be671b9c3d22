"""What a person may do about a join that is short or in conflict, and joins of a session that is paused or called off."""

from typing import Any

import pytest

from passdown.broker.core.branching import due_at
from passdown.broker.core.decide import dues
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict, ContractError, Denied, Fenced
from passdown.contracts.ids import join_id
from passdown.contracts.join_events import LateEffect
from passdown.contracts.plans import FAIL, Level, Next
from tests.unit.core.joins import Parent, asked, listed, named, spread
from tests.unit.core.spec import ANN, BOB, Expected, like

KINDS = ["conflict", "short"]


def back(*branches: str, feedback: str = "read it all") -> dict[str, Any]:
    return {"branches": list(branches), "feedback": feedback}


# -- choose and merge --


@pytest.mark.parametrize("kind", KINDS)
def test_rule_08_a_person_chooses_a_branch_and_its_output_alone_is_merged(kind: str) -> None:
    parent = asked(kind).resolve("choose", "c")
    parent.then(
        like(ev.TicketResolved, resolution="choose", value="c"),
        like(ev.Joined, how="chosen", branch="c", counted=1, upto=3),
        "PackIssued",
    )
    assert parent.pack.join
    assert (parent.pack.join.branch, parent.pack.join.how, parent.pack.join.counted) == ("c", "chosen", 1)
    assert parent.rows.closes == 1
    parent.claim().done({"x": 2}).stands("queued", stage="tell")


@pytest.mark.parametrize("value", ["nobody", "", 7, None, {}, ["a"]])
def test_rule_11_only_a_branch_that_there_is_can_be_chosen(value: Any) -> None:
    parent = asked("conflict")
    parent.refuses(ContractError, parent.resolution("choose", value), BOB)
    assert parent.rows.closes == 0


def test_a_branch_without_an_output_cannot_be_chosen() -> None:
    parent = asked("short")
    parent.refuses(ContractError, parent.resolution("choose", "b"), BOB, match="it is failed")


def test_a_branch_that_has_not_ended_cannot_be_chosen() -> None:
    parent = spread().ends(0, "failed").look()
    parent.refuses(ContractError, parent.resolution("choose", "b"), BOB, match="no branch that has ended")
    parent.ends(1, "waiting").refuses(ContractError, parent.resolution("choose", "b"), BOB)


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_merges_what_is_there(kind: str) -> None:
    parent = asked(kind).resolve("merge")
    counted = 3 if kind == "conflict" else 2
    parent.then("TicketResolved", like(ev.Joined, how="partial", counted=counted), "PackIssued")


@pytest.mark.parametrize("merge", ["first", "vote"])
def test_rule_11_a_merge_that_could_not_come_to_anything_is_refused(merge: str) -> None:
    parent = spread(named(merge=merge)).all_end(["failed"] * 3).look()
    assert parent.state.tickets[0].kind == "short"
    parent.refuses(ContractError, parent.resolution("merge"), BOB)


def test_rule_11_a_vote_that_has_become_split_is_not_merged() -> None:
    parent = spread(named(merge="vote")).ends(0, "failed").look()
    parent.ends(1, output={"x": 1}).ends(2, output={"x": 2})
    parent.refuses(ContractError, parent.resolution("merge"), BOB, match="no vote has a majority")
    parent.resolve("choose", "c").then("TicketResolved", "Joined", "PackIssued")


# -- another way --


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_gives_the_output_by_hand(kind: str) -> None:
    parent = asked(kind).resolve("complete", {"sum": 9})
    parent.then("TicketResolved", like(ev.Joined, how="left", to=""), "StageEntered", "PackIssued")
    assert parent.pack.inputs == {"sum": 9}
    assert parent.records[join_id(parent.id, 1)].closes == 1


def test_an_output_by_hand_at_the_end_of_the_plan_waits_for_the_other_branches() -> None:
    parent = spread(next=Next()).ends(0, "failed").look().resolve("complete", {"sum": 9})
    parent.then("TicketResolved", "Joined", like(ev.Ending, status="done")).stands("waiting-join").opens()
    parent.ends(1).ends(2, "cancelled").look().then("JoinDrained", "Completed").stands("done")
    assert parent.state.outcome
    assert parent.state.outcome.output == {"sum": 9}


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_goes_on_with_another_stage(kind: str) -> None:
    parent = asked(kind).resolve("redirect", "tell")
    parent.then(
        "TicketResolved", like(ev.Joined, how="left"), like(ev.StageEntered, stage="tell"), "PackIssued"
    )


def test_a_person_may_fan_out_anew() -> None:
    parent = spread().ends(0, "failed").look().resolve("redirect", "spread")
    parent.then("TicketResolved", "Joined", "StageEntered")
    # Of two joins only one changes in one commit; the next one is entered at once.
    parent.due("retry-at").then(like(ev.FannedOut, join_id=join_id(parent.id, 2)))
    first, second = parent.state.joins
    assert (first.told, second.opening) == (0, 3)
    while any(kind == "branches" for kind, _, _ in due_at(parent.state)):
        parent.due("branches")
    parent.all_end(["done"] * 3).look().then("Joined", "PackIssued")
    assert len(parent.records) == 2


def test_rule_08_a_redirect_leads_only_where_the_plan_allows() -> None:
    parent = asked("short")
    parent.refuses(Denied, parent.resolution("redirect", "other"), BOB)
    unlike = asked("short", contract=named(on_conflict="other"))
    unlike.resolve("redirect", "other").then("TicketResolved", "Joined", "StageEntered", "PackIssued")


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_calls_it_off(kind: str) -> None:
    parent = asked(kind).resolve("cancel")
    parent.then("TicketResolved", like(ev.Ending, status="cancelled")).opens()
    parent.look().then("JoinDrained", "Cancelled").stands("cancelled")


def test_the_ticket_goes_to_the_queue_that_the_plan_names_or_the_first_of_its_path() -> None:
    assert asked("short").state.tickets[0].queue == "operators"
    assert asked("short", escalation=[Level(queue="leads")]).state.tickets[0].queue == "leads"
    contract = named(on_short="desk")
    assert (
        asked("short", contract=contract, escalation=[Level(queue="leads")]).state.tickets[0].queue == "desk"
    )


def test_who_is_second_learns_who_was_first() -> None:
    parent = asked("conflict").resolve("choose", "a")
    again = cmd.Resolve(ticket_no=1, resolution="choose", value="b")
    assert "choose" in str(parent.refuses(Conflict, again, ANN))


# -- send back --


@pytest.mark.parametrize("kind", KINDS)
def test_a_person_sends_back_to_branches_and_they_are_joined_again(kind: str) -> None:
    parent = asked(kind).resolve("send-back", back("b"))
    parent.then(like(ev.TicketResolved, value=back("b"))).stands("waiting-join")
    told = parent.join.sent_back
    assert told
    assert (told.ticket_no, told.branches, told.feedback, told.by) == (1, ["b"], "read it all", BOB)
    assert parent.rows.wakes == []
    parent.look_anyway().nothing()
    parent.ends(1, "open")
    parent.due("branches").then(like(ev.BranchesTold, what="rework")).look().nothing()
    parent.ends(1, output={"x": 2}).ends(0, "open").ends(0, output={"x": 2})
    parent.look().then(like(ev.Joined, how="enough", counted=3), "PackIssued")
    assert parent.rows.rewrites == 2


def test_what_is_still_short_after_it_is_asked_anew() -> None:
    parent = asked("short").resolve("send-back", back("b")).ends(1, "open").opens().look().nothing()
    parent.ends(1, "failed").look().then("JoinShort", like(ev.TicketOpened, ticket_no=2))
    # Where nobody was reopened nothing has changed, and the person is asked again at once.
    parent.resolve("send-back", back("b")).opens().look()
    parent.then("JoinShort", like(ev.TicketOpened, ticket_no=3))


def test_what_comes_before_it_is_sent_waits_until_it_is_sent() -> None:
    parent = asked("short").resolve("send-back", back("b")).ends(1, "open").ends(1)
    parent.look_anyway().nothing()
    parent.opens().look().then("Joined", "PackIssued")


def test_what_a_person_is_asked_is_asked_once() -> None:
    for kind in KINDS:
        parent = asked(kind)
        parent.look_anyway().nothing()
        parent.stands("waiting-human", tickets_opened=1)


def test_the_note_is_the_feedback_where_the_value_has_none() -> None:
    parent = asked("conflict").resolve("send-back", {"branches": ["a", "b"]}, note="look again")
    assert parent.join.sent_back
    assert parent.join.sent_back.feedback == "look again"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (back("nobody"), "no branch that has ended has the name 'nobody'"),
        (back("a", "a"), "names each branch once"),
        (back("a", feedback=""), "what to do better"),
        (back(), "branches"),
        ({"feedback": "again"}, "branches"),
        ("a", "branches"),
        (None, "branches"),
        ({"branches": "a", "feedback": "f"}, "branches"),
        ({"branches": ["a", 7], "feedback": "f"}, "branches"),
        ({"branches": ["a"], "feedback": "f", "more": 1}, "more"),
        (back(*[f"b{n}" for n in range(101)]), "branches"),
    ],
)
def test_rule_11_send_back_names_branches_that_ended_and_what_to_do_better(value: Any, said: str) -> None:
    parent = asked("conflict")
    parent.refuses(ContractError, parent.resolution("send-back", value), BOB, match=said)


def test_a_branch_at_work_is_not_sent_back_to() -> None:
    parent = spread().ends(0, "failed").look()
    parent.refuses(ContractError, parent.resolution("send-back", back("b")), BOB, match="has ended")


def test_the_deadline_begins_anew_for_what_is_sent_back() -> None:
    """A person may take longer than the join: what they send back is not short at once for that."""
    contract = named(deadline_seconds=60.0, on_short=FAIL, conflict=["x"])
    parent = asked("conflict", contract=contract).tick(100_000).resolve("send-back", back("a"))
    assert [one.kind for one in dues(parent.state)] == ["branches"]
    parent.ends(0, "open").due("branches").stands("waiting-join")
    assert parent.join.deadline == parent.at + 60_000
    parent.due("join-deadline").then("JoinShort", like(ev.Joined, how="left", to=FAIL), "Ending")


# -- it mends itself --


def test_late_enough_withdraws_the_ticket() -> None:
    parent = spread(named(need=2, wait_for_people=False)).ends(0, "failed").ends(1, "waiting").ends(2).look()
    parent.then("JoinShort", "TicketOpened")
    parent.ends(1, "open").ends(1).look()
    parent.then("TicketWithdrawn", like(ev.Joined, how="enough"), "PackIssued").stands("queued", tickets=[])


def test_enough_that_disagree_ask_about_that_instead() -> None:
    parent = spread(named(deadline_seconds=60.0, conflict=["x"])).due("join-deadline")
    for place in range(3):
        parent.ends(place, output={"x": place})
    parent.look().then("TicketWithdrawn", "JoinConflict", like(ev.TicketOpened, kind="conflict", ticket_no=2))
    parent.resolve("choose", "a").then("TicketResolved", "Joined", "PackIssued")


def test_the_last_vote_may_decide_what_was_split() -> None:
    parent = spread(named(merge="vote", need=2)).ends(0, output={"x": 1}).ends(1, output={"x": 2}).look()
    parent.then("JoinConflict", "TicketOpened")
    parent.ends(2, output={"x": 2}).look().then("TicketWithdrawn", "Joined", "PackIssued")


# -- paused --


def test_a_pause_opens_nothing_more_and_its_end_does() -> None:
    parent = spread(listed(at_once=1), {"items": [1, 2]}).pause()
    parent.ends(0).look().nothing()
    assert due_at(parent.state) == []
    parent.resume().then("Resumed")
    parent.look().then(like(ev.BranchesOpened, opening=2))


def test_a_pause_before_they_are_opened_leaves_them_until_it_ends() -> None:
    parent = spread(listed(at_once=1), {"items": [1, 2]}).ends(0).look()
    parent.pause()
    assert due_at(parent.state) == []
    parent.resume().due("branches").then(like(ev.BranchesOpened, opened=2, opening=2))


def test_what_is_joined_while_paused_is_merged_after_it() -> None:
    parent = spread().pause().all_end(["done"] * 3).look()
    parent.then("Joined").stands("paused", issued=None)
    parent.resume().then("Resumed", "PackIssued").claim().done().stands("queued", stage="tell")


def test_a_merge_in_the_queue_is_withdrawn_and_issued_anew() -> None:
    parent = spread().all_end(["done"] * 3).look().pause()
    parent.stands("paused", issued=None).resume().then("Resumed", like(ev.PackIssued, cause="resume"))


def test_surplus_branches_are_called_off_also_while_paused() -> None:
    parent = spread(named(need="any")).ends(0).look().pause()
    parent.due("branches").then("BranchesTold")
    parent.ends(1, "cancelled").ends(2, "cancelled").look().then("JoinDrained").stands("paused")


def test_a_ticket_of_a_join_is_decided_while_paused() -> None:
    parent = asked("conflict").pause().resolve("choose", "a").then("TicketResolved", "Joined")
    parent.resume().then("Resumed", "PackIssued")


# -- surplus branches, and a session that ends --


def test_branches_are_called_off_in_windows() -> None:
    parent = spread(listed(most=2_000, need="any"), {"items": list(range(1_200))})
    parent.ends(7).look().then("Joined", "PackIssued")
    for upto in (500, 1_000, 1_200):
        parent.due("branches").then(like(ev.BranchesTold, what="cancel", upto=upto))
    assert due_at(parent.state) == []


def test_what_was_never_opened_is_not_called_off() -> None:
    parent = spread(listed(need="any", at_once=2), {"items": [1, 2, 3, 4]}).ends(0).look()
    parent.opens().then(like(ev.BranchesTold, upto=2))
    parent.ends(1, "cancelled").look().then(like(ev.JoinDrained, outcomes={"done": 1, "cancelled": 1}))


def test_a_session_is_done_after_its_last_branch() -> None:
    parent = spread(named(need="any"), next=Next()).ends(0).look().claim().done({"sum": 1})
    parent.then("Returned", like(ev.Ending, status="done")).stands("waiting-join", owed=None)
    parent.opens().ends(1, "cancelled").look().nothing()
    parent.ends(2).look().then("JoinDrained", "Completed").stands("done")
    assert parent.state.outcome
    assert parent.state.outcome.output == {"sum": 1}


def test_a_later_stage_goes_on_while_the_last_branches_end() -> None:
    parent = spread(named(need="any")).ends(0).look().opens().claim().done().claim()
    parent.stands("running", stage="tell").ends(1, "cancelled").ends(2, "cancelled").look()
    parent.then("JoinDrained").stands("running", joins=[]).done().then("Returned", "Completed")


def test_effects_of_branches_that_do_not_count_are_told() -> None:
    parent = spread(named(need="any")).ends(0).look().opens()
    parent.rows.effects = {"a": [("e-1", "mail")], "b": [("e-2", "mail"), ("e-3", "refund")]}
    parent.ends(1).ends(2, "cancelled").look()
    told = [LateEffect(branch="b", effect_id=one, tool=tool) for one, tool in parent.rows.effects["b"]]
    parent.then(like(ev.JoinDrained, effects=told, more=0, outcomes={"done": 2, "cancelled": 1}))


def test_effects_beside_those_that_count_are_told_also_where_all_have_ended_by_then() -> None:
    parent = spread(named(need=2, counts=["done"])).ends(0, effects=1).ends(1, "failed", effects=2).ends(2)
    parent.rows.effects = {"a": [("e-1", "mail")], "b": [("e-2", "mail"), ("e-3", "mail")]}
    parent.look().then(like(ev.Joined, drained=False), "PackIssued")
    parent.look().then("JoinDrained")
    last = parent.last[0]
    assert isinstance(last, ev.JoinDrained)
    assert [one.effect_id for one in last.effects] == ["e-2", "e-3"]
    counted = spread(named(need=2, counts=["done"])).ends(0, effects=1).ends(1, effects=1).ends(2, "failed")
    counted.look().then(like(ev.Joined, drained=True), "PackIssued").look().nothing()


def test_effects_of_all_but_the_chosen_branch_are_told() -> None:
    parent = spread(named(conflict=["x"]))
    for place in range(3):
        parent.ends(place, output={"x": place}, effects=1)
    parent.rows.effects = {name: [(f"e-{name}", "mail")] for name in "abc"}
    parent.look().resolve("choose", "b").then("TicketResolved", like(ev.Joined, drained=False), "PackIssued")
    parent.look().then("JoinDrained")
    last = parent.last[0]
    assert isinstance(last, ev.JoinDrained)
    assert [one.branch for one in last.effects] == ["a", "c"]


WAYS: dict[str, str] = {"cancel": "cancelled", "deadline": "expired"}


def ended_by(parent: Parent, way: str) -> Parent:
    if way == "cancel":
        parent.cancel("enough")
    else:
        parent.due("deadline")
    return parent


PLACES: dict[str, list[str]] = {
    "opening": [],
    "at work": [],
    "some ended": ["done", "failed"],
    "one waits": ["waiting"],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_a_session_that_is_called_off_ends_after_its_branches(way: str, place: str) -> None:
    parent = spread(named(need="any", counts=["cancelled"]), deadline_seconds=60.0).all_end(PLACES[place])
    ended_by(parent, way).then(like(ev.Ending, status=WAYS[way])).stands("waiting-join")
    assert [one.kind for one in dues(parent.state)] == ["branches"]
    parent.due("branches").then(like(ev.BranchesTold, what="cancel", upto=3))
    for each in range(3):
        if parent.rows.rows.get(each) is None or parent.rows.rows[each].outcome == "waiting":
            parent.look().nothing()
            parent.ends(each, "cancelled")
    # Nothing was joined, so the record stays open, and what comes is not late.
    parent.look().then("JoinDrained", "Cancelled" if way == "cancel" else "Expired").stands(WAYS[way])
    assert parent.rows.closed_at is None


def test_when_all_have_ended_by_then_it_still_hears_of_it_by_its_record() -> None:
    parent = spread(named(counts=["done", "failed"], need=3)).ends(0).ends(1).cancel().ends(2)
    parent.look().then("JoinDrained", "Cancelled")


@pytest.mark.parametrize("way", WAYS)
def test_a_merge_in_the_queue_is_withdrawn_when_the_session_is_called_off(way: str) -> None:
    parent = spread(named(need="any"), deadline_seconds=60.0).ends(0).look()
    ended_by(parent, way).then("Ending").stands("waiting-join", issued=None)
    parent.opens().ends(1, "cancelled").ends(2, "cancelled").look()
    parent.then("JoinDrained", "Cancelled" if way == "cancel" else "Expired")


def test_a_merge_that_runs_is_told_and_its_return_is_fenced() -> None:
    parent = spread(named(need="any")).ends(0).look().claim().cancel()
    parent.then("Ending").stands("running")
    parent.refused_and_recorded(Fenced, parent.body({}))
    parent.then("ReturnFenced").lose().then("LeaseLost").stands("waiting-join", issued=None)
    parent.opens().ends(1, "cancelled").ends(2).look().then("JoinDrained", "Cancelled")


def test_a_merge_that_runs_does_not_hold_up_the_end() -> None:
    parent = spread(named(need="any")).ends(0).look().claim().cancel().opens()
    parent.ends(1, "cancelled").ends(2).look().then("JoinDrained", "Cancelled").stands(
        "cancelled", claim=None
    )


def test_a_merge_that_asks_is_called_off_with_its_questions() -> None:
    parent = spread(named(need="any"), ask="desk").ends(0).look().claim().ask("why")
    parent.stands("waiting-input").cancel().then("TicketWithdrawn", "Ending").stands(
        "waiting-join", questions=[]
    )
    parent.opens().ends(1, "cancelled").ends(2, "cancelled").look().then("JoinDrained", "Cancelled")


def test_what_is_being_sent_back_is_sent_before_all_is_called_off() -> None:
    parent = asked("conflict").resolve("send-back", back("a")).cancel().then("Ending")
    parent.due("branches").then(like(ev.BranchesTold, what="rework"))
    parent.ends(0, "open").due("branches").then(like(ev.BranchesTold, what="cancel"))
    parent.look().nothing()
    parent.ends(0, "cancelled").look().then("JoinDrained", "Cancelled")


@pytest.mark.parametrize("kind", KINDS)
def test_the_ticket_of_a_join_is_withdrawn_when_the_session_is_called_off(kind: str) -> None:
    parent = asked(kind).cancel().then("TicketWithdrawn", "Ending")
    expected: list[Expected] = ["JoinDrained", "Cancelled"]
    parent.look().then(*expected)
