"""Random acts on a session whose earlier branches are still at work while it writes, waits and is asked (rules 3 and 6).

What meets here is all that may stand beside a join that is not over: truth that comes late, people, the end.
"""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from passdown.broker.core.join import About, Mark
from passdown.contracts.codec import encode
from passdown.contracts.plans import FAIL, Grant, Level, Next, Overdue, Plan, Stage
from tests.unit.core.joins import Parent, named
from tests.unit.core.plans import ARGS, MAIL, NO_WAIT, READ, REFUND, stage
from tests.unit.core.test_random_histories import EXAMPLES, Op, Player, check_history, freed

LIMITS = settings(max_examples=EXAMPLES // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
RULES = [None, Overdue(after_seconds=2.0, to="tell"), Overdue(after_seconds=2.0, to=FAIL)]
OUTCOMES = ("done", "failed", "refused", "cancelled")


def merging(rule: Overdue | None) -> Parent:
    """A write is done, one of the branches after it suffices, and its merge waits in the queue."""
    tools = [Grant(tool="refund", approve="approvers"), Grant(tool="mail")]
    path = [Level(queue="boss", after_seconds=1.0)]
    both = {"tools": tools, "ask": "desk", "escalation": path, "overdue": rule, "max_attempts": 2}
    spread = Stage(fan_out=named(need="any"), next=Next(to="tell"), backoff=NO_WAIT, overdue=rule)
    stages = {
        "first": stage(next=Next(to="spread"), **both),
        "spread": spread,
        "tell": stage(next=Next(to="spread"), **both),
        "work": stage(),
    }
    parent = Parent(Plan(name="random", start="first", max_steps=6, stages=stages), REFUND, MAIL, READ)
    parent.submit().claim()
    parent.report(parent.run("mail", {"to": "x"})).done()
    return parent.opens().ends(1).look()


def asking(rule: Overdue | None) -> Parent:
    """The merge asks."""
    parent = merging(rule).claim()
    parent.ask("why")
    return parent


def telling(rule: Overdue | None) -> Parent:
    """It was merged, and the next stage is at work."""
    parent = merging(rule).claim()
    parent.done()
    return parent.claim()


def unsure(rule: Overdue | None) -> Parent:
    """A return is kept, and a person is asked whether its write happened."""
    parent = telling(rule)
    parent.run("mail", {"to": "y"})
    parent.done().claim().settle(e2="unsure")
    return parent


def proposing(rule: Overdue | None) -> Parent:
    """A write waits for a yes, and of another nobody knows whether it happened."""
    parent = telling(rule)
    parent.run("mail", {"to": "y"})
    parent.intend("refund", ARGS)
    return parent


STARTS: dict[str, Callable[[Overdue | None], Parent]] = {
    one.__name__: one for one in (merging, asking, telling, unsure, proposing)
}


class Branching(Player):
    """Plays ops on a session whose branches end as the ops say."""

    session: Parent

    def _branches(self, pick: int) -> None:
        """A branch ends, or what is due about branches is done, or their join is looked at."""
        session = self.session
        if not session.state.joins:
            return
        if pick % 3 == 0:
            session.opens()
        elif pick % 3 == 1:
            session.ends(pick % 2, OUTCOMES[pick // 3 % 4], {"x": pick % 4})
        else:
            session.look()


acts = st.lists(
    st.tuples(
        st.sampled_from(["act", "act", "act", "report", "branches", "resolve", "due", "cancel", "time"]),
        st.integers(0, 400),
    ),
    max_size=15,
)


@LIMITS
@given(st.sampled_from(list(STARTS)), st.sampled_from(RULES), acts)
def test_rules_03_06_hold_whatever_meets_a_join_that_is_not_over(
    start: str, rule: Overdue | None, played: list[Op]
) -> None:
    session = STARTS[start](rule)
    player = Branching(session.plan, session)
    for op, pick in played:
        player.play(op, pick)
    check_history(session)
    called_off(session)
    check_history(session)


def called_off(session: Parent) -> None:
    """Call the session off, and let whatever it waits for then come; it ends."""
    if not session.state.over:
        session.cancel()
    for _ in range(20):
        state = session.state
        if state.over:
            return
        if state.claim:
            session.lose()
        elif state.issued:
            session.claim().settle()
        elif state.unknown():
            freed(session).resolve("not-done", ticket=state.tickets[0].ticket_no)
        else:
            all_end(session)
    raise AssertionError(f"it never ends: {session.state}")


def all_end(session: Parent) -> None:
    """Let every branch that was opened end."""
    session.opens()
    for join in session.state.joins:
        record = session.records[join.join_id]
        for place in set(range(join.opening)) - set(record.rows):
            record.write(Mark(join.join_id, place, "abc"[place], "cancelled", encode(About())))
        session.look_anyway(join.join_id)
