"""Random acts of people on tickets of every kind: the invariants and the fold hold after each (rules 6 and 8)."""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from passdown.contracts import events as ev
from passdown.contracts.plans import FAIL, Grant, Level, Overdue, Permit
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, stage, two
from tests.unit.core.spec import Session
from tests.unit.core.test_random_histories import EXAMPLES, Op, Player, check_history, freed, help_on

PATH = [Level(queue="leads"), Level(queue="boss", after_seconds=3_600.0)]
LIMITS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _refund(**grant: Any) -> list[Grant]:
    return [Grant(tool="refund", approve="approvers", **grant), Grant(tool="mail")]


def _started(**fields: Any) -> Session:
    session = Session(two(stage(tools=[Grant(tool="mail")]), **fields), REFUND, MAIL, READ)
    return session.submit({"order": "4711"}).claim()


def _approval(**fields: Any) -> Session:
    session = _started(tools=_refund(approvals=2), **fields)
    session.intend("refund", ARGS)
    return session


def _permission(**fields: Any) -> Session:
    session = _started(permits=[Permit(tool="refund", queue="security", approvals=2)], **fields)
    session.intend("refund", ARGS)
    return session


def _unmet(**fields: Any) -> Session:
    session = _started(tools=_refund(), **fields)
    session.intend("refund", ARGS)
    session.resolve("approve").claim()
    return session.report(session.run("refund", ARGS), "failed", error="e").done()


def _beside_unknown(**fields: Any) -> Session:
    """An approval waits, and nobody knows whether a mail went out."""
    session = _started(tools=_refund(), **fields)
    session.run("mail", {"to": "x"})
    session.intend("refund", ARGS)
    return session


KINDS: dict[str, Callable[..., Session]] = {
    "approval": _approval,
    "permission": _permission,
    "unmet": _unmet,
    "beside unknown": _beside_unknown,
    "question": situations.question_ticket,
    "failure": situations.failure,
    "effect": situations.effect_ticket,
}
RULES = [None, Overdue(after_seconds=7_200.0, to="tell"), Overdue(after_seconds=7_200.0, to=FAIL)]

#: Acts of people and of the tick, most of them on tickets.
acts = st.lists(
    st.tuples(
        st.sampled_from(["desk", "desk", "desk", "due", "resolve", "time", "act", "pause", "resume"]),
        st.integers(0, 400),
    ),
    min_size=5,
    max_size=25,
)


def play(kind: str, rule: Overdue | None, played: list[Op]) -> Player:
    session = KINDS[kind](escalation=PATH, overdue=rule)
    player = Player(session.plan, session)
    for op, pick in played:
        player.play(op, pick)
    return player


@LIMITS
@given(st.sampled_from(list(KINDS)), st.sampled_from(RULES), acts)
@example("beside unknown", RULES[1], [("due", 1), ("due", 1), ("act", 0), ("due", 3)])
def test_rules_06_08_hold_whatever_people_do_with_a_ticket(
    kind: str, rule: Overdue | None, played: list[Op]
) -> None:
    player = play(kind, rule, played)
    check_history(player.session)
    who_decided(player.session)


@LIMITS
@given(st.sampled_from(list(KINDS)), st.sampled_from(RULES), acts)
def test_whatever_people_did_with_a_ticket_its_session_comes_to_its_end(
    kind: str, rule: Overdue | None, played: list[Op]
) -> None:
    player = play(kind, rule, played)
    session = player.session
    for _ in range(80):
        if session.state.over:
            break
        help_on(player)
    assert session.state.over, session.state
    for ticket in freed(session).state.tickets:
        session.resolve("done", ticket=ticket.ticket_no)
    check_history(session)


def who_decided(session: Session) -> None:
    """Nobody said yes twice to one action, nor to what they initiated (rule 8); each yes is of another person."""
    yes: dict[int, list[str]] = {}
    for logged in session.logged:
        match logged.event:
            case ev.TicketApproved(ticket_no=number, args=args):
                yes[number] = [*([] if args is not None else yes.get(number, [])), logged.by]
            case ev.TicketResolved(ticket_no=number, resolution="approve" | "edit"):
                yes[number] = [*yes.get(number, []), logged.by]
            case _:
                pass
    for names in yes.values():
        assert len(names) == len(set(names)), "rule 8: one person counted twice"
        assert session.state.by not in names, "rule 8: whoever initiated it approved it"
