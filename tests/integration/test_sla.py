"""The clock of a ticket: working hours over weekends, holidays and both changes of the clock, levels, and their end.

The store's clock is moved by hand; each look is that of a tick just started, so that nothing is kept between two.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from passdown.broker.app import compose
from passdown.broker.client import Broker
from passdown.broker.core.calendar import DAYS
from passdown.broker.inbox import Draft
from passdown.broker.plans import Calendar, HumanStage, Level, Overdue, People, Plan
from passdown.broker.session import Session
from passdown.broker.tick import Tick
from passdown.contracts import events as ev
from passdown.contracts.errors import Conflict
from tests.servers.redis import RedisServer

BERLIN = ZoneInfo("Europe/Berlin")
#: The longest that may go by, in real time, between asking a store for its clock and deciding by that.
DECIDED_MS = 20_000
SUMMER, WINTER = "2026-03-29", "2026-10-25"


class Clock:
    """The store's clock, set to local times of Berlin."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        return self.now_ms

    def to(self, local: str, *, fold: int = 0) -> None:
        self.now_ms = instant(local, fold=fold)


class Desk:
    """A queue with an escalation path, and the sessions that wait at it."""

    def __init__(self, broker: Broker, clock: Clock) -> None:
        self.broker = broker
        self.clock = clock

    def open(self, local: str) -> Session:
        self.clock.to(local)
        return self.broker.submit("desk")

    def tick(self, local: str, *, fold: int = 0) -> None:
        """Let a tick that was started just now look at this time, until nothing more is due."""
        self.clock.to(local, fold=fold)
        # What the clock says at an opening is reckoned on in real time until it is decided: a ticket may be opened a
        # few milliseconds later than its clock stood, and be due as much later.
        self.clock.now_ms += DECIDED_MS
        tick = Tick(self.broker.app.controller)
        while tick.once().done:
            pass

    def levels(self, session: Session) -> list[str]:
        """Return what became of the session's ticket, with the local times."""
        told: list[str] = []
        for logged in session.events():
            at = datetime.fromtimestamp(logged.at / 1000, BERLIN)
            match logged.event:
                case ev.TicketEscalated(queue=queue):
                    told.append(f"{queue} {at:%a %d %H:%M}")
                case ev.TicketExpired(to=to):
                    told.append(f"{to} {at:%a %d %H:%M}")
                case _:
                    pass
        return told


def instant(local: str, *, fold: int = 0) -> int:
    return int(datetime.fromisoformat(local).replace(tzinfo=BERLIN, fold=fold).timestamp() * 1000)


def plan(hours: Calendar | None, *levels: tuple[str, str], overdue: Overdue | None = None) -> Plan:
    ask = HumanStage(
        queue="tier1",
        people=People(calendar="office" if hours else ""),
        escalation=[Level(queue=queue, after=after) for queue, after in levels],
        overdue=overdue,
        next="end",
    )
    late = {"late": HumanStage(queue="managers", next="end")} if overdue and overdue.to == "late" else {}
    return Plan(
        name="desk", start="ask", calendars={"office": hours} if hours else {}, stages={"ask": ask, **late}
    )


OFFICE = Calendar(zone="Europe/Berlin", weekdays=["09:00-17:00"], holidays=["2026-12-25"])
#: Round the clock, so that a day of 23 or 25 hours shows.
ALWAYS = Calendar(zone="Europe/Berlin", hours={day: ["00:00-24:00"] for day in DAYS})
NIGHT = Calendar(zone="Europe/Berlin", hours={"sun": ["01:00-04:00"]})


@pytest.fixture(params=["sqlite", "redis"])
def open_desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[Plan], Desk]]:
    clock, brokers = Clock(), list[Broker]()
    clock.to("2026-01-05 09:00")

    def made(authored: Plan) -> Desk:
        url = f"sqlite:///{tmp_path / 'p.db'}"
        if request.param == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            url = server.url()
        broker = Broker(compose(url, clock=clock), by="service:shop")
        brokers.append(broker)
        broker.register(authored)
        return Desk(broker, clock)

    yield made
    for broker in brokers:
        broker.close()


def test_hours_pass_over_a_weekend(open_desk: Callable[[Plan], Desk]) -> None:
    desk = open_desk(plan(OFFICE, ("tier2", "2h")))
    session = desk.open("2026-12-04 16:00")  # a Friday
    for quiet in ("2026-12-04 20:00", "2026-12-06 12:00", "2026-12-07 09:59"):
        desk.tick(quiet)
    assert desk.levels(session) == []
    desk.tick("2026-12-07 10:00")
    assert desk.levels(session) == ["tier2 Mon 07 10:00"]


def test_hours_pass_over_a_holiday(open_desk: Callable[[Plan], Desk]) -> None:
    desk = open_desk(plan(OFFICE, ("tier2", "2h")))
    session = desk.open("2026-12-24 16:00")  # Christmas Day is a Friday
    for quiet in ("2026-12-25 12:00", "2026-12-28 09:59"):
        desk.tick(quiet)
    assert desk.levels(session) == []
    desk.tick("2026-12-28 10:00")
    assert desk.levels(session) == ["tier2 Mon 28 10:00"]


