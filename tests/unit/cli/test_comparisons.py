"""The ticket of a join on a screen: branches side by side, and commands that can be typed as they stand."""

import json
import shlex
from typing import Any

import pytest

from passdown.agents import Escalate, Refused
from passdown.broker.client import Session
from passdown.contracts.codec import encode
from tests.unit.cli.conftest import Cli, Said
from tests.unit.cli.terminal import on_terminal
from tests.unit.cli.workshop import Workshop, batch_plan, review_plan

VERDICTS: dict[str, Any] = {
    "ann": {"verdict": "fine", "cents": 5, "note": True},
    "bob": {"verdict": "bad", "cents": 5},
    "carl": {"verdict": "fine", "cents": 5},
}


def conflict(workshop: Workshop, **more: Any) -> Session:
    workshop.says = dict(VERDICTS)
    session = workshop.submit(review_plan(**more))
    workshop.work()
    assert session.status() == "waiting-human"
    return session


def below_brief(out: str) -> str:
    """Return what is shown of a ticket below its brief."""
    brief, _, rest = out.partition("\nwhat to decide\n")
    assert brief.startswith("# Brief of ")
    return rest


def typed(cli: Cli, ticket: str, verb: str) -> Said:
    """Type the command that the ticket's screen shows for a verb, as it stands there."""
    lines = [line.strip() for line in cli("show", ticket).out.splitlines()]
    (command,) = [line for line in lines if line.startswith(f"passdown resolve {ticket} {verb}")]
    return cli(*shlex.split(command)[1:])


def test_branches_stand_side_by_side(in_workshop: Cli, workshop: Workshop) -> None:
    session = conflict(workshop)
    out = below_brief(in_workshop("show", "k/1").out)
    assert out.splitlines()[0] == 'the branches disagree in verdict: "fine" by ann, carl, "bad" by bob'
    assert f"ticket      {session.id}/1, conflict in operators for " in out
    assert "join        stage fan: all 3 must be done; 3 done" in out
    parts = out.split("\n\n")
    assert [part.splitlines()[0] for part in parts[1:]] == ["differ", "agree", "side by side", "decide"]
    assert [line.strip() for line in parts[1].splitlines()[1:]] == [
        'verdict  "fine" by ann, carl',
        '"bad" by bob',
    ]
    assert parts[2].splitlines()[1:] == ["  cents  5 by ann, bob, carl"]
    table = {line[:14].strip(): line[14:].split("  ") for line in parts[3].splitlines()[2:]}
    rows = {name: [cell.strip() for cell in cells if cell.strip()] for name, cells in table.items()}
    assert rows["verdict"] == ['"fine"', '"bad"', '"fine"']
    assert rows["uncertainty"] == ["0.25"] * 3
    assert rows["evidence"] == [f"read by {name}: page {len(name)}" for name in ("ann", "bob", "carl")]
    assert rows["effects"] == ['notes.write {"about":"ann"}']
    assert rows["session"] == [row.session_id for row in session.branches()]


