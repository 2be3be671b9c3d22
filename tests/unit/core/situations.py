"""Every place where a session can stand: name → how it got there."""

from collections.abc import Callable
from typing import Any

from passdown.contracts.plans import FAIL, Backoff, Grant, Level, Next, Overdue, Permit, Stage
from tests.unit.core import desk, joins
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, two, writing
from tests.unit.core.spec import BOB, Session

Situation = Callable[..., Session]


def queued(**fields: Any) -> Session:
    """A pack waits in the queue."""
    return Session(writing(**fields), REFUND, MAIL).submit({"order": "4711"})


def running(**fields: Any) -> Session:
    """A worker holds the attempt."""
    return queued(**fields).claim()


def intended(**fields: Any) -> Session:
    """A write is under way."""
    session = running(**fields)
    session.run("refund", ARGS)
    return session


def settle_queued(**fields: Any) -> Session:
    """Nobody knows whether the write happened, and its tool will be asked."""
    return intended(**fields).lose()


def settle_running(**fields: Any) -> Session:
    return settle_queued(**fields).claim()


def effect_ticket(**fields: Any) -> Session:
    """The tool could not tell, so a person is asked."""
    return settle_running(**fields).settle(e1="unsure")


def kept_return() -> Session:
    """A return waits for a person to say whether its write happened."""
    return intended().done({"go": 1}).claim().settle(e1="unsure")


def backoff(**fields: Any) -> Session:
    """A retry waits its time."""
    return running(backoff=Backoff(first_seconds=10.0), **fields).fail()


def waiting_input(**fields: Any) -> Session:
    """The producer is asked."""
    return running(**fields).ask("why", "when")


def question_ticket(**fields: Any) -> Session:
    """A person's queue is asked."""
    return running(ask="desk", **fields).ask("why", "when")


def approval(**fields: Any) -> Session:
    """A person must see the action first."""
    session = running(approve="approvers", **fields)
    session.intend("refund", ARGS)
    return session


def permission() -> Session:
    """The stage denies the call, and a person may permit it."""
    permits = [Permit(tool="refund", queue="security")]
    session = running(tools=[Grant(tool="mail")], permits=permits)
    session.intend("refund", ARGS)
    return session


def unmet() -> Session:
    """What was approved failed, and the agent returned without it."""
    session = approval().resolve("approve").claim()
    return session.report(session.run("refund", ARGS), "failed", error="no funds").done({"go": 1})


def held() -> Session:
    """Somebody holds the ticket of a failure, which is overdue some time."""
    return desk.claim(failure(overdue=Overdue(after_seconds=60.0, to="tell")))


def resting() -> Session:
    """A ticket was put off."""
    session = failure(overdue=Overdue(after_seconds=60.0, to="tell"))
    session.do(desk.snoozing(session), BOB)
    return session


def escalation(**fields: Any) -> Session:
    return running(escalation=[Level(queue="leads")], **fields).escalate()


def failure(**fields: Any) -> Session:
    """Attempts are used up."""
    return running(max_attempts=1, **fields).fail()


def human_stage() -> Session:
    """The stage is a person's."""
    return Session(two(Stage(queue="desk", next=Next(to="work"))), READ).submit().claim().done()


def missing_tool() -> Session:
    """A tool was never registered."""
    return Session(writing(), REFUND).submit()


def paused() -> Session:
    return queued().pause()


def paused_running() -> Session:
    return running().pause()


def paused_for() -> Session:
    return queued().pause(5_000)


def ending() -> Session:
    """Called off while a write is under way."""
    return intended().cancel()


def ending_settle() -> Session:
    return settle_queued().cancel()


def ending_ticket() -> Session:
    return effect_ticket().cancel()


def done() -> Session:
    """The plan ran to its end, with an effect done on the way."""
    session = running(next=Next())
    return session.report(session.run("refund", ARGS)).done()


def refused() -> Session:
    session = running()
    return session.report(session.run("refund", ARGS)).refuse()


def failed() -> Session:
    session = running(max_attempts=1, on_failed=FAIL)
    return session.report(session.run("refund", ARGS)).fail()


def cancelled() -> Session:
    session = running()
    return session.report(session.run("refund", ARGS)).cancel()


def expired() -> Session:
    session = running(deadline_seconds=60.0)
    return session.report(session.run("refund", ARGS)).due("deadline")


def disputed() -> Session:
    """An effect is held for done, and its worker says that nothing was written."""
    session = running()
    effect = session.run("refund", ARGS)
    return session.report(effect).report(effect, "failed", error="it did not")


def waiting_join() -> Session:
    """Branches are at work."""
    return joins.spread()


def waiting_join_opening() -> Session:
    """Branches are to be opened."""
    return joins.Parent(joins.fan()).submit()


def join_deadline() -> Session:
    """Branches are at work, and not waited for for ever."""
    return joins.spread(joins.named(deadline_seconds=60.0))


def join_conflict() -> Session:
    """Branches disagree, and a person is asked."""
    return joins.asked("conflict")


def join_short() -> Session:
    return joins.asked("short")


def merge_queued() -> Session:
    """Enough branches ended, and others are still to be called off."""
    return joins.spread(joins.named(need="any")).ends(1).look()


def merge_running() -> Session:
    return merge_queued().claim()


def merge_asks() -> Session:
    """A merge asks its producer, while branches are still to be called off."""
    return merge_running().ask("why", "when")


def ending_done() -> Session:
    """The work is done, and branches have not ended yet."""
    return joins.spread(joins.named(need="any"), next=Next()).ends(1).look().claim().done()


def sent_back() -> Session:
    """A branch is to be sent back to."""
    return join_conflict().resolve("send-back", {"branches": ["a"], "feedback": "again"})


def ending_branches() -> Session:
    return waiting_join().cancel()


def paused_join() -> Session:
    return waiting_join().pause()


OPEN: dict[str, Situation] = {
    "queued": queued,
    "running": running,
    "intended": intended,
    "settle queued": settle_queued,
    "settle running": settle_running,
    "effect ticket": effect_ticket,
    "kept return": kept_return,
    "disputed": disputed,
    "backoff": backoff,
    "waiting-input": waiting_input,
    "question ticket": question_ticket,
    "approval": approval,
    "permission": permission,
    "unmet": unmet,
    "held": held,
    "resting": resting,
    "escalation": escalation,
    "failure": failure,
    "human stage": human_stage,
    "missing tool": missing_tool,
    "paused": paused,
    "paused running": paused_running,
    "paused for": paused_for,
    "ending": ending,
    "ending settle": ending_settle,
    "ending ticket": ending_ticket,
    "waiting-join": waiting_join,
    "waiting-join opening": waiting_join_opening,
    "join deadline": join_deadline,
    "join in conflict": join_conflict,
    "join short": join_short,
    "merge queued": merge_queued,
    "merge running": merge_running,
    "merge asks": merge_asks,
    "ending done": ending_done,
    "sent back": sent_back,
    "ending branches": ending_branches,
    "paused join": paused_join,
}
OVER: dict[str, Situation] = {
    "done": done,
    "refused": refused,
    "failed": failed,
    "cancelled": cancelled,
    "expired": expired,
}
ALL: dict[str, Situation] = {**OPEN, **OVER}
