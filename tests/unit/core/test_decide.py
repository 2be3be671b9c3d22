import pytest
from msgspec.structs import replace

from passdown.broker.core.decide import decide, dues
from passdown.broker.core.draft import Draft
from passdown.broker.core.given import Command, DueAt
from passdown.contracts import commands as cmd
from passdown.contracts import events as ev
from passdown.contracts.codec import decode
from passdown.contracts.errors import NotFound, PlanError
from passdown.contracts.plans import Backoff, Grant, Plan
from tests.unit.core import situations
from tests.unit.core.every_command import COMMANDS
from tests.unit.core.plans import MAIL, stage, two
from tests.unit.core.spec import ANN, START, TICK, Session, like


def due(kind: cmd.DueKind, subject: str, at: int) -> cmd.Due:
    return cmd.Due(kind=kind, subject=subject, due_at=at)


#: What makes a session: a producer's submit, and the opening of a branch, also where it is called off already.
MAKE = {"submit", "open branch", "call off"}


@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in MAKE])
def test_rule_11_no_command_but_submit_and_open_branch_makes_a_session(command: str) -> None:
    body, by = COMMANDS[command](situations.running())
    fresh = Session(two())
    with pytest.raises(NotFound, match="there is no session"):
        decide(None, Command(fresh.id, body, START, by, fresh.given()))


def test_rule_11_a_plan_that_lacks_the_stage_is_refused_with_what_it_has() -> None:
    session = situations.running()
    session.plan = Plan(name="two", start="other", stages={"other": stage()})
    session.refuses(PlanError, session.body(), match="there is no stage 'work'; it has other")


def test_deciding_changes_nothing_by_itself() -> None:
    session = situations.running()
    before = session.state
    session.decide(session.body({"x": 1}))
    assert session.state is before


def test_time_never_goes_back_within_a_session() -> None:
    session = situations.queued().tick(-10_000)
    session.claim()
    assert session.state.at == START
    assert decode(session.log[-1], ev.Logged).at == START


def test_an_event_says_when_and_who() -> None:
    session = situations.queued().tick(5)
    session.claim("agent:other")
    entry = decode(session.log[-1], ev.Logged)
    assert (entry.at, entry.by) == (START + 5, "agent:other")


def test_a_draft_has_no_state_before_the_session_is_opened() -> None:
    session = Session(two())
    command = Command(session.id, cmd.Resume(seen=1), START, ANN, session.given())
    draft = Draft(None, command)
    assert not draft.opened
    with pytest.raises(AssertionError):
        _ = draft.state


# What a session waits for


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("queued", []),
        ("running", []),
        ("backoff", [DueAt(kind="retry-at", subject="1/2", at=START + 10_000)]),
        ("missing tool", [DueAt(kind="retry-at", subject="1/1", at=START)]),
        ("paused", []),
        ("paused for", [DueAt(kind="resume-at", subject="", at=START + 5_000)]),
        ("waiting-input", []),
        ("approval", []),
        ("effect ticket", []),
        ("ending", []),
        ("ending ticket", []),
        ("done", []),
        ("failed", []),
    ],
)
def test_what_a_session_waits_for_and_until_when(name: str, waits: list[DueAt]) -> None:
    assert dues(situations.ALL[name]().state) == waits


@pytest.mark.parametrize("name", situations.OPEN)
def test_the_deadline_counts_in_every_open_state_but_while_ending(name: str) -> None:
    """Also while waiting or paused (DESIGN §7)."""
    waits = dues(replace(situations.ALL[name]().state, deadline=START + 9))
    assert any(found.kind == "deadline" for found in waits) != name.startswith("ending")


def test_rule_01_a_due_entry_that_no_longer_applies_is_ignored() -> None:
    session = situations.running(backoff=Backoff(first_seconds=10.0)).fail()
    (waited,) = dues(session.state)
    session.tick(20_000)
    stale = [
        due("retry-at", waited.subject, waited.at + 1),
        due("retry-at", "1/1", waited.at),
        due("deadline", "1", waited.at),
        due("resume-at", "", waited.at),
        due("lease", "claim-001", 0),
    ]
    for body in stale:
        session.do(body, TICK)
        session.nothing()
    session.do(due("retry-at", waited.subject, waited.at), TICK)
    session.then(like(ev.PackIssued, cause="retry", attempt=2))
    session.do(due("retry-at", waited.subject, waited.at), TICK)
    session.nothing()


def test_a_due_entry_takes_the_session_s_time_along_where_the_store_s_clock_stepped_back() -> None:
    """The store lets durations pass, and says what is due; the time that the entry names has come then."""
    session = situations.backoff()
    (waited,) = dues(session.state)
    session.do(due("retry-at", waited.subject, waited.at), TICK)
    session.then("PackIssued").stands("queued", at=waited.at)
    session.tick(1).claim()
    assert session.state.at == waited.at


def test_the_deadline_of_an_earlier_step_does_not_fire() -> None:
    session = Session(two(stage(deadline_seconds=60.0), deadline_seconds=60.0)).submit()
    (first,) = dues(session.state)
    session.tick(30_000).claim().done()
    (second,) = dues(session.state)
    assert (first.subject, second.subject) == ("1", "2")
    session.tick(30_000).do(due("deadline", "1", first.at), TICK)
    session.nothing()
    session.tick(30_000).do(due("deadline", "2", second.at), TICK)
    session.then(like(ev.Expired, reason="the deadline of stage tell passed"))


def test_a_deadline_that_two_steps_share_fires_for_the_present_one_only() -> None:
    """The same millisecond, another step: the subject tells them apart."""
    session = Session(two(stage(deadline_seconds=60.0), deadline_seconds=60.0)).submit()
    (first,) = dues(session.state)
    session.claim().done()
    (second,) = dues(session.state)
    assert first.at == second.at
    session.tick(60_000).do(due("deadline", first.subject, first.at), TICK)
    session.nothing()


def test_looking_again_for_a_tool_in_two_steps_of_one_millisecond_is_two_acts() -> None:
    """A command id that both shared would be answered from the record, and the second pack never issued."""
    plan = two(stage(tools=[Grant(tool="mail")]), tools=[Grant(tool="mail")])
    session = Session(plan).submit()
    (first,) = dues(session.state)
    session.register(MAIL)
    session.do(due("retry-at", first.subject, first.at), TICK)
    del session.registered["mail"]
    session.claim().done()
    (second,) = dues(session.state)
    assert first.at == second.at
    ids = {
        cmd.command_id(session.id, due("retry-at", found.subject, found.at), TICK)
        for found in (first, second)
    }
    assert len(ids) == 2
