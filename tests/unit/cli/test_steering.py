"""`cancel`, `pause`, `resume`, `retry`."""

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


def test_a_session_is_cancelled(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="1")
    said = at_desk("cancel", "k", "--reason", "enough")
    assert (said.code, said.out) == (0, f"{session.id} is cancelled\n")
    state = session.state()
    assert state.outcome is not None
    assert state.outcome.reason == "enough"
    again = at_desk("cancel", "k")
    assert again.code == 4
    assert "the session has ended (cancelled)" in again.err


def test_a_session_with_an_unknown_effect_is_cancelled_once_that_is_settled(at_desk: Cli, desk: Desk) -> None:
    desk.fail_next = "mail unknown"
    session = desk.paid("k")
    said = at_desk("cancel", "k")
    assert said.out == f"{session.id} will be cancelled once 1 effect of unknown outcome is settled\n"
    assert at_desk("cancel", "k").code == 0


def test_a_session_is_paused_and_resumed(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="1")
    assert at_desk("pause", "k", "--for", "1h30m", "--reason", "lunch").out == f"{session.id} is paused\n"
    state = session.state()
    assert (state.resume_at or 0) - state.at == 5_400_000
    assert at_desk("pause", "k").code == 0
    assert at_desk("resume", "k").out == f"{session.id} is queued\n"
    assert at_desk("resume", "k").code == 0


@pytest.mark.parametrize("length", ["0s", "-1s", "10", "none", "99999999999d", ""])
def test_a_pause_that_is_no_length_of_time_is_refused(at_desk: Cli, desk: Desk, length: str) -> None:
    """Fault #46: zero must not mean something else than it says."""
    desk.submit("k", orderId="1")
    before = desk.fingerprint()
    assert at_desk("pause", "k", f"--for={length}").code == 2
    assert desk.fingerprint() == before


def test_a_step_that_failed_is_tried_again(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", plan="help", do="fail")
    for _ in range(3):
        desk.work()
        desk.tick()
    assert session.status() == "waiting-human"
    assert at_desk("retry", "k").out == f"{session.id} is queued\n"


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume", "retry"])
def test_a_verb_on_what_is_not_there_or_over_says_so_and_changes_nothing(
    at_desk: Cli, desk: Desk, verb: str
) -> None:
    desk.submit("k", plan="help")
    desk.work()
    before = desk.fingerprint()
    assert at_desk(verb, "nope").code == 3
    over = at_desk(verb, "k")
    assert over.code == 4
    assert "done" in over.err
    assert at_desk(verb).code == 2
    assert desk.fingerprint() == before


def test_a_retry_of_what_waits_for_nothing_of_the_kind_is_a_conflict(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", orderId="1")
    said = at_desk("retry", "k")
    assert said.code == 4
    assert "there is nothing to retry (the session is queued)" in said.err
