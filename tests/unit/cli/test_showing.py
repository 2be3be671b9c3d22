"""`show`: the tree of a session, to any depth, bounded in width; and what to type about a ticket."""

import json
import re
from typing import Any

import pytest

from passdown.agents import Escalate, Refused
from passdown.broker.joins import tree
from passdown.contracts.codec import encode
from tests.unit.cli.conftest import Cli
from tests.unit.cli.terminal import on_terminal
from tests.unit.cli.workshop import Workshop, batch_plan, nested_plan, review_plan

DOCS = [{"name": f"doc-{n}"} for n in range(40)]


def drawn(cli: Cli, *args: str) -> list[str]:
    said = cli("show", *args)
    assert (said.code, said.err) == (0, "")
    return said.out.splitlines()


def test_a_tree_shows_what_each_join_needs_and_what_each_branch_waits_for(
    in_workshop: Cli, workshop: Workshop
) -> None:
    session = workshop.submit(review_plan(deadline_seconds=600.0))
    workshop.hold()
    workshop.says = {"bob": Escalate("who is this?"), "carl": Refused("not mine")}
    workshop.work("reviewer")
    ann, bob, carl = (row.session_id for row in session.branches())
    title, root, fan, *branches = drawn(in_workshop, "k")
    assert title == "Task of k  waiting-human"
    assert root.startswith(
        f"{session.id}  review@1, stage fan, step 1; waits for a person of operators: short "
    )
    assert fan == (
        f"└── fan  short: all 3 must be done, 0 so far (1 refused, 1 waiting, 1 open); ticket {session.id}/1"
    )
    assert branches == [
        f"    ├── ann   running        {ann}  stage review; waits for the return of agent:reviewer",
        f"    ├── bob   waiting-human  {bob}  stage review; waits for a person of operators: escalation {bob}/1",
        f"    └── carl  refused        {carl}  not mine",
    ]


