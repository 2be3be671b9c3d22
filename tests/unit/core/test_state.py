from typing import get_args

import pytest

from passdown.broker.core.evolve import evolve
from passdown.broker.core.state import A2A_STATE, TERMINAL, TRANSITIONS, State, Status, a2a_state
from passdown.contracts import events as ev
from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError
from tests.unit.core import situations
from tests.unit.core.samples import reserved_ones, written
from tests.unit.core.spec import BOB, Session

EVENTS = [kind.__name__ for kind in get_args(ev.WrittenEvent)]
STATUSES: list[Status] = list(get_args(Status))

#: A session in each status, with an effect and a ticket in its past where it could have them.
IN_STATUS: dict[Status, situations.Situation] = {
    "queued": situations.settle_queued,
    "running": situations.settle_running,
    "waiting-input": situations.question_ticket,
    "waiting-human": situations.effect_ticket,
    "waiting-join": situations.waiting_join,
    "done": situations.done,
    "refused": situations.refused,
    "failed": situations.failed,
    "cancelled": situations.cancelled,
    "expired": situations.expired,
}


def fold(session: Session, event: ev.Event) -> State:
    state = session.state
    logged = ev.Logged(seq=state.seq + 1, at=state.at, by=BOB, prev=state.head, event=event)
    return evolve(state, logged)


def status_or_problem(session: Session, event: ev.Event) -> str:
    try:
        return fold(session, event).status
    except ContractError as error:
        return str(error)


def test_the_table_names_every_event_that_this_version_writes() -> None:
    assert sorted(TRANSITIONS) == sorted(EVENTS)


def test_the_table_names_every_status() -> None:
    named = {status for moves in TRANSITIONS.values() for status in moves}
    reached = {target for moves in TRANSITIONS.values() for targets in moves.values() for target in targets}
    assert named == set(STATUSES)
    assert reached == set(STATUSES)


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("name", EVENTS)
def test_rule_06_an_event_is_folded_where_the_table_allows_it_and_refused_elsewhere(
    name: str, status: Status
) -> None:
    session = IN_STATUS[status]()
    assert session.state.status == status
    event = written(session)[name]
    allowed = TRANSITIONS[name].get(status)
    if allowed is None:
        with pytest.raises(ContractError, match=f"{name} may not occur in a session that is {status}"):
            fold(session, event)
        return
    # The sample may not fit this very session (no such ticket, say); its status is not what is wrong then.
    found = status_or_problem(session, event)
    assert found in allowed or ("log does not fit" in found and "may not occur" not in found)


@pytest.mark.parametrize("event", reserved_ones(), ids=lambda one: type(one).__name__)
def test_an_event_of_a_later_version_is_refused(event: ev.Event) -> None:
    with pytest.raises(ContractError, match="reserved for a later version"):
        fold(situations.queued(), event)


def test_rule_06_an_event_may_not_leave_a_status_behind_that_the_table_does_not_name() -> None:
    session = situations.failure()
    # A ticket that is not open any more would leave the session queued, with nothing to wait for.
    question = ev.InputRequested(attempt=1, questions=[], ask="producer")
    with pytest.raises(
        ContractError, match="InputRequested may not lead from waiting-human to waiting-human"
    ):
        fold(session, question)


def test_what_ends_a_session_is_never_left_but_by_the_verb_retry_and_where_a_branch_is_sent_back_to() -> None:
    for name, moves in TRANSITIONS.items():
        for status in TERMINAL & set(moves):
            left = set(moves[status]) - {status}
            sent_back = name == "Reopened" and left == {"queued", "waiting-human"}
            assert not left or sent_back or (name, status, left) == ("PackIssued", "failed", {"queued"})


@pytest.mark.parametrize(
    ("situation", "shown"),
    [
        ("queued", "submitted"),
        ("running", "working"),
        ("waiting-input", "input-required"),
        ("question ticket", "input-required"),
        ("escalation", "input-required"),
        ("approval", "auth-required"),
        ("permission", "auth-required"),
        ("unmet", "auth-required"),
        ("waiting-join", "working"),
        ("join in conflict", "input-required"),
        ("paused", "input-required"),
        ("paused running", "input-required"),
        ("done", "completed"),
        ("refused", "rejected"),
        ("failed", "failed"),
        ("cancelled", "canceled"),
        ("expired", "failed"),
    ],
)
def test_what_a_client_of_a2a_is_shown(situation: str, shown: str) -> None:
    assert a2a_state(situations.ALL[situation]().state) == shown


def test_a_paused_approval_shows_as_paused() -> None:
    assert a2a_state(situations.approval().pause().state) == "input-required"


def test_every_status_has_an_a2a_name() -> None:
    assert set(A2A_STATE) == {*get_args(Status), "paused"}


def test_questions_show_before_tickets() -> None:
    """Needs-input is always `waiting-input`, whatever else is open."""
    session = situations.running()
    effect = session.run("refund", situations.ARGS)
    session.report(effect).ask("why")
    session.report(effect, "failed").then("EffectFailed", "TicketOpened").stands("waiting-input")


def test_the_state_says_what_it_is_only_where_it_differs_from_nothing() -> None:
    """Defaults are left out of the bytes: a session that just began is small."""
    assert len(encode(situations.queued().state)) < 1_200
