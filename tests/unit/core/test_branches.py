"""A branch: a session of its own that writes its row with its own commits (rule 7)."""

from collections.abc import Callable
from typing import Any

import pytest

from passdown.broker.core.join import ROW_OUTPUT, About, Mark
from passdown.contracts import events as ev
from passdown.contracts.codec import decode, digest, encode
from passdown.contracts.ids import branch_id
from passdown.contracts.plans import FAIL, FanOut, Grant, Next, Plan, Stage
from tests.unit.core.joins import Parent, fan, listed, named, spread
from tests.unit.core.plans import MAIL, stage
from tests.unit.core.spec import like

ROWS = dict[int, tuple[str, str]]


def rows(parent: Parent) -> ROWS:
    """Return what each row says: place → (branch, outcome)."""
    return {place: (row.branch, row.outcome) for place, row in parent.rows.rows.items()}


def branch(
    place: int = 0, contract: FanOut | None = None, *, work: Stage | None = None, **fields: Any
) -> Parent:
    """Return a branch that was opened; its parent is ``of``."""
    plan = fan(contract, **fields)
    if work is not None:
        plan.stages["work"] = work
    parent = Parent(plan, MAIL)
    parent.submit()
    return parent.opens().branch(place)


def of(child: Parent) -> Parent:
    assert child.of
    return child.of


def about(child: Parent) -> About:
    assert child.state.parent
    return of(child).rows.rows[child.state.parent.place].about


# -- opening --


def test_a_branch_is_a_session_of_the_same_plan_that_begins_in_its_stage() -> None:
    child = branch(1)
    parent = of(child)
    child.then("SessionOpened", like(ev.StageEntered, stage="work", step=1), "PackIssued").stands("queued")
    assert child.id == branch_id(parent.join.join_id, 1)
    assert child.state.plan == parent.state.plan
    assert child.pack.parent == child.state.parent
    assert child.state.parent
    assert (child.state.parent.session_id, child.state.parent.branch) == (parent.id, "b")
    assert (child.state.task_id, child.state.task_name) == (parent.state.task_id, parent.state.task_name)
    assert rows(parent) == {}


def test_opening_twice_is_opening_once() -> None:
    child = branch()
    of(child).branch(0).nothing()
    child.claim().done()
    of(child).branch(0).nothing()
    assert rows(of(child)) == {0: ("a", "done")}


def test_a_branch_that_is_called_off_before_it_was_opened_is_opened_as_cancelled() -> None:
    """So whoever is about to open it finds that it has ended."""
    parent = spread(inputs={"order": 1})
    child = parent.branch(0, cancel="not needed")
    child.then("SessionOpened", like(ev.Cancelled, reason="not needed")).stands("cancelled", stage="")
    assert rows(parent) == {0: ("a", "cancelled")}
    assert child.state.data == {}
    parent.branch(0).nothing()
    child.stands("cancelled")
    parent.branch(0, cancel="not needed").nothing()


def test_a_branch_at_work_is_called_off() -> None:
    child = branch()
    of(child).branch(0, cancel="not needed").then("Cancelled").stands("cancelled")
    assert about(child).reason == "not needed"


def test_rule_03_a_branch_that_is_called_off_in_a_write_ends_after_it() -> None:
    child = branch(work=stage(tools=[Grant(tool="mail")])).claim()
    effect = child.run("mail", {"to": "x"})
    of(child).branch(0, cancel="not needed").then("Ending").stands("running")
    of(child).branch(0, cancel="not needed").nothing()
    assert rows(of(child)) == {}
    child.report(effect).then("EffectDone", "Cancelled")
    assert rows(of(child)) == {0: ("a", "cancelled")}
    assert about(child).effects == 1


def test_rule_07_what_does_not_fit_its_stage_is_a_ticket_of_the_branch_alone() -> None:
    parent = Parent(fan(listed()))
    parent.plan.stages["work"] = stage(inputs={"type": "object", "properties": {"item": {"type": "integer"}}})
    parent.submit({"items": [1, "two"]}).opens()
    good, bad = parent.branch(0, item=1), parent.branch(1, item="two")
    good.stands("queued")
    bad.then("SessionOpened", "StageEntered", like(ev.TicketOpened, kind="failure")).stands("waiting-human")
    assert rows(parent) == {1: ("1", "waiting")}
    bad.resolve("complete", {}).stands("done")
    assert rows(parent) == {1: ("1", "done")}