def test_a_deadline_is_told_as_long_as_it_may_pass(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.submit(review_plan(deadline_seconds=600.0))
    assert re.search(r"0 so far \(3 open\), deadline in 9m5\ds$", drawn(in_workshop, "k")[2])


def test_branches_of_branches_stand_below_theirs(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    lines = drawn(in_workshop, "k")
    assert len(lines) == 2 + 7 + 14
    assert [line.count("│") + line.count("    ") for line in lines if "reviewer" in line] == [5] * 8
    workshop.work()
    assert all("done" in line for line in drawn(in_workshop, "k")[2:])
    found: Any = json.loads(in_workshop("show", "k", "--json").out)
    for level in ("fan1", "fan2", "fan3"):
        (join,) = found["joins"]
        assert (join["join"]["stage"], join["join"]["have"], join["rest"]) == (level, 2, {})
        found = join["branches"][1]
    assert (found["branch"]["status"], found["joins"]) == ("done", [])
    assert found["branch"]["sessionId"] == session.branch("b").branch("b").branch("b").id


def test_a_branch_says_where_it_hangs(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(nested_plan())
    inner = session.branch("a")
    leaf = inner.branch("b").branch("a")
    path = f"branch      {session.id} (Task of k) > fan1/a > {inner.id} > fan2/b > {inner.branch('b').id} > fan3/a"
    assert drawn(in_workshop, leaf.id)[1] == path
    assert path in in_workshop("status", leaf.id).out
    above = json.loads(in_workshop("show", leaf.id, "--json").out)["above"]
    assert [(one["stage"], one["branch"]) for one in above] == [("fan1", "a"), ("fan2", "b"), ("fan3", "a")]


def test_tickets_say_which_branch_they_are_of_and_are_listed_under_the_session(
    in_workshop: Cli, workshop: Workshop
) -> None:
    session = workshop.submit(nested_plan())
    workshop.submit(review_plan(), key="other")
    workshop.says = {"b": Escalate("who is this?")}
    workshop.otherwise = Escalate("no")
    workshop.work("reviewer")
    leaf = session.branch("a").branch("b").branch("b")
    listed = in_workshop("tickets", "--session", "k", "--limit", "3")
    assert len(listed.out.splitlines()) == 1 + 3
    lines = in_workshop("tickets", "--session", "k").out.splitlines()[1:]
    assert len(lines) == 8
    (line,) = (one for one in lines if one.startswith(leaf.id))
    assert line.endswith("  branch a > b > b: who is this?")
    every = in_workshop("tickets").out.splitlines()
    assert line.replace("b: who", f"b of {session.id}: who") in every
    assert len(every) == 1 + 8 + 3
    (of_inner,) = in_workshop("tickets", "--session", leaf.id).out.splitlines()[1:]
    assert f"branch a > b > b of {session.id}: " in of_inner
    found = json.loads(in_workshop("tickets", "--session", "k", "--limit", "1", "--json").out)
    (one,) = found["tickets"]
    assert (one["root"], len(one["branch"]), found["more"] > 0) == (session.id, 3, True)
    (one,) = json.loads(in_workshop("tickets", "--session", leaf.id, "--json").out)["tickets"]
    assert (one["branch"], one["parent"]) == (["a", "b", "b"], session.branch("a").branch("b").id)


def test_branches_whose_tickets_are_not_listed_are_told(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    workshop.submit(batch_plan(), lists={"documents": DOCS})
    workshop.otherwise = Escalate("no")
    workshop.work("reviewer")
    screen = on_terminal(monkeypatch, 100, "tickets", "--session", "k", "--limit", "5")
    assert screen.lines[-1].startswith("35 branches more may have tickets: --limit")


def test_of_many_branches_those_that_are_not_done_come_first_and_the_rest_is_counted(
    in_workshop: Cli, workshop: Workshop
) -> None:
    workshop.submit(batch_plan(on_short="fail", need=39), lists={"documents": DOCS})
    workshop.says = {"doc-30": RuntimeError("no"), "doc-35": Escalate("who?")}
    workshop.hold()
    workshop.work("reviewer")
    lines = drawn(in_workshop, "k")[3:]
    names = [line.split()[1] for line in lines[:-1]]
    assert names == ["doc-0", *[f"doc-{n}" for n in range(1, 18)], "doc-30", "doc-35"]
    assert lines[-1] == "    └── 20 more: 20 done"
    assert len(drawn(in_workshop, "k", "--all")) == 3 + 40
    found = json.loads(in_workshop("show", "k", "--json").out)["joins"][0]
    assert (len(found["branches"]), found["rest"]) == (20, {"done": 20})


def test_branches_that_are_not_there_are_only_counted_where_there_are_many(
    in_workshop: Cli, workshop: Workshop
) -> None:
    workshop.submit(batch_plan(at_once=2), lists={"documents": DOCS})
    lines = drawn(in_workshop, "k")
    assert lines[-1] == "    └── 38 more: 38 unopened"
    assert len(lines) == 3 + 3
    workshop.submit(batch_plan(at_once=2), "few", lists={"documents": DOCS[:3]})
    assert drawn(in_workshop, "few")[-1] == "    └── doc-2  unopened"


def test_a_tree_is_bounded_as_a_whole(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MOST", 5)
    workshop.submit(nested_plan())
    text = "\n".join(drawn(in_workshop, "k"))
    assert text.count("├── ") + text.count("└── ") < 2 + 7 + 14
    assert "2 more: 2 open" in text
    assert len(drawn(in_workshop, "k", "--all")) == 2 + 7 + 14


def test_text_of_others_cannot_steer_the_terminal(in_workshop: Cli, workshop: Workshop) -> None:
    name = "\u202ereversed"
    workshop.submit(batch_plan(key=""), lists={"documents": [{}]})
    workshop.says = {"0": Refused(f"a \x1b[31mred\x1b[0m {name}")}
    workshop.work("reviewer")
    out = "\n".join(drawn(in_workshop, "k"))
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\x1b[31mred" in out
    out = in_workshop("show", "k/1").out
    assert "\x1b" not in out


@pytest.mark.parametrize("columns", [40, 80, 160])
def test_a_screen_is_no_wider_than_its_terminal(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    workshop.submit(nested_plan())
    screen = on_terminal(monkeypatch, columns, "show", "k")
    assert screen.code == 0
    assert max(len(line) for line in screen.lines) <= columns
    assert "fan3" in "".join(screen.lines)


def test_a_session_without_branches_is_drawn_alone(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.broker.delegate("helper", "Help", key="alone")
    said = in_workshop("show", "alone")
    assert said.code == 0
    assert said.out.splitlines()[1].startswith(f"{session.id}  ")
    assert len(said.out.splitlines()) == 2


@pytest.mark.parametrize("name", ["nope", "nope/1", "k/", "k/0", "k/x", "/1", "k/99", ""])
def test_what_is_not_there_is_not_found_and_nothing_changes(
    in_workshop: Cli, workshop: Workshop, name: str
) -> None:
    session = workshop.submit(review_plan())
    before = encode(session.state())
    said = in_workshop("show", name)
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("passdown: there is no ")
    assert encode(session.state()) == before


def test_a_key_that_looks_like_a_ticket_is_a_session(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.submit(review_plan(), "k")
    other = workshop.submit(review_plan(), "k/1")
    assert drawn(in_workshop, "k/1")[1].startswith(other.id)


def test_status_says_how_many_of_how_many_and_what_is_missing(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(batch_plan(need=30), lists={"documents": DOCS})
    workshop.hold()
    workshop.says = {"doc-1": Escalate("who?")}
    workshop.otherwise = Escalate("who?")
    workshop.says |= {f"doc-{n}": {"verdict": "fine"} for n in range(8, 20)}
    workshop.work("reviewer")
    view = json.loads(in_workshop("status", "k", "--json").out)
    (wait,) = [one for one in view["waits"] if one["kind"] == "join"]
    tickets = [f"{row.session_id}/1" for row in session.branches()[1:5]]
    named = ", ".join(
        ["doc-0 (running)"]
        + [f"doc-{n} (waiting-human, ticket {ticket})" for n, ticket in enumerate(tickets, 1)]
    )
    assert (
        wait["what"]
        == f"12 of 30 branches of stage fan (30 of 40 must be done); not yet: {named} and 23 more"
    )
    assert wait["do"] == f"passdown show {session.id}"
    assert view["joins"][0]["outcomes"] == {"done": 12, "waiting": 27, "open": 1}
    assert wait["what"] in in_workshop("status", "k").out


def test_status_of_a_conflict_leads_to_the_branches(in_workshop: Cli, workshop: Workshop) -> None:
    workshop.says = {"bob": {"verdict": "bad"}}
    session = workshop.submit(review_plan())
    workshop.work()
    out = in_workshop("status", "k").out
    assert f"passdown show {session.id}/1" in out
    assert "branches of stage fan" not in out


class TestListing:
    def test_branches_are_in_no_list_but_their_own(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = workshop.submit(review_plan())
        listed = json.loads(in_workshop("list", "--json").out)["sessions"]
        assert [one["sessionId"] for one in listed] == [session.id]
        rows = json.loads(in_workshop("list", "--branches-of", "k", "--json").out)
        assert [one["name"] for one in rows["branches"]] == ["ann", "bob", "carl"]
        assert rows["from"] is None
        heading, *lines = in_workshop("list", "--branches-of", "k").out.splitlines()
        assert " ".join(heading.split()) == "place branch status session what it says or waits for"
        assert lines[1].startswith(
            f"1      bob     queued  {session.branch('bob').id}  stage review; waits for"
        )

    def test_they_come_page_by_page_and_by_join(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = workshop.submit(batch_plan(), lists={"documents": DOCS})
        first = json.loads(in_workshop("list", "--branches-of", "k", "--limit", 30, "--json").out)
        assert (len(first["branches"]), first["from"]) == (30, 30)
        join = session.joins()[0].join_id
        rest = in_workshop("list", "--branches-of", "k", "--from", 30, "--join", join, "--json")
        assert [one["place"] for one in json.loads(rest.out)["branches"]] == list(range(30, 40))

    @pytest.mark.parametrize(
        ("args", "code", "said"),
        [
            (("--branches-of", "nope"), 3, "there is no session 'nope'"),
            (("--branches-of", "alone"), 3, "it opened no branches"),
            (("--branches-of", "k", "--join", "s0-1.j-1"), 3, "its joins are"),
            (("--branches-of", "k", "--status", "done"), 2, "--join, --from and --limit only"),
            (("--branches-of", "k", "--before", "k"), 2, "--join, --from and --limit only"),
            (("--branches-of", "k", "--from", "-1"), 2, "--from"),
            (("--from", "3"), 2, "go with --branches-of"),
            (("--join", "j"), 2, "go with --branches-of"),
        ],
    )
    def test_wrong_words_are_refused(
        self, in_workshop: Cli, workshop: Workshop, args: tuple[str, ...], code: int, said: str
    ) -> None:
        workshop.submit(review_plan())
        workshop.broker.delegate("helper", "Help", key="alone")
        found = in_workshop("list", *args)
        assert (found.code, found.out) == (code, "")
        assert said in found.err
