"""The four groups that the design comes from, with real processes: completion, pause, failure, escalation.

After each: the right stage, the right pack, no repeated effect, no earlier stage run again, `replay` clean.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from passdown.broker.client import Session
from passdown.contracts.events import PackIssued
from passdown.contracts.plans import Grant, Level, Next, Plan
from tests.integration.proof import assert_once, assert_sound, intents
from tests.integration.site import LEASE_S, PASSDOWN, Site, stage, types, wait_until

#: What each stage of the plan may call; before and after each kind of resume it is exactly this.
GRANTS = {"search": ["search.orders"], "approve": [], "write": ["refunds.create"], "notify": ["mail.send"]}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


def plan(**more: object) -> Plan:
    """Search, a person's approval, write, notify."""
    return Plan(
        name="desk",
        start="search",
        stages={
            "search": stage("searcher", tools=[Grant(tool="search.orders")], next=Next(to="approve")),
            "approve": stage("", queue="approvers", goal="May it be paid back?", next=Next(to="write")),
            "write": stage(
                "writer",
                tools=[Grant(tool="refunds.create")],
                recovery="continue",
                next=Next(to="notify"),
                escalation=[Level(queue="seniors")],
                **more,
            ),
            "notify": stage("notifier", tools=[Grant(tool="mail.send")], recovery="continue"),
        },
    )


def passdown(site: Site, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [PASSDOWN, "--store", site.store, *argv], capture_output=True, text=True, timeout=60, check=False
    )


def assert_right(site: Site, session: Session) -> None:
    """Check what must hold after every group."""
    replayed = passdown(site, "replay", session.id)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert_sound(session)
    assert_once(session, site.outside)
    assert intents(session) == ["refunds.create", "mail.send"]
    assert types(session).count("StageEntered") == 4, "no stage was entered twice"
    for step, name in enumerate(GRANTS, 1):
        for attempt in range(1, session_attempts(session, step) + 1):
            pack = session.pack(step, attempt)
            assert pack.stage == name
            assert [tool.name for tool in pack.tools] == GRANTS[name]


def approve(site: Site, session: Session) -> None:
    """A person completes the approval stage, through the command line."""
    wait_until(lambda: session.status() == "waiting-human", "a person is asked")
    done = passdown(site, "--as", "user:ann", "resolve", f"{session.id}/1", "complete", '{"approved": true}')
    assert done.returncode == 0, done.stderr


def test_normal_completion(site: Site) -> None:
    site.broker.register(plan())
    site.tick()
    site.worker()
    submitted = passdown(site, "submit", "desk", "--input", "order=o4711", "--key", "k", "--json")
    assert submitted.returncode == 0, submitted.stderr
    session = site.broker.session("k")
    assert json.loads(submitted.stdout)["sessionId"] == session.id
    approve(site, session)
    outcome = session.result(timeout_s=60)

    assert outcome.result == "done"
    assert session.state().stage == "notify"
    assert_right(site, session)


def test_paused_half_way_and_resumed(site: Site) -> None:
    site.broker.register(plan())
    site.tick()
    worker = site.worker()
    session = site.broker.submit("desk", inputs={"order": "4711"})
    wait_until(lambda: session.status() == "waiting-human", "it is half-way")
    assert passdown(site, "pause", session.id).returncode == 0
    assert session.status() == "paused"
    done = passdown(site, "--as", "user:ann", "resolve", f"{session.id}/1", "complete", '{"approved": true}')
    assert done.returncode == 0, done.stderr
    assert (session.state().stage, session.state().issued) == ("write", None), (
        "nothing is issued while paused"
    )
    site.kill(worker)
    assert passdown(site, "resume", session.id).returncode == 0
    site.worker()

    assert session.result(timeout_s=60).result == "done"
    assert session.pack(3, 1).cause == "first"
    assert_right(site, session)


def test_a_queued_pack_is_withdrawn_by_a_pause_and_reissued_as_resume(site: Site) -> None:
    site.broker.register(plan())
    site.tick()
    worker = site.worker("searcher")
    session = site.broker.submit("desk", inputs={"order": "4711"})
    approve(site, session)
    wait_until(lambda: session.state().stage == "write", "the write waits in its queue")
    site.kill(worker)
    assert passdown(site, "pause", session.id).returncode == 0
    assert session.state().issued is None
    assert passdown(site, "resume", session.id).returncode == 0
    site.worker()

    assert session.result(timeout_s=60).result == "done"
    assert session.pack(3, 2).cause == "resume"
    assert_right(site, session)


