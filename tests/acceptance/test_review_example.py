"""The review of `examples/review`, as its README tells it, on its own conversations and on recorded runs of others."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.client import Session
from tests.acceptance.demos import airline
from tests.acceptance.examples import Example, tickets_in


@pytest.fixture
def review(tmp_path: Path) -> Iterator[Example]:
    """The example, up."""
    example = Example("review", tmp_path)
    with example.up():
        yield example


def test_the_plan_is_sound(tmp_path: Path) -> None:
    example = Example("review", tmp_path)
    example.fine(example.line("passdown plan check"))


def _open_branches(session: Session) -> list[str]:
    return [one.name for one in session.branches() if one.outcome != "done"]


def test_three_reviewers_vote_and_a_person_decides_where_they_cannot(review: Example) -> None:
    review.fine(review.line("passdown submit"))
    with review.session("batch-1") as session:
        review.wait(lambda: _open_branches(session) == ["call-09"], "all but one branch are done")
        review.wait(lambda: bool(tickets_in(review.fine("passdown tickets"))), "a person is asked")
        assert "call-09" in review.fine(review.line("passdown show batch-1"))
        (ticket,) = tickets_in(review.fine(review.line("passdown tickets")))
        side_by_side = review.fine(review.line("passdown show TICKET").replace("TICKET", ticket))
        for word in ("consent", "customer", "outcome", "good", "bad", "unclear", "the last message"):
            assert word in side_by_side
        review.fine(review.line("passdown resolve TICKET").replace("TICKET", ticket))
        assert session.result(60).output == {
            "report": "2 bad, 5 good, 2 unclear; to look at: call-02, call-05"
        }
    for line in ("passdown status", "passdown log batch-1", "passdown log --tree"):
        assert "batch-1" in review.fine(review.line(line))
    review.fine("passdown replay --all")


def test_one_reviewer_is_asked_again_and_the_others_are_not(review: Example) -> None:
    review.fine(review.line("passdown submit"))
    review.wait(lambda: bool(tickets_in(review.fine("passdown tickets"))), "a person is asked")
    (ticket,) = tickets_in(review.fine("passdown tickets"))
    panel, _, _ = ticket.partition("/")
    review.fine(f"passdown resolve {ticket} send-back --branch customer --note 'look again' --as user:ann")
    with review.session("batch-1") as session:
        reviewed = session.branch("call-09")
        # The reviewer is a rule, and says the same again: a person is asked anew, by another ticket.
        review.wait(
            lambda: tickets_in(review.fine("passdown tickets")) == [f"{panel}/2"], "a person is asked anew"
        )
        issued = {
            one.name: _names(reviewed.branch(one.name)).count("PackIssued") for one in reviewed.branches()
        }
        assert issued == {"consent": 1, "customer": 2, "outcome": 1}
        assert "Reopened" in _names(reviewed.branch("customer"))
        assert review.run(f"passdown resolve {panel}/2 choose nobody --as user:ann").returncode == 2
        review.fine(f"passdown resolve {panel}/2 choose outcome --as user:ann")
        assert session.result(60).result == "done"


def _names(session: Session) -> list[str]:
    return [type(one.event).__name__ for one in session.events()]


@pytest.fixture
def runs() -> Path:
    """The recorded runs of others."""
    return airline()


def _verdicts(run: Any) -> Counter[str]:
    """Return what the three say of a recorded run, reckoned here once more."""
    agreed = wrote = handed_on = False
    consent = ""
    last: dict[str, bool] = {}
    words = [""]
    chat: list[Any] = run["traj"]
    results: dict[str, str] = {one["tool_call_id"]: one["content"] for one in chat if one["role"] == "tool"}
    for message in chat:
        if message["role"] == "user":
            text: str = message["content"].replace("###STOP###", "").strip()[:400].lower()
            words += [text] if text else []
            agreed = any(word in text for word in ("yes", "confirm", "go ahead", "proceed", "please do"))
        calls: list[Any] = message.get("tool_calls") or []
        for made in calls:
            name: str = made["function"]["name"]
            handed_on = handed_on or name.startswith("transfer_to_human")
            if name.startswith(("book_", "cancel_", "update_", "send_")):
                wrote = True
                consent = consent or ("" if agreed else "bad")
                last[name] = not results.get(made["id"], "Error").startswith("Error")
    unhappy = any(word in words[-1] for word in ("not", "never", "unfortunately", "why"))
    content = "thank" in words[-1] or "appreciate" in words[-1]
    return Counter(
        [
            consent or ("good" if wrote else "unclear"),
            "bad" if not all(last.values()) else "unclear" if handed_on else "good",
            "good" if content else "bad" if unhappy else "unclear",
        ]
    )


def test_a_hundred_recorded_runs(review: Example, runs: Path) -> None:
    """Each verdict is what the votes come to; each tie is one ticket; nobody is asked about the others."""
    expected = [_verdicts(one) for one in json.loads(runs.read_text())]
    ties = sum(len(one) == 3 for one in expected)
    clear = Counter(one.most_common(1)[0][0] for one in expected if len(one) < 3)
    line = review.line("A hundred recorded runs").partition("`")[2].partition("`")[0]
    review.fine(line.replace("runs.json", str(runs)))
    with review.session("runs") as session:
        review.wait(lambda: _settled(session) == 100 - ties, "all but the ties are decided", 180)
        open_tickets = tickets_in(review.fine("passdown tickets --limit 200"))
        assert len(open_tickets) == ties
        for ticket in open_tickets:
            review.fine(f"passdown resolve {ticket} choose outcome --as user:ann")
        output = session.result(120).output
    assert output is not None
    told = [one.split() for one in output["report"].partition(";")[0].split(", ")]
    report = Counter({name: int(count) for count, name in told})
    assert report.total() == 100
    assert all(report[name] >= count for name, count in clear.items())


def _settled(session: Session) -> int:
    return sum(one.outcome == "done" for one in session.branches(limit=1000))