def test_rule_12_an_item_that_leaves_no_room_in_the_pack_is_a_ticket_of_the_branch() -> None:
    item = "x" * 30_000
    parent = Parent(fan(listed(), before=True)).submit({"more": "y" * 40_000}).claim()
    parent.done({"items": [item]}).then("Returned", "StageEntered", "FannedOut")
    assert isinstance(parent, Parent)
    child = parent.opens().branch(0, item=item)
    child.then("SessionOpened", "StageEntered", like(ev.TicketOpened, kind="budget"))
    assert rows(parent) == {0: ("0", "waiting")}


# -- its row --

ENDS: dict[str, tuple[Callable[[Parent], object], str]] = {
    "done": (lambda child: child.claim().done({"x": 1}), "done"),
    "refused": (lambda child: child.claim().refuse("never"), "refused"),
    "failed": (lambda child: child.claim().fail("broken"), "failed"),
    "expired": (lambda child: child.due("deadline"), "failed"),
    "cancelled": (lambda child: child.cancel("not you"), "cancelled"),
}


def ended(how: str, **fields: Any) -> Parent:
    act, _ = ENDS[how]
    child = branch(0, work=stage(max_attempts=1, on_failed=FAIL, deadline_seconds=60.0), **fields)
    act(child)
    return child


@pytest.mark.parametrize("how", ENDS)
def test_rule_07_a_branch_writes_its_row_with_its_last_commit(how: str) -> None:
    child = ended(how)
    assert child.state.over
    assert rows(of(child)) == {0: ("a", ENDS[how][1])}
    assert of(child).rows.version == 1
    seq = of(child).state.seq
    child.at += 1
    of(child).branch(0).nothing()
    assert of(child).state.seq == seq, "the parent's own log is in nobody's way"
    assert of(child).rows.version == 1


@pytest.mark.parametrize(
    ("how", "reason"), [("refused", "never"), ("expired", "expired: "), ("cancelled", "not you")]
)
def test_a_row_says_why_there_is_no_output(how: str, reason: str) -> None:
    said = about(ended(how))
    assert said.reason.startswith(reason)
    assert (said.output, said.digest, said.inline) == (None, "", False)


def test_a_row_holds_a_short_output_and_the_digest_of_a_long_one() -> None:
    short = branch().claim().done({"x": 1})
    assert about(short) == About(digest=digest(encode({"x": 1})), bytes=7, output={"x": 1}, inline=True)
    fits = {"x": "y" * (ROW_OUTPUT - len(encode({"x": ""})))}
    assert about(branch().claim().done(fits)).output == fits
    long = {"x": fits["x"] + "y"}
    said = about(branch().claim().done(long))
    assert (said.output, said.inline, said.bytes) == (None, False, ROW_OUTPUT + 1)
    assert said.digest == digest(encode(long))


def test_a_row_says_what_it_is_judged_by_also_of_a_long_output() -> None:
    contract = named(conflict=["x", "gone"], merge="vote", vote_on=["x"])
    child = branch(0, contract).claim().done({"x": {"b": 1, "a": [2]}, "long": "y" * 5_000})
    assert about(child).agree == {"x": '{"a":[2],"b":1}', "gone": "null"}
    assert about(child).vote == '[{"a":[2],"b":1}]'


def test_rule_12_what_is_judged_is_a_digest_where_it_is_long() -> None:
    contract = named(conflict=["x"], merge="vote")
    child = branch(0, contract).claim().done({"x": "y" * 5_000})
    assert about(child).agree["x"] == f"sha256:{digest(encode('y' * 5_000))}"
    assert about(child).vote.startswith("sha256:")
    other = branch(0, contract).claim().done({"x": "z" * 5_000})
    assert about(other).vote != about(child).vote
    refused = branch(0, contract).claim().refuse("n" * 5_000)
    assert len(encode(about(refused))) < 1_000


def test_a_branch_with_a_person_says_that_it_waits_and_that_it_goes_on() -> None:
    child = branch(work=stage(ask="desk")).claim().ask("why")
    assert rows(of(child)) == {0: ("a", "waiting")}
    child.answer("why", "so").stands("queued")
    assert rows(of(child)) == {0: ("a", "open")}
    child.claim().escalate("help")
    assert rows(of(child)) == {0: ("a", "waiting")}
    child.resolve("complete", {"x": 1}).stands("done")
    assert rows(of(child)) == {0: ("a", "done")}
    assert (of(child).rows.version, of(child).rows.rewrites) == (4, 0)


def test_what_changes_nothing_of_its_row_writes_none() -> None:
    child = branch()
    for act in (
        child.claim,
        lambda: child.checkpoint({}),
        child.release,
        child.claim,
        child.fail,
        child.pause,
    ):
        act()
        assert rows(of(child)) == {}
    child.resume().claim().done()
    assert of(child).rows.version == 1