@pytest.mark.parametrize(
    ("calendar", "opened", "quiet", "due"),
    [
        # The day of the change to summer time has 23 hours, that of the change back 25.
        (ALWAYS, f"{SUMMER} 00:00", f"{SUMMER} 23:59", "2026-03-30 00:00"),
        (ALWAYS, f"{WINTER} 00:00", f"{WINTER} 21:59", f"{WINTER} 22:00"),
        # From one to four there are two hours, or four.
        (NIGHT, f"{SUMMER} 00:00", "2026-04-05 01:59", "2026-04-05 02:00"),
        (NIGHT, f"{WINTER} 00:00", f"{WINTER} 02:59", f"{WINTER} 03:00"),
    ],
    ids=["summer, all day", "winter, all day", "summer, at night", "winter, at night"],
)
def test_hours_pass_over_a_change_of_the_clock(
    open_desk: Callable[[Plan], Desk], calendar: Calendar, opened: str, quiet: str, due: str
) -> None:
    hours = "3h" if calendar is NIGHT else "23h"
    desk = open_desk(plan(calendar, ("tier2", hours)))
    session = desk.open(opened)
    desk.tick(quiet)
    assert desk.levels(session) == []
    desk.tick(due)
    at = datetime.fromisoformat(due)
    assert desk.levels(session) == [f"tier2 {at:%a %d %H:%M}"]


def test_three_levels_and_then_the_terminal_rule(open_desk: Callable[[Plan], Desk]) -> None:
    levels = (("tier2", "1h"), ("tier3", "2h"), ("leads", "9h"))
    desk = open_desk(plan(OFFICE, *levels, overdue=Overdue(after="10h", to="fail")))
    session = desk.open("2026-12-07 09:00")
    desk.tick("2026-12-07 10:00")
    desk.tick("2026-12-07 11:00")
    assert session.state().tickets[0].queue == "tier3"
    desk.tick("2026-12-07 23:00")
    desk.tick("2026-12-08 10:00")
    desk.tick("2026-12-08 11:00")
    assert desk.levels(session) == [
        "tier2 Mon 07 10:00",
        "tier3 Mon 07 11:00",
        "leads Tue 08 10:00",
        "fail Tue 08 11:00",
    ]
    assert session.status() == "failed"


def test_the_terminal_rule_may_lead_to_a_stage(open_desk: Callable[[Plan], Desk]) -> None:
    desk = open_desk(plan(None, ("tier2", "1h"), overdue=Overdue(after="2h", to="late")))
    session = desk.open("2026-12-07 09:00")
    desk.tick("2026-12-07 11:00")  # a tick that was away for long does one after the other
    assert desk.levels(session) == ["tier2 Mon 07 11:00", "late Mon 07 11:00"]
    assert [one.queue for one in session.state().tickets] == ["managers"]


def test_nobody_is_called_for_while_somebody_holds_the_ticket(open_desk: Callable[[Plan], Desk]) -> None:
    desk = open_desk(plan(None, ("tier2", "1h")))
    session = desk.open("2026-12-07 09:00")
    inbox = Broker(desk.broker.app, by="user:ann").inbox
    desk.clock.to("2026-12-07 09:50")
    inbox.claim(session.id, 1, lease_s=3600)
    desk.tick("2026-12-07 10:49")
    assert desk.levels(session) == []
    desk.tick("2026-12-07 10:50")  # the lease ran out, so the level is overdue
    assert desk.levels(session) == ["tier2 Mon 07 10:50"]
    ticket = session.state().tickets[0]
    assert (ticket.queue, ticket.lapses, ticket.holder) == ("tier2", 1, None)


def test_h11_a_lease_that_runs_out_while_somebody_types(open_desk: Callable[[Plan], Desk]) -> None:
    """What was typed is there for the same person, and for nobody else; the late answer is refused by name."""
    desk = open_desk(plan(None))
    session = desk.open("2026-12-07 09:00")
    ann, bob = (Broker(desk.broker.app, by=name).inbox for name in ("user:ann", "user:bob"))
    mine = ann.claim(session.id, 1, lease_s=600)
    ann.keep_draft(session.id, 1, Draft(resolution="complete", note="half a sen"))
    desk.tick("2026-12-07 09:10")
    theirs = bob.next(queue="tier1")
    assert theirs is not None
    assert (theirs.lapses, bob.draft(session.id, 1)) == (1, None), (
        "the next holder does not get it as their own"
    )
    for late in (
        lambda: ann.resolve(session.id, 1, "complete", {"a": 1}, version=mine.version, lease=mine.lease),
        lambda: ann.extend(session.id, 1, lease=mine.lease),
        lambda: ann.release(session.id, 1, lease=mine.lease),
    ):
        with pytest.raises(Conflict) as told:
            late()
        assert told.value.winner == "user:bob"
    kept = ann.draft(session.id, 1)
    assert kept is not None
    assert kept.draft == Draft(resolution="complete", value={"a": 1}), "what they sent too late is kept"
    assert bob.draft(session.id, 1) is None
    bob.resolve(session.id, 1, "complete", {"b": 2})
    with pytest.raises(Conflict) as told:
        ann.resolve(session.id, 1, "complete", {"a": 1}, version=mine.version, lease=mine.lease)
    assert (told.value.winner, told.value.decided) == ("user:bob", "complete")
    outcome = session.state().outcome
    assert outcome is not None
    assert outcome.output == {"b": 2}
