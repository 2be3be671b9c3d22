"""One approval, and several processes at one moment: yes, no, another's claim, a changed action, a cancel, its end.

With real agents and tools, on both stores; what happened outside is counted there.
"""

import random
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from passdown.broker.briefs import brief_of
from passdown.broker.plans import Overdue
from passdown.broker.session import Session
from passdown.contracts import events as ev
from tests.integration.site import wait_until
from tests.integration.till import ANN, BOB, CAT, Till
from tests.integration.voters import Act, Told, Voters
from tests.servers.redis import RedisServer

#: How long after its opening an approval that nobody gave ends the session.
OVERDUE = timedelta(milliseconds=60)
#: By how much acts miss their moment at most (seconds).
JITTER_S = 0.002

OpenTill = Callable[..., "Races"]


class Races:
    """A till, and people in processes of their own who act on its approvals."""

    def __init__(self, till: Till, voters: Voters, rounds: int) -> None:
        self.till, self.bank = till, till.bank
        self._voters = voters
        self._rounds = rounds
        self._chance = random.Random(4711)

    def sessions(self) -> Iterator[Session]:
        """Open one session after the other, each as far as its approval."""
        for n in range(self._rounds):
            yield self.till.submit(f"k-{n}")

    def at_once(self, *acts: Act) -> list[Told]:
        """Have all acts done at one moment, as nearly as processes go: each is a little late, by chance."""
        late = [act._replace(late_s=act.late_s + self._chance.uniform(0, JITTER_S)) for act in acts]
        return self._voters.at_once(self.till.url, *late)

    def while_it_works(self, *acts: Act) -> list[Told]:
        """Have all acts done at one moment, while the agent goes on with whatever it may."""
        over = threading.Event()

        def work() -> None:
            while not over.is_set():
                self.till.work()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            return self.at_once(*acts)
        finally:
            over.set()
            thread.join()

    def paid(self, session: Session) -> list[int]:
        """Return what was paid for a session, once nothing is left to do."""
        self.till.work()
        return [cents for key, cents in self.bank.paid if key.startswith(session.id)]


@pytest.fixture(scope="module")
def voters() -> Iterator[Voters]:
    made = Voters(3)
    yield made
    made.close()