def test_rule_07_a_branch_that_fails_is_retried_alone() -> None:
    parent = spread()
    first, second = parent.branch(0), parent.branch(1)
    first.claim().checkpoint({"half": 1}).fail().claim()
    second.stands("queued", attempt=1)
    assert second.pack.snapshot is None
    assert (first.pack.attempt, rows(parent)) == (2, {})
    seq = parent.state.seq
    second.claim().done()
    assert parent.state.seq == seq


def test_three_branches_end_and_are_merged() -> None:
    parent = spread(named(merge="vote", vote_on=["x"]))
    for place, x in enumerate([1, 2, 1]):
        parent.look().nothing()
        parent.branch(place).claim().done({"x": x})
    parent.look().then("Joined", "PackIssued").claim().done({"x": 1}).stands("queued", stage="tell")


def test_rule_02_a_row_that_comes_after_the_join_is_late_and_changes_nothing_of_it() -> None:
    parent = spread(named(need="any"))
    late = parent.branch(1).claim()
    parent.branch(0).claim().done({"x": 1})
    parent.look().then("Joined", "PackIssued")
    before = parent.join.digest
    late.done({"x": 2})
    assert rows(parent)[1] == ("b", "done")
    assert parent.rows.rows[1].order > parent.join.upto
    parent.branch(2, cancel="not needed")
    parent.look().then("JoinDrained")
    assert parent.join.digest == before
    assert parent.pack.join
    assert parent.pack.join.counted == 1


# -- sent back to --


@pytest.mark.parametrize("how", ENDS)
def test_a_branch_that_had_ended_is_reopened(how: str) -> None:
    child = ended(how)
    parent = of(child)
    child.tick(1_000).rework(parent.join.join_id, feedback="read it all")
    child.then(like(ev.Reopened, feedback="read it all", deadline=child.at + 60_000), "PackIssued")
    child.stands("queued", outcome=None, failures=0)
    assert rows(parent) == {0: ("a", "open")}
    assert child.pack.cause == "rework"
    assert child.pack.feedback[-1].text == "read it all"
    child.rework(parent.join.join_id).nothing()
    child.claim().done({"x": 2})
    assert rows(parent) == {0: ("a", "done")}
    assert about(child).output == {"x": 2}
    assert parent.rows.rewrites == 1


def test_only_the_join_that_a_branch_belongs_to_sends_back_to_it() -> None:
    child = ended("done")
    child.rework(f"{of(child).id}.j-9").nothing()
    child.stands("done")
    parent = spread(next=Next()).all_end(["done"] * 3).look().claim().done()
    parent.rework("s0-other.j-1").nothing()


def test_a_branch_that_was_never_opened_cannot_be_reopened() -> None:
    parent = spread()
    child = parent.branch(0, cancel="not needed")
    child.rework(parent.join.join_id).nothing()
    child.stands("cancelled")


def test_a_branch_that_ended_with_a_person_is_theirs_again() -> None:
    child = branch(work=Stage(queue="desk"))
    child.then("SessionOpened", "StageEntered", "TicketOpened").stands("waiting-human")
    child.resolve("complete", {"x": 1}).stands("done")
    child.rework(of(child).join.join_id, feedback="look again")
    child.then("Reopened", like(ev.TicketOpened, kind="stage", queue="desk", why="look again"))
    child.stands("waiting-human", owed=None)
    assert rows(of(child)) == {0: ("a", "waiting")}
    child.resolve("complete", {"x": 2})
    assert about(child).output == {"x": 2}


# -- a branch that fans out itself --


def tree(inner: FanOut | None = None, **fields: Any) -> Plan:
    """Return a plan whose branches fan out, and whose branches' branches work."""
    middle = Stage(fan_out=inner or FanOut(branches={"x": "work", "y": "work"}), **fields)
    outer = FanOut(branches={"a": "middle", "b": "middle"})
    return Plan(
        name="tree",
        start="spread",
        stages={
            "spread": Stage(fan_out=outer),
            "middle": middle,
            "deep": Stage(fan_out=FanOut(branches={"l": "work"})),
            "work": stage(),
            "other": stage(),
        },
    )


def test_a_branch_may_fan_out_itself() -> None:
    top = Parent(tree()).submit()
    assert isinstance(top, Parent)
    top.opens()
    for place in range(2):
        middle = top.branch(place)
        middle.then("SessionOpened", "StageEntered", "FannedOut").stands("waiting-join").opens()
        for leaf in range(2):
            middle.branch(leaf).claim().done({"n": leaf}).stands("done")
        assert place not in rows(top)
        middle.look().then("Joined", "PackIssued").claim().done({"sum": place}).stands("done")
    assert rows(top) == {0: ("a", "done"), 1: ("b", "done")}
    top.look().then("Joined", "PackIssued").claim().done({"all": 1}).stands("done")


