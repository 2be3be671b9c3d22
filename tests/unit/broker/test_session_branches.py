"""The branches of a session, as whoever submitted it sees them: what each is called, how it stands, what it waits for."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.agents import Escalate, Refused
from passdown.broker.session import Session
from passdown.contracts.errors import Conflict, ContractError, NotFound
from passdown.contracts.ids import effect_id, identity_digest
from passdown.contracts.plans import FanOut, Next, Plan, Stage
from tests.unit.cli.desk import help_plan
from tests.unit.cli.workshop import Workshop, batch_plan, nested_plan, review_plan

DOCS = [{"name": f"doc-{n}"} for n in range(12)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


def said(session: Session, join: str | None = None) -> dict[str, str]:
    return {row.name: row.status for row in session.branches(join)}


def test_branches_stand_as_their_own_sessions_do_until_they_end(shop: Workshop) -> None:
    session = shop.submit(review_plan())
    assert said(session) == {"ann": "queued", "bob": "queued", "carl": "queued"}
    pack, claim = shop.hold()
    shop.says = {"bob": Escalate("who is this?"), "carl": Refused("not mine")}
    shop.work("reviewer")
    ann, bob, carl = session.branches()
    assert (ann.status, ann.outcome, ann.stage, ann.attempt) == ("running", "", "review", 1)
    assert [one.kind for one in ann.waits] == ["return"]
    assert bob.status == "waiting-human"
    assert [(one.kind, one.ticket) for one in bob.waits] == [("person", f"{bob.session_id}/1")]
    assert (carl.status, carl.outcome, carl.reason, carl.counts, carl.waits) == (
        "refused",
        "refused",
        "not mine",
        False,
        [],
    )
    shop.give(pack, claim, {"verdict": "fine"})
    assert session.branches()[0].counts


def test_what_comes_after_the_join_is_late_and_what_was_never_opened_is_skipped(shop: Workshop) -> None:
    session = shop.submit(batch_plan(need=1, at_once=2, merge="first"), lists={"documents": DOCS})
    assert list(said(session).values()) == ["queued"] * 2 + ["unopened"] * 10
    late, claim = shop.hold()
    prompt, other = shop.hold()
    shop.give(prompt, other, {"verdict": "fine"}, settle=False)
    (join,) = session.joins()
    assert (join.standing, join.closed, join.have) == ("enough", False, 1)
    shop.look(join.join_id)
    # The branch returns before it is called off.
    shop.give(late, claim, {"verdict": "bad"})
    rows = session.branches()
    assert [(one.status, one.outcome, one.counts) for one in rows[:2]] == [
        ("late", "done", False),
        ("done", "done", True),
    ]
    assert {one.status for one in rows[2:]} == {"skipped"}
    (join,) = session.joins()
    assert join.outcomes == {"done": 1, "late": 1, "skipped": 10}


def test_called_off_branches_are_cancelled_and_say_why(shop: Workshop) -> None:
    session = shop.submit(review_plan(need="any"))
    shop.hold()
    shop.says = {"bob": {"verdict": "fine"}, "carl": Escalate("who?")}
    shop.work()
    assert said(session) == {"ann": "cancelled", "bob": "done", "carl": "cancelled"}
    assert session.branches()[0].reason == "its branch is no longer needed"


def test_branches_come_page_by_page(shop: Workshop) -> None:
    session = shop.submit(batch_plan(), lists={"documents": DOCS})
    pages = [session.branches(first=first, limit=5) for first in (0, 5, 10, 15)]
    assert [[row.place for row in page] for page in pages] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11], []]


@pytest.mark.parametrize(("first", "limit"), [(-1, 10), (0, 0), (0, 1001), (0, -3)])
def test_a_page_that_is_none_is_refused(shop: Workshop, first: int, limit: int) -> None:
    session = shop.submit(review_plan())
    with pytest.raises(ContractError, match="expected first from 0 on, limit 1 to 1000"):
        session.branches(first=first, limit=limit)


def test_a_branch_is_found_by_its_name_in_each_kind_of_fan_out(shop: Workshop) -> None:
    named = shop.submit(review_plan(), "named")
    keyed = shop.submit(batch_plan(at_once=3), "keyed", lists={"documents": DOCS})
    placed = shop.submit(batch_plan(key=""), "placed", lists={"documents": DOCS})
    for session, name, place in ((named, "carl", 2), (keyed, "doc-1", 1), (placed, "11", 11)):
        row = session.branches()[place]
        assert (row.name, session.branch(name).id) == (name, row.session_id)
    with pytest.raises(NotFound, match="there is no branch 'doc-7'; it is not opened yet"):
        keyed.branch("doc-7")
    for session, name in ((named, "dora"), (keyed, "7"), (placed, "12"), (placed, "011"), (placed, "")):
        with pytest.raises(NotFound, match="has none of this name"):
            session.branch(name)


def test_a_name_is_known_before_its_branch_is_opened_and_after_the_list_is_gone(shop: Workshop) -> None:
    plan = Plan(
        name="over",
        start="fan",
        stages={
            "fan": Stage(
                fan_out=FanOut(each="documents", stage="review", key="name", item="doc"),
                next=Next(to="again"),
            ),
            "review": batch_plan().stages["review"],
            "again": Stage(role="nobody"),
        },
    )
    session = shop.submit(plan, inputs={"documents": DOCS[:3]})
    shop.otherwise = {"verdict": "fine"}
    shop.work()
    assert session.state().stage == "again"
    assert session.branch("doc-2").state().status == "done"


def test_joins_of_earlier_steps_are_known_also_when_all_is_over(shop: Workshop) -> None:
    fans = {
        name: Stage(fan_out=FanOut(branches={"a": "review", "b": "review"}, need=1), next=Next(to=following))
        for name, following in (("one", "two"), ("two", "end"))
    }
    plan = Plan(name="twice", start="one", stages={**fans, "review": batch_plan().stages["review"]})
    session = shop.submit(plan)
    shop.work()
    assert session.status() == "done"
    joins = session.joins()
    assert [(one.stage, one.step, one.standing, one.drained) for one in joins] == [
        ("one", 1, "enough", True),
        ("two", 2, "enough", True),
    ]
    assert session.branch("a").id == session.branch("a", joins[1].join_id).id
    assert session.branch("a", joins[0].join_id).id != session.branch("a").id
    with pytest.raises(NotFound, match=f"its joins are {joins[0].join_id}, {joins[1].join_id}"):
        session.branches("s0-1.j-1")


def test_the_last_branch_of_an_earlier_join_may_end_in_a_later_step(shop: Workshop) -> None:
    fan = FanOut(branches={"a": "review", "b": "review"}, need=1, merge="first")
    stages = {"fan": Stage(fan_out=fan, next=Next(to="letter")), "letter": Stage(role="writer")}
    session = shop.submit(
        Plan(name="slow", start="fan", stages={**stages, "review": batch_plan().stages["review"]})
    )
    pack, claim = shop.hold()
    args = {"about": "x"}
    effect = effect_id(pack.session_id, 1, "notes.write", args, 1)
    counters = {f"notes.write:{identity_digest(args)}": 1}
    shop.gateway.effect(claim, effect, "notes.write", args, counters, None, [])
    shop.work()
    # What it did outside is not known yet, so it has not ended; nor has the session, whose plan is at its end.
    (join,) = session.joins()
    assert (session.status(), session.state().step, join.drained, join.outcomes) == (
        "waiting-join",
        2,
        False,
        {"done": 1, "open": 1},
    )
    shop.gateway.report(claim, effect, "done", result={"id": "n"})
    shop.settle()
    (join,) = session.joins()
    assert (session.status(), join.drained, join.outcomes) == ("done", True, {"done": 1, "cancelled": 1})


def test_a_session_that_opened_no_branches_says_so(shop: Workshop) -> None:
    session = shop.submit(help_plan())
    assert session.joins() == []
    with pytest.raises(NotFound, match="it opened no branches"):
        session.branches()
    with pytest.raises(NotFound):
        Session(shop.broker, "s0-nope").joins()


def test_branches_of_branches_are_reached_one_after_the_other(shop: Workshop) -> None:
    session = shop.submit(nested_plan())
    deep = session.branch("a").branch("b").branch("a")
    parent = deep.state().parent
    assert parent is not None
    assert parent.session_id == session.branch("a").branch("b").id
    assert deep.status() == "queued"


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({}, "all 3 must be done"),
        ({"need": "any"}, "one of 3 must be done"),
        ({"need": 2}, "2 of 3 must be done"),
        ({"need": "veto"}, "all 3 must be done, and one that refuses ends it"),
        ({"counts": ["done", "refused"]}, "all 3 must be done or refused"),
    ],
)
def test_a_join_says_in_words_what_it_needs(shop: Workshop, more: dict[str, object], rule: str) -> None:
    (join,) = shop.submit(review_plan(**more)).joins()
    assert (join.rule, join.have, join.outcomes, join.standing) == (rule, 0, {"open": 3}, "wait")


class TestRetry:
    def test_a_branch_that_ended_is_sent_back_by_the_ticket_of_its_join(self, shop: Workshop) -> None:
        session = shop.submit(review_plan())
        shop.says = {"bob": RuntimeError("no")}
        shop.work()
        with pytest.raises(Conflict, match="send it back with the ticket of its join"):
            session.branch("bob").retry()
        shop.says = {}
        session.resolve(1, "send-back", {"branches": ["bob"], "feedback": "again"})
        shop.settle()
        assert said(session) == {"ann": "done", "bob": "queued", "carl": "done"}
        shop.work()
        assert session.status() == "done"

    def test_one_whose_join_is_decided_is_not(self, shop: Workshop) -> None:
        session = shop.submit(review_plan(need=2, on_short="fail"))
        shop.says = {"bob": RuntimeError("no")}
        shop.work("reviewer")
        assert session.joins()[0].closed
        before = session.branch("bob").state().seq
        with pytest.raises(Conflict, match=r"its join .*\.j-1 is decided \(submit the work anew\)"):
            session.branch("bob").retry()
        shop.work()
        assert session.state().over
        with pytest.raises(Conflict, match=r"whose branch it is, has ended \(submit the work anew\)"):
            session.branch("bob").retry()
        assert session.branch("bob").state().seq == before
