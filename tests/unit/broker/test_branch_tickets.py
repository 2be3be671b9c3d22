"""Tickets of branches are listed under the sessions that they belong to, and say which branch they are of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.agents import Escalate
from passdown.broker.client import Session
from passdown.broker.joins import tickets
from passdown.broker.joins.tickets import open_tickets
from tests.unit.cli.workshop import Workshop, batch_plan, nested_plan, review_plan

DOCS = [{"name": f"doc-{n}"} for n in range(12)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


def counted(shop: Workshop, session: Session, limit: int = 50) -> tuple[int, int]:
    found, more = open_tickets(shop.broker.app.controller, session_id=session.id, limit=limit)
    return len(found), more


def test_a_branch_s_ticket_is_the_session_s_too(shop: Workshop) -> None:
    session = shop.submit(review_plan())
    other = shop.submit(review_plan(), key="other")
    shop.says = {"bob": Escalate("who is this?")}
    shop.work("reviewer")
    bob = session.branch("bob")
    (of_bob,) = shop.broker.tickets(session_id=session.id)
    assert (of_bob.session_id, of_bob.ticket_no, of_bob.why) == (bob.id, 1, "who is this?")
    assert (of_bob.branch, of_bob.parent, of_bob.root) == (["bob"], session.id, session.id)
    assert shop.broker.tickets(session_id=bob.id) == [of_bob]
    every = shop.broker.tickets()
    assert of_bob in every
    assert [(one.branch, one.root) for one in every if one != of_bob] == [(["bob"], other.id)]
    shop.broker.session(bob.id).resolve(1, "cancel")
    shop.settle()
    own, *rest = shop.broker.tickets(session_id=session.id)
    assert (own.kind, own.branch, own.parent, own.root, rest) == ("short", [], "", "", [])


def test_at_any_depth_with_the_path_of_names(shop: Workshop) -> None:
    session = shop.submit(nested_plan())
    shop.says = {"b": Escalate("who?")}
    shop.work("reviewer")
    found = shop.broker.tickets(session_id=session.id)
    assert sorted(one.branch for one in found) == [[x, y, "b"] for x in "ab" for y in "ab"]
    assert {one.root for one in found} == {session.id}
    inner = session.branch("a").branch("b")
    (one,) = shop.broker.tickets(session_id=inner.id)
    assert one == next(of for of in found if of.branch == ["a", "b", "b"])
    assert one.parent == inner.id
    assert {tuple(of.branch) for of in shop.broker.tickets()} == {tuple(of.branch) for of in found}


def test_they_are_the_oldest_first_and_of_the_queue_that_is_asked_for(shop: Workshop) -> None:
    session = shop.submit(batch_plan(), lists={"documents": DOCS})
    shop.says = {"doc-3": Escalate("who?"), "doc-7": Escalate("who?")}
    shop.work("reviewer")
    assert [one.branch for one in shop.broker.tickets(session_id=session.id)] == [["doc-3"], ["doc-7"]]
    session.branch("doc-3").resolve(1, "send-back", "look again")
    shop.work("reviewer")
    for queue in (None, "operators"):
        found = shop.broker.tickets(session_id=session.id, queue=queue)
        assert [(one.branch, one.ticket_no) for one in found] == [(["doc-7"], 1), (["doc-3"], 2)]
    assert shop.broker.tickets(session_id=session.id, queue="nobody") == []


def test_branches_beyond_the_limit_are_counted(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shop.submit(batch_plan(), lists={"documents": DOCS})
    shop.otherwise = Escalate("who?")
    shop.work("reviewer")
    assert counted(shop, session) == (12, 0)
    assert counted(shop, session, limit=5) == (5, 7)
    monkeypatch.setattr(tickets, "MOST_LOOKED_AT", 4)
    assert counted(shop, session) == (4, 8)


def test_of_branches_with_branches_those_that_were_not_looked_at_are_counted(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = shop.submit(nested_plan())
    shop.otherwise = Escalate("who?")
    shop.work("reviewer")
    assert counted(shop, session) == (8, 0)
    monkeypatch.setattr(tickets, "MOST_LOOKED_AT", 5)
    # Seen are both of the first level and three of the second; what is below the fourth is not even known.
    assert counted(shop, session) == (0, 1 + 3 * 2)