def nested(inner: FanOut | None = None, **fields: Any) -> tuple[Parent, Parent]:
    top = Parent(tree(inner, **fields))
    top.submit()
    middle = top.opens().branch(0).opens()
    return top, middle


def test_what_is_called_off_is_called_off_down_to_the_leaves() -> None:
    top, middle = nested()
    leaf = middle.branch(0)
    middle.branch(1).claim().done()
    top.cancel().then("Ending").opens()
    top.branch(0, cancel="cancelled").then("Ending").stands("waiting-join").opens()
    assert rows(top) == {}
    middle.branch(0, cancel="cancelled").then("Cancelled")
    assert leaf.state.over
    middle.look().then("JoinDrained", "Cancelled")
    top.branch(1, cancel="cancelled")
    top.look().then("JoinDrained", "Cancelled").stands("cancelled")


def test_a_branch_that_merged_merges_again_when_it_is_sent_back_to() -> None:
    top, middle = nested(FanOut(branches={"x": "work", "y": "work"}, merge="adder"))
    for leaf in range(2):
        middle.branch(leaf).claim().done({"n": leaf})
    middle.look().claim().done({"sum": 1}).stands("done")
    middle.rework(top.join.join_id, feedback="add them up").then(
        "Reopened", like(ev.PackIssued, cause="rework")
    )
    assert middle.pack.join
    assert middle.pack.join.counted == 2
    middle.claim().done({"sum": 3}).stands("done")


@pytest.mark.parametrize("merge", ["collect", "first", "vote", "reduce:add"])
def test_what_would_merge_to_the_same_is_done_anew_with_the_feedback(merge: str) -> None:
    """A built-in merge or a function hears no feedback, so the branches do, down to the last of them."""
    top, middle = nested(FanOut(branches={"x": "deep", "y": "work"}, merge=merge))
    deep = middle.branch(0).opens()
    deep.branch(0).claim().done({"n": 1})
    deep.look().claim().done({"n": 1})
    middle.branch(1).claim().done({"n": 1})
    middle.look().claim().done({"n": 1}).stands("done")
    middle.rework(top.join.join_id, feedback="read page 2 again")
    middle.then(
        like(ev.Reopened, feedback="read page 2 again"),
        like(ev.StageEntered, stage="middle", step=2, feedback="read page 2 again"),
        "FannedOut",
    )
    middle.opens()
    told = [("sent-back", "read page 2 again")]
    for leaf in (middle.branch(1), middle.branch(0).opens().branch(0)):
        assert [(one.kind, one.text) for one in leaf.pack.feedback] == told
    assert rows(top)[0] == ("a", "open")


SHORT: dict[str, dict[str, Any]] = {"fails": {"on_short": FAIL}, "vetoes": {"need": "veto"}}


@pytest.mark.parametrize("how", SHORT)
def test_a_branch_that_merged_nothing_fans_out_anew_when_it_is_sent_back_to(how: str) -> None:
    top, middle = nested(FanOut(branches={"x": "work", "y": "work"}, **SHORT[how]))
    middle.branch(0).claim().refuse()
    middle.look().opens()
    middle.branch(1, cancel="not needed")
    middle.look()
    assert middle.state.over
    middle.rework(top.join.join_id)
    middle.then("Reopened", like(ev.StageEntered, stage="middle", step=2), "FannedOut").opens()
    assert rows(top)[0] == ("a", "open")
    for leaf in range(2):
        middle.branch(leaf).claim().done()
    middle.look().claim().done().stands("done")


def test_a_branch_that_was_called_off_fans_out_anew_when_it_is_sent_back_to() -> None:
    top, middle = nested()
    middle.cancel().opens()
    for leaf in range(2):
        middle.branch(leaf, cancel="cancelled")
    middle.look().then("JoinDrained", "Cancelled")
    middle.rework(top.join.join_id).then("Reopened", "StageEntered", "FannedOut")


def test_a_branch_that_asks_about_its_join_waits_for_a_person() -> None:
    top, middle = nested()
    middle.branch(0).claim().refuse()
    middle.look().then("JoinShort", "TicketOpened")
    assert rows(top) == {0: ("a", "waiting")}
    middle.resolve("complete", {}).then("TicketResolved", "Joined", "Ending").stands("waiting-join")
    assert rows(top) == {0: ("a", "open")}


def test_a_row_is_written_for_the_place_and_the_branch_that_the_parent_named() -> None:
    child = branch(2)
    body = child.claim().body({"x": 1})
    mark = child.decide(body).mark
    assert isinstance(mark, Mark)
    assert mark[:4] == (of(child).join.join_id, 2, "c", "done")
    assert decode(mark.about, About).inline
