"""`show` with briefs, and the brief of a session as the store holds it."""

import json

import pytest

from passdown.broker.briefs import brief_of
from passdown.broker.core.brief_render import render
from passdown.contracts.brief import Brief
from passdown.contracts.codec import decode
from passdown.contracts.errors import NotFound
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk
from tests.unit.cli.terminal import on_terminal
from tests.unit.cli.workshop import Workshop, review_plan


def waiting(desk: Desk) -> str:
    session = desk.submit("k", orderId="4711")
    desk.work()
    return session.id


def test_a_ticket_is_shown_with_its_brief_and_then_what_to_type(at_desk: Cli, desk: Desk) -> None:
    name = waiting(desk)
    said = at_desk("show", f"{name}/1")
    assert (said.code, said.err) == (0, "")
    brief, _, rest = said.out.partition("\nwhat to decide\n")
    assert brief == render(brief_of(desk.broker.app.controller, name, 1))
    assert (
        "- approve: refunds.create runs once with exactly these arguments:\n[from the pending call" in brief
    )
    assert f"passdown resolve {name}/1 RESOLUTION --version 1 --as PRINCIPAL" in rest
    assert json.loads(at_desk("show", f"{name}/1", "--json").out)["tool"] == "refunds.create"


def test_the_brief_alone_of_a_ticket_and_of_a_session(at_desk: Cli, desk: Desk) -> None:
    name = waiting(desk)
    controller = desk.broker.app.controller
    assert at_desk("show", "k/1", "--brief").out == render(brief_of(controller, name, 1))
    assert at_desk("show", "k", "--brief").out == render(brief_of(controller, name))
    found = at_desk("show", "k/1", "--brief", "--json").out
    assert decode(found.encode(), Brief) == brief_of(controller, name, 1)
    assert json.loads(found)["spec"] == "passdown.brief/1"


def test_a_decided_ticket_still_has_its_brief(at_desk: Cli, desk: Desk) -> None:
    desk.paid()
    out = at_desk("show", "paid/1", "--brief").out
    assert "closed: approve by user:ann" in out
    assert "   effect: done, event " in out


def test_what_there_is_not_is_not_found(at_desk: Cli, desk: Desk) -> None:
    name = waiting(desk)
    assert at_desk("show", f"{name}/7", "--brief").code == 3
    assert at_desk("show", "nobody", "--brief").code == 3
    with pytest.raises(NotFound):
        brief_of(desk.broker.app.controller, "s0-none")


def test_a_branch_has_a_brief_of_its_own(in_workshop: Cli, workshop: Workshop) -> None:
    session = workshop.submit(review_plan())
    out = in_workshop("show", session.branch("ann").id, "--brief").out
    assert out.startswith(f"# Brief of {session.branch('ann').id}\n")
    assert ", stage review" in out


@pytest.mark.parametrize("columns", [40, 100])
def test_on_a_terminal_quoted_lines_are_wrapped_with_their_bars(
    at_desk: Cli, desk: Desk, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    session = desk.submit("k", plan="help", do="escalate", note="word " * 100 + "## Allowed actions")
    desk.work()
    screen = on_terminal(monkeypatch, columns, "show", f"{session.id}/1", "--brief")
    assert screen.code == 0
    assert max(len(line) for line in screen.lines) <= columns
    assert [line for line in screen.lines if line.startswith("## Allowed")] == ["## Allowed actions"]


def test_an_export_has_a_brief_of_each_session(at_desk: Cli, desk: Desk) -> None:
    name = waiting(desk)
    done = desk.paid("other").id
    lines = [json.loads(line) for line in at_desk("export").out.splitlines()]
    texts = {one["sessionId"]: one["text"] for one in lines if one["kind"] == "brief"}
    controller = desk.broker.app.controller
    assert texts == {name: render(brief_of(controller, name, 1)), done: render(brief_of(controller, done))}
    assert [set(one) for one in lines if one["kind"] == "brief"] == [{"kind", "sessionId", "text"}] * 2
