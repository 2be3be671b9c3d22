"""What is told outside is a function of the log: each change of the status that a commit left behind, once, in order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passdown.broker.core.telling import Telling, tellings, to_tell
from passdown.contracts import commands as cmd
from passdown.contracts import outgoing
from passdown.contracts.codec import digest_of, encode
from passdown.contracts.errors import ContractError
from passdown.contracts.outgoing import Outcome, OutcomeEvent, StatusEvent
from passdown.contracts.plans import Plan, plan_ref
from passdown.contracts.replies import Reply
from tests.unit.core.joins import Parent, fan
from tests.unit.core.plans import MAIL, READ, REFUND, one, two
from tests.unit.core.spec import AGENT, ANN, Session
from tests.unit.core.test_random_histories import LIMITS, Op, Player, ops, plans

SOURCE = "/passdown"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def session_of(plan: Plan, *, events_to: str = "shop.events", **more: Any) -> Session:
    session = Session(plan)
    session.events_to = events_to
    return session.submit(**more)


def told(session: Session, after: int = 0) -> list[Telling]:
    return tellings(session.log, after, SOURCE)


def words(found: list[Telling]) -> list[tuple[str, str, str]]:
    return [(one.exchange, one.key, one.event.data.before) for one in found]


def test_a_session_is_told_of_from_its_opening_to_its_end() -> None:
    session = session_of(one(), trace=TRACE, task_name="Acme").tick(5).claim().tick(5).done({"n": 1})
    found = told(session)
    assert words(found) == [
        ("shop.events", "queued.one", ""),
        ("shop.events", "running.one", "queued"),
        ("shop.events", "done.one", "running"),
    ]
    first, _, last = [telling.event for telling in found]
    assert isinstance(first, StatusEvent)
    assert first.id == f"{session.id}/1"
    assert (first.source, first.subject, first.time) == (SOURCE, session.id, "2023-11-14T22:13:20.000Z")
    assert (first.taskid, first.traceparent) == (session.state.task_id, TRACE)
    assert isinstance(last, OutcomeEvent)
    assert last.id == f"{session.id}/{session.state.seq}"
    assert last.time == "2023-11-14T22:13:20.010Z"
    assert last.data.output == {"n": 1}
    assert (last.data.status, last.data.plan, last.data.stage, last.data.step) == ("done", "one@1", "work", 1)
    assert (last.data.task_name, last.data.key) == ("Acme", session.key)


def test_a_queue_gets_the_outcome_and_nothing_else() -> None:
    session = session_of(one(), events_to="", reply_to="shop.replies").claim().done()
    ((exchange, key, event, *_),) = told(session)
    assert (exchange, key) == ("", "shop.replies")
    assert isinstance(event, OutcomeEvent)


def test_exchange_and_queue_get_the_same_outcome() -> None:
    session = session_of(one(), reply_to="shop.replies").claim().done()
    *_, there, here = told(session)
    assert (there.exchange, here.exchange, here.key) == ("shop.events", "", "shop.replies")
    assert encode(there.event) == encode(here.event)


def test_a_branch_is_told_of_under_its_own_id_with_its_parent_and_on_no_queue() -> None:
    parent = Parent(fan())
    parent.events_to = "shop.events"
    parent.submit(reply_to="shop.replies")
    branch = parent.branch(1).tick(5).claim().tick(5).done({"n": 1})
    found = told(branch)
    assert words(found) == [
        ("shop.events", "queued.fan", ""),
        ("shop.events", "running.fan", "queued"),
        ("shop.events", "done.fan", "running"),
    ]
    for telling in found:
        assert telling.event.subject == branch.id
        assert telling.event.id.startswith(f"{branch.id}/")
        assert (telling.event.data.parent, telling.event.data.branch) == (parent.id, "b")
    assert [one.event.data.parent for one in told(parent)] == [""]


def test_a_branch_that_was_called_off_before_it_was_opened_is_told_of_as_cancelled() -> None:
    parent = Parent(fan())
    parent.events_to = "shop.events"
    branch = parent.submit().branch(1, cancel="its branch is no longer needed")
    assert words(told(branch)) == [("shop.events", "cancelled.fan", "")]


def test_what_nobody_asked_for_is_told_nobody() -> None:
    session = session_of(one(), events_to="").claim().done()
    assert told(session) == []
    assert not to_tell(None, session.state)


def test_between_two_stages_no_status_shows_that_was_never_there() -> None:
    """Returned, StageEntered and PackIssued are one commit: from running to queued."""
    session = session_of(two()).tick(1).claim().tick(1).done().tick(1).claim().tick(1).done()
    assert [key for _, key, _ in words(told(session))] == [
        "queued.two",
        "running.two",
        "queued.two",
        "running.two",
        "done.two",
    ]


def test_what_was_told_already_is_left_out_and_the_rest_stays_the_same() -> None:
    session = session_of(two()).claim().done().claim().done()
    whole = told(session)
    for n, telling in enumerate(whole):
        assert told(session, int(telling.event.id.partition("/")[2])) == whole[n + 1 :]


def test_claim_and_return_within_one_millisecond_are_two_changes() -> None:
    session = session_of(one()).claim().done()
    assert [key for _, key, _ in words(told(session))] == ["queued.one", "running.one", "done.one"]


@pytest.mark.parametrize("reason", ["enough", "x" * 100_000])
def test_another_end_says_why(reason: str) -> None:
    session = session_of(one()).tick(1).cancel(reason)
    event = told(session)[-1].event
    assert isinstance(event, OutcomeEvent)
    assert (event.data.status, event.data.before) == ("cancelled", "queued")
    assert event.data.reason.startswith(reason[:400])
    assert "output" not in encode(event).decode()
    assert len(encode(event)) < 4096


def test_rule_12_an_output_beyond_the_budget_goes_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    output = {"text": "x" * 3000}
    session = session_of(one()).claim().done(output)
    monkeypatch.setattr("passdown.broker.core.telling.OUTGOING_BUDGET", 3000)
    data = told(session)[-1].event.data
    assert isinstance(data, Outcome)
    assert (data.output_digest, data.output_bytes) == (digest_of(output), len(encode(output)))
    assert len(encode(told(session)[-1].event)) < 3000


def test_null_is_an_output_and_travels() -> None:
    session = session_of(one(), events_to="", reply_to="q")
    event = told(session.claim().done({"a": None}))[-1].event
    assert b'"output":{"a":null}' in encode(event)


def test_a_session_that_is_reopened_has_another_outcome() -> None:
    session = session_of(one(max_attempts=1, on_failed="fail"), reply_to="q", events_to="")
    session.claim().fail().tick(1).retry().tick(1).claim().tick(1).done()
    assert [telling.event.data.status for telling in told(session)] == ["failed", "done"]
    assert len({telling.event.id for telling in told(session)}) == 2


def test_a_log_that_does_not_fold_is_refused() -> None:
    session = session_of(one()).claim()
    with pytest.raises(ContractError, match="chain is broken"):
        tellings([session.log[0], session.log[2]], 0, SOURCE)


# -- where to ----------------------------------------------------------------------------------------------


def test_where_to_is_fixed_when_the_session_is_opened() -> None:
    session = session_of(one(), reply_to="q")
    session.events_to = "elsewhere"
    session.claim().done()
    assert (session.state.events_to, session.state.reply_to) == ("shop.events", "q")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a b", "expected 1 to 100"),
        ("x" * 101, "expected 1 to 100"),
        ("q\n", "expected 1 to 100"),
        ("pd:{0}:queue", "expected 1 to 100"),
        (".q", "expected 1 to 100"),
        ("passdown.cashier", "belongs to Passdown"),
        ("passdown.returns", "belongs to Passdown"),
        ("amq.topic", "belongs to Passdown"),
        ("unacked", "belongs to Passdown"),
    ],
)
def test_rule_11_a_queue_that_cannot_be_or_is_not_theirs_is_refused(name: str, said: str) -> None:
    session = Session(one())
    body = cmd.Submit(key="k", plan=plan_ref(session.plan), reply_to=name)
    error = session.refuses(ContractError, body, ANN, match=said)
    assert "/replyTo" in str(error)


@pytest.mark.parametrize("name", ["q", "shop.replies", "Shop_1:replies-x", "7", "x" * 100, "passdownish"])
def test_other_names_are_fine(name: str) -> None:
    outgoing.check_name(name, what="queue")


# -- any history -------------------------------------------------------------------------------------------


class Watched(Session):
    """Writes down each status that a commit left behind anew; `step_ms` passes before each."""

    def __init__(self, plan: Plan, step_ms: int) -> None:
        super().__init__(plan, REFUND, MAIL, READ)
        self.events_to = "events"
        self.step_ms = step_ms
        self.changes: list[str] = []
        self.ends: list[int] = []

    def do(self, body: cmd.Body, by: str = AGENT) -> Reply:
        before = self._state
        if before:
            self.at = max(self.at, before.at + self.step_ms)
        try:
            return super().do(body, by)
        finally:
            state = self._state
            if state is not None and to_tell(before, state):
                self.changes.append(state.shown_status)
                self.ends.append(state.seq)


def played(plan: Plan, history: list[Op], step_ms: int) -> Watched:
    player = Player(plan)
    player.session = session = Watched(plan, step_ms)
    session.submit({"order": "o"})
    for op, pick in history:
        player.play(op, pick)
    return session


def statuses(found: list[Telling]) -> list[str]:
    return [one.event.data.status for one in found]


@LIMITS
@given(plans(), st.lists(ops, max_size=60))
def test_each_change_that_a_commit_left_behind_is_told_and_no_other(plan: Plan, history: list[Op]) -> None:
    session = played(plan, history, step_ms=1)
    found = told(session)
    assert statuses(found) == session.changes
    assert [one.event.data.before for one in found] == ["", *session.changes[:-1]]


@LIMITS
@given(plans(), st.lists(ops, max_size=60))
def test_where_time_stands_still_nothing_is_told_that_was_not_there(plan: Plan, history: list[Op]) -> None:
    """Two acts of one principal within a millisecond may be told as one; the last status always is."""
    session = played(plan, history, step_ms=0)
    found = statuses(told(session))
    left = iter(session.changes)
    assert all(status in left for status in found)
    assert found[-1] == session.state.shown_status


@LIMITS
@given(plans(), st.lists(ops, max_size=60), st.sampled_from([0, 1]))
def test_whoever_tells_later_says_the_same_under_the_same_id(
    plan: Plan, history: list[Op], step_ms: int
) -> None:
    session = played(plan, history, step_ms)
    early = [last for end in session.ends for last in tellings(session.log[:end], 0, SOURCE)[-1:]]
    later = {telling.event.id: telling.event for telling in told(session)}
    for telling in early:
        assert later.get(telling.event.id, telling.event).data.status == telling.event.data.status
    if step_ms:
        assert {telling.event.id: telling.event for telling in early} == later
