"""Tickets on joins in the inbox: their branches side by side, chosen and sent back to by a form."""

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.cli.test_comparisons import conflict
from tests.unit.cli.typing_hands import typed
from tests.unit.cli.workshop import Workshop


def test_branches_stand_side_by_side_below_the_brief(in_workshop: Cli, workshop: Workshop) -> None:
    session = conflict(workshop)
    out = in_workshop("inbox", "show", "k/1").out
    assert out.startswith(f"# Brief of {session.id}/1\n")
    assert 'the branches disagree in verdict: "fine" by ann, carl, "bad" by bob' in out
    shown = in_workshop("inbox", "show", "k/1", "--json").out
    assert f"passdown inbox resolve {session.id}/1 send-back --branch NAME --note" in shown


def test_a_branch_is_chosen_from_the_list(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = conflict(workshop)
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "k/1"],
        [
            ("your decision", "choose"),
            ("  2  bob", None),
            ("branch (1-3): ", "bob"),
            ("note", ""),
            ("send it?", "y"),
        ],
    )
    assert done.code == 0, done.screen
    workshop.work()
    assert session.status() == "done"


def test_branches_are_sent_back_to_by_name(
    in_workshop: Cli, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = conflict(workshop)
    done = typed(
        monkeypatch,
        ["inbox", "resolve", "k/1", "send-back"],
        [
            ("branches: ann (done), bob (done), carl (done)", None),
            ("branches that it goes back to 1", "nobody"),
            ("branches that it goes back to 2", ""),
            ("what to do better: ", "count again"),
            ("send it?", "y"),
            ("nobody", None),
            ("keep it? [Y/n]: ", "n"),
            ("branches that it goes back to 1", "bob"),
            ("branches that it goes back to 2", ""),
            ('what to do better ["count again"]: ', ""),
            ("send it?", "y"),
        ],
    )
    assert done.code == 0, done.screen
    assert b'"feedback":"count again"' in b"".join(session.raw_events())