def test_resumed_after_days_with_a_moved_clock(site: Site) -> None:
    """The session is paused until in two days; a tick and a worker of that time go on with it (fault celery#9849)."""
    site.broker.register(plan())
    tick = site.tick()
    worker = site.worker()
    session = site.broker.submit("desk", inputs={"order": "4711"})
    approve_later = session
    wait_until(lambda: session.status() == "waiting-human", "it is half-way")
    assert passdown(site, "pause", session.id, "--for", "2d").returncode == 0
    approve_paused(site, approve_later)
    site.kill(worker)
    site.kill(tick)
    # Only the wall clock moves: what waits measures its waits by the monotonic one.
    in_two_days = ("env", "FAKETIME_DONT_FAKE_MONOTONIC=1", "faketime", "-f", "+49h")
    site.tick(prefix=in_two_days)
    site.run(*in_two_days, *site.worker_command())

    wait_until(lambda: session.state().over, "it ends, two days later", 90)
    assert session.state().status == "done"
    elapsed_ms = session.state().at - session.state().opened_at
    assert elapsed_ms > 48 * 3_600_000
    assert_right(site, session)


def approve_paused(site: Site, session: Session) -> None:
    """Complete the approval while the session is paused."""
    done = passdown(site, "--as", "user:ann", "resolve", f"{session.id}/1", "complete", '{"approved": true}')
    assert done.returncode == 0, done.stderr
    assert session.status() == "paused"


def test_failed_and_retried(site: Site) -> None:
    """The worker dies in the middle of the write; the next attempt goes on from the snapshot."""
    site.broker.register(plan())
    site.tick()
    marker = site.folder / "killed"
    doomed = site.killing_worker("after_write", marker)
    session = site.broker.submit("desk", inputs={"order": "4711"})
    approve(site, session)
    doomed.wait(timeout=60)
    site.worker()

    assert session.result(timeout_s=6 * LEASE_S + 30).result == "done"
    assert "EffectUnknown" in types(session)
    assert "EffectSettled" in types(session)
    causes = [session.pack(3, n).cause for n in range(1, session_attempts(session, 3) + 1)]
    assert causes == ["first", "settle", "retry"]
    assert_right(site, session)


def session_attempts(session: Session, step: int) -> int:
    """Return how often a step was issued."""
    return sum(
        isinstance(logged.event, PackIssued) and logged.event.step == step for logged in session.events()
    )


def test_escalated_resolved_by_a_person_and_continued(site: Site) -> None:
    base = plan()
    stages = {
        **base.stages,
        "write": stage("escalator", next=Next(to="refund"), escalation=[Level(queue="seniors")]),
    }
    stages["refund"] = base.stages["write"]
    site.broker.register(Plan(name="desk", start="search", stages=stages))
    site.tick()
    site.worker("searcher", "writer", "notifier", "escalator")
    session = site.broker.submit("desk", inputs={"order": "4711"})
    approve(site, session)
    wait_until(lambda: site.broker.tickets(queue="seniors"), "it is escalated")
    (ticket,) = site.broker.tickets(queue="seniors")
    assert ticket.why == "two accounts match"
    sent = passdown(
        site,
        "--as",
        "user:ben",
        "resolve",
        f"{session.id}/{ticket.ticket_no}",
        "send-back",
        "use the newer account",
    )
    assert sent.returncode == 0, sent.stderr

    assert session.result(timeout_s=60).result == "done"
    rework = session.pack(3, 2)
    assert (rework.cause, rework.stage) == ("rework", "write")
    assert session.state().data["used"] == "use the newer account"
    assert types(session).count("StageEntered") == 5
    assert passdown(site, "replay", session.id).returncode == 0
    assert_once(session, site.outside)
    assert_sound(session)


def test_two_pauses_for_input_work_alike(site: Site) -> None:
    """Fault adk-python#5349: the first pause resumes, and so does the second."""
    site.broker.register(Plan(name="ask", start="only", stages={"only": stage("asker", ask="customers")}))
    site.tick()
    site.worker("asker")
    session = site.broker.submit("ask", key="ask")
    for number, attempt in (("one", 1), ("two", 2)):
        wait_until(
            lambda name=number: any(q.id == name and not q.answered for q in session.state().questions),
            number,
        )
        assert session.status() == "waiting-input"
        done = passdown(site, "--as", "user:cy", "answer", session.id, number, f'"answer {attempt}"')
        assert done.returncode == 0, done.stderr

    assert session.result(timeout_s=60).output == {"said": ["answer 1", "answer 2"]}
    assert [answer.id for answer in session.pack(1, 3).answers] == ["one", "two"]
    assert_sound(session)