@pytest.fixture(params=[10, pytest.param(50, marks=pytest.mark.soak)])
def rounds(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture(params=["sqlite", "redis"])
def open_till(
    request: pytest.FixtureRequest, tmp_path: Path, voters: Voters, rounds: int
) -> Iterator[OpenTill]:
    tills: list[Till] = []

    def opened(**how: Any) -> Races:
        url = f"sqlite:///{tmp_path / 'p.db'}"
        if request.param == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            url = server.url()
        tills.append(Till(url, **how))
        return Races(tills[-1], voters, rounds)

    yield opened
    for till in tills:
        till.close()


def yes(session: Session, by: str, version: int = 1) -> Act:
    return Act(by, "approve", session.id, version=version)


def decisions(session: Session) -> list[tuple[str, str]]:
    """Return who decided the session's first ticket, and how, as the log says."""
    return [
        (logged.by, logged.event.resolution)
        for logged in session.events()
        if isinstance(logged.event, ev.TicketResolved) and logged.event.ticket_no == 1
    ]


def test_rule_03_yes_and_no_are_one_effect_or_none(open_till: OpenTill) -> None:
    races = open_till()
    for session in races.sessions():
        told = races.at_once(yes(session, ANN), Act(BOB, "deny", session.id, version=1))
        (decided,) = decisions(session)
        assert [one.through for one in told] == [decided == (ANN, "approve"), decided == (BOB, "deny")]
        (loser,) = [one for one in told if not one.through]
        assert loser == decided, "whoever was second is told what holds"
        assert races.paid(session) == ([50] if decided == (ANN, "approve") else [])


def test_rule_08_of_three_who_approve_two_count_and_it_runs_once(open_till: OpenTill) -> None:
    races = open_till(approvals=2)
    for session in races.sessions():
        version, agreed = 1, list[str]()
        while ticket := session.state().ticket(1):  # who came second looks again
            version = ticket.version
            left = [name for name in (ANN, BOB, CAT) if name not in agreed]
            told = races.at_once(*(yes(session, name, version) for name in left))
            agreed += [name for name, one in zip(left, told, strict=True) if one.through]
            assert len(set(agreed)) == len(agreed) <= 2
        (effect,) = session.state().effects
        assert effect.approval is not None
        assert {effect.approval.by, *effect.approval.also} == set(agreed)
        assert races.paid(session) == [50]


def test_rule_08_a_yes_to_an_action_that_is_changed_meanwhile_is_void(open_till: OpenTill) -> None:
    """One says yes to what they saw while another changes it: the changed action needs two who saw it so."""
    races = open_till(approvals=2)
    changed = {"order": "4711", "cents": 70}
    for session in races.sessions():
        edit = Act(BOB, "edit", session.id, value=changed, version=1)
        ann, bob = races.at_once(yes(session, ANN), edit)
        assert ann.through != bob.through, "both saw version 1, and only one of them came first"
        if ann.through:
            (bob,) = races.at_once(edit._replace(version=2))
            assert bob.through
        ticket = session.state().ticket(1)
        assert ticket is not None
        assert (ticket.approved_by, ticket.edited) == ([BOB], changed)
        assert races.paid(session) == []
        (cat,) = races.at_once(yes(session, CAT, ticket.version))
        assert cat.through
        assert races.paid(session) == [70]


def test_h28_a_late_yes_is_not_one_to_what_the_agent_proposes_next(open_till: OpenTill) -> None:
    """Two approve 50 while the agent, once it may go on, comes back with 5,000: nobody approved that."""
    races = open_till(amounts=(50, 5_000))
    for session in races.sessions():
        told = races.while_it_works(yes(session, ANN), yes(session, BOB))
        assert [one.through for one in told].count(True) == 1
        assert races.paid(session) == []
        (ticket,) = session.state().tickets
        assert (ticket.ticket_no, ticket.kind, ticket.approved_by) == (2, "approval", [])


def test_rule_08_whose_ticket_is_taken_over_says_no_yes_any_more(open_till: OpenTill) -> None:
    races = open_till()
    for session in races.sessions():
        races.till.person(ANN).inbox.claim(session.id, 1)
        ann, bob = races.at_once(yes(session, ANN, 2), Act(BOB, "take-over", session.id))
        assert ann.through != bob.through
        if ann.through:
            assert bob == (ANN, "approve")
            assert races.paid(session) == [50]
            continue
        assert ann.winner == BOB
        assert races.paid(session) == []
        (bob,) = races.at_once(Act(BOB, "deny", session.id))
        assert bob.through
        assert races.paid(session) == []


def test_rule_03_what_is_called_off_is_not_paid_or_is_on_record(open_till: OpenTill) -> None:
    races = open_till()
    for session in races.sessions():
        ann, cancel = races.while_it_works(yes(session, ANN), Act("user:boss", "cancel", session.id))
        assert ann.through or cancel.through
        paid = races.paid(session)
        assert session.status() == ("cancelled" if cancel.through else "done")
        (effect,) = session.state().effects
        assert paid == ([50] if effect.status == "done" else []), "also what was under way is on record"
        if not cancel.through:
            assert paid == [50]
        if not ann.through:
            assert paid == []
            assert (ann.winner, ann.decided) == ("user:boss", "withdrawn: the customer withdrew")


def test_rule_03_a_yes_at_the_moment_when_it_expires_is_in_time_or_void(open_till: OpenTill) -> None:
    races = open_till(overdue=Overdue(after=OVERDUE, to="fail"))
    for session in races.sessions():
        ticket = session.state().tickets[0]
        assert ticket.escalate_at is not None
        left_s = (ticket.escalate_at - races.till.now_ms()) / 1000
        at = max(0.0, left_s - JITTER_S)
        ann, _ = races.at_once(
            yes(session, ANN)._replace(late_s=at), Act("service:tick", "tick", session.id, late_s=at)
        )
        # The tick may have looked just before the moment.
        wait_until(lambda id_=session.id: _settled(races, id_), "the approval ends")
        paid = races.paid(session)
        assert (session.status(), paid) == (("done", [50]) if ann.through else ("failed", []))
        if not ann.through:
            assert ann.decided == "expired: nobody resolved it in time"


def test_h29_approved_and_then_failed_is_seen_and_back_in_a_queue(open_till: OpenTill) -> None:
    till = open_till().till
    till.bank.refuses = 1
    session = till.submit("k")
    till.person(ANN).inbox.resolve(session.id, 1, "approve", version=1)
    till.work()
    (ticket,) = session.state().tickets
    assert (ticket.kind, ticket.queue, session.status()) == ("unmet", "approvers", "waiting-human")
    assert ticket.why == "pay was approved by user:ann, and then failed: the bank is closed"
    (effect,) = brief_of(till.broker.app.controller, session.id, ticket.ticket_no).effects.shown
    assert effect.decision.startswith("approved by user:ann in ticket 1")
    assert effect.outcome.startswith("failed")
    till.person(BOB).inbox.resolve(session.id, ticket.ticket_no, "approve", version=ticket.version)
    till.work()
    assert (len(till.bank.paid), session.status()) == (1, "done")


def _settled(races: Races, session_id: str) -> bool:
    races.till.tick()
    return races.till.broker.session(session_id).state().ticket(1) is None