@pytest.mark.parametrize("columns", [60, 80, 160])
def test_each_column_fits_the_terminal(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    session = conflict(workshop)
    screen = on_terminal(monkeypatch, columns, "show", "k/1")
    assert screen.code == 0
    wide = [line for line in screen.lines if len(line) > columns and "passdown resolve" not in line]
    assert wide == []
    text = "".join(screen.lines)
    assert all(row.session_id in text for row in session.branches())


def test_of_many_branches_the_others_are_told_of(in_workshop: Cli, workshop: Workshop) -> None:
    docs = [{"name": f"doc-{n}"} for n in range(60)]
    workshop.says = {"doc-57": {"verdict": "bad"}}
    session = workshop.submit(batch_plan(conflict=["verdict"]), lists={"documents": docs})
    workshop.work("reviewer")
    out = in_workshop("show", "k/1").out
    assert f"and 40 more: passdown list --branches-of {session.id}" in out
    assert '"fine" by doc-0, doc-1, doc-2, doc-3, doc-4, doc-5, doc-6, doc-7 and 51 more' in out
    assert "--branch doc-57" in out


def test_a_comparison_is_data_for_machines(in_workshop: Cli, workshop: Workshop) -> None:
    conflict(workshop)
    found = json.loads(in_workshop("show", "k/1", "--json").out)
    assert found["differ"][0]["said"][1] == {"value": "bad", "branches": ["bob"], "count": 1}
    assert [side["name"] for side in found["sides"]] == ["ann", "bob", "carl"]


def test_tickets_lead_there(in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = conflict(workshop)
    screen = on_terminal(monkeypatch, 160, "tickets")
    assert f"branches side by side: passdown show {session.id}/1" in screen.lines


class TestDeciding:
    def test_a_branch_is_chosen(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = conflict(workshop)
        assert typed(in_workshop, f"{session.id}/1", "choose").code == 0
        assert session.joins()[0].branch == "ann"
        workshop.catch_up(session)
        workshop.work()
        assert session.status() == "done"

    @pytest.mark.parametrize(
        ("verb", "standing"), [("merge", "partial"), ("redirect", "left"), ("cancel", "left")]
    )
    def test_what_is_shown_can_be_typed(
        self, in_workshop: Cli, workshop: Workshop, verb: str, standing: str
    ) -> None:
        session = conflict(workshop)
        said = typed(in_workshop, f"{session.id}/1", verb)
        assert said.code == 0
        assert said.out.startswith(f"ticket {session.id}/1: {verb}; the session is ")
        assert session.joins()[0].standing == standing

    def test_a_person_merges_by_hand(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = conflict(workshop)
        output = '{"verdict": "fine, with one change"}'
        assert in_workshop("resolve", "k/1", "complete", output).code == 0
        workshop.work()
        assert session.state().data["verdict"] == "fine, with one change"

    def test_it_goes_back_to_the_branches_that_are_named(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = conflict(workshop)
        said = in_workshop(
            *("resolve", "k/1", "send-back", "--branch", "bob", "--branch", "ann", "--note", "count again")
        )
        assert said.code == 0
        workshop.catch_up(session)
        assert [row.status for row in session.branches()] == ["queued", "queued", "done"]
        assert session.branch("bob").state().feedback[0].text == "count again"
        workshop.says["bob"] = {"verdict": "fine", "cents": 5}
        workshop.work()
        assert session.status() == "done"

    def test_it_goes_back_as_the_screen_says(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = conflict(workshop)
        assert typed(in_workshop, f"{session.id}/1", "send-back").code == 0
        workshop.catch_up(session)
        assert [row.status for row in session.branches()] == ["done", "queued", "done"]

    def test_a_value_may_name_the_branches_too(self, in_workshop: Cli, workshop: Workshop) -> None:
        session = conflict(workshop)
        value = '{"branches": ["carl"], "feedback": "again"}'
        assert in_workshop("resolve", "k/1", "send-back", value).code == 0
        workshop.catch_up(session)
        assert [row.status for row in session.branches()] == ["done", "done", "queued"]

    def test_of_a_short_join_those_are_named_that_do_not_count(
        self, in_workshop: Cli, workshop: Workshop
    ) -> None:
        workshop.says = {"ann": RuntimeError("no"), "carl": Refused("no")}
        session = workshop.submit(review_plan())
        workshop.work()
        assert "send-back --branch ann --branch carl --note" in in_workshop("show", "k/1").out
        workshop.says = {}
        assert typed(in_workshop, f"{session.id}/1", "send-back").code == 0
        workshop.catch_up(session)
        workshop.work()
        assert session.status() == "done"

    @pytest.mark.parametrize(
        ("args", "code", "said"),
        [
            (("choose",), 2, "choose needs a VALUE: a branch"),
            (("choose", "dora"), 2, "no branch that has ended has the name 'dora'"),
            (("choose", "ann", "--branch", "bob"), 2, "choose takes its branch as VALUE"),
            (("merge", "ann"), 2, "merge takes no VALUE"),
            (("send-back",), 2, "say which branches it goes back to: --branch NAME, once for each"),
            (("send-back", "again"), 2, "say which branches it goes back to"),
            (("send-back", "--branch", "bob"), 2, "what to do better"),
            (("send-back", "--branch", "bob", "--branch", "bob", "--note", "x"), 2, "each branch once"),
            (
                ("send-back", "--branch", "dora", "--note", "x"),
                2,
                "no branch that has ended has the name 'dora'",
            ),
            (("send-back", "{nonsense"), 2, ""),
            (("send-back", '{"branches": []}'), 2, "/branches"),
            (("approve",), 5, ""),
            (("redirect", "nowhere"), 5, "the plan allows"),
        ],
    )
    def test_wrong_words_decide_nothing(
        self, in_workshop: Cli, workshop: Workshop, args: tuple[str, ...], code: int, said: str
    ) -> None:
        session = conflict(workshop)
        before = encode(session.state())
        found = in_workshop("resolve", "k/1", *args)
        assert (found.code, found.out) == (code, "")
        assert said in found.err
        assert encode(session.state()) == before

    def test_send_back_of_another_ticket_takes_text_as_ever(
        self, in_workshop: Cli, workshop: Workshop
    ) -> None:
        workshop.says = {"ann": Escalate("who?")}
        session = workshop.submit(review_plan())
        workshop.work()
        ticket = f"{session.branch('ann').id}/1"
        assert below_brief(in_workshop("show", ticket).out).splitlines()[0].endswith(": who?")
        assert in_workshop("resolve", ticket, "send-back", "look again").code == 0
        assert session.branch("ann").state().feedback[0].text == "look again"
