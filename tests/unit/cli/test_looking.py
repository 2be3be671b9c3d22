"""`status`, `list`, `tickets`: where things stand, and what to type next."""

import json
import re
from typing import Any

import pytest

from passdown.broker.cli.views.sessions import StatusView, view_of
from passdown.broker.core.parts import Issued, Outcome, Owed
from passdown.broker.core.state import State
from passdown.broker.stores.queries import Beside, QueueRow
from passdown.contracts.plans import Grant, PlanRef
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk, help_plan


def status_of(cli: Cli, session: str) -> dict[str, Any]:
    said = cli("status", session, "--json")
    assert (said.code, said.err) == (0, "")
    return json.loads(said.out)


def waits(view: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["kind"]: one for one in view["waits"]}


def typed(command: str) -> list[str]:
    """Return the words of a command that `status` tells people to type, without its first."""
    return command.split()[1:]


def test_a_session_is_found_by_its_id_and_by_its_key(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("order/4711 ü", orderId="1")
    assert status_of(at_desk, session.id) | {"now": 0} == status_of(at_desk, "order/4711 ü") | {"now": 0}


def test_a_queued_session_waits_for_a_worker_of_its_role(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", orderId="1")
    view = status_of(at_desk, "k")
    assert (view["status"], view["stage"], view["step"], view["attempt"], view["cause"]) == (
        "queued",
        "check",
        1,
        1,
        "first",
    )
    assert (view["taskName"], view["plan"], view["by"], view["key"]) == (
        "Task of k",
        "refund@1",
        "user:producer",
        "k",
    )
    what = "a worker of role analyst to take the pack (its queue: 1 ready, 0 taken, 0 running)"
    assert waits(view)["worker"]["what"] == what
    assert what in at_desk("status", "k").out


def test_an_approval_shows_the_exact_action_and_how_to_decide_it(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="4711")
    desk.work()
    view = status_of(at_desk, "k")
    (ticket,) = view["tickets"]
    assert ticket["args"] == {"order_id": "4711", "cents": 5000}
    assert ticket["do"] == f"passdown resolve {session.id}/1 RESOLUTION --version 1 --as PRINCIPAL"
    out = at_desk("status", "k").out
    assert 'refunds.create {"cents":5000,"order_id":"4711"}' in out
    assert "1 approval in refund-approvers for " in out
    assert "RESOLUTION is one of approve, deny, edit, cancel" in out
    assert ticket["do"] in out
    assert "1 proposed" in out


def test_a_question_shows_what_it_asks_and_how_to_answer_it(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="1", ask=True)
    desk.work()
    view = status_of(at_desk, "k")
    assert view["status"] == "waiting-input"
    assert waits(view)["answer"]["do"] == f"passdown answer {session.id} reason VALUE"
    out = at_desk("status", "k").out
    assert "reason (attempt 1, of producer): Why back?" in out
    assert 'VALUE must fit {"type":"string"}' in out
    do = re.sub("VALUE", "because", view["questions"][0]["do"])
    assert at_desk(*typed(do)).code == 0
    assert 'answered by user:producer: "because"' in at_desk("status", "k").out


def test_a_tool_that_nobody_registered_is_named(at_desk: Cli, desk: Desk) -> None:
    desk.broker.register(help_plan(tools=[Grant(tool="stock.read"), Grant(tool="orders.read")]))
    desk.submit("k", plan="help")
    view = status_of(at_desk, "k")
    assert view["missingTools"] == ["stock.read"]
    assert waits(view)["tools"]["what"] == "tools that nobody registered: stock.read"
    assert isinstance(waits(view)["tools"]["until"], int)
    out = at_desk("status", "k").out
    assert "tools that nobody registered: stock.read, due since " in out
    assert "passdown tools register MODULE" in out


def test_a_paused_session_says_until_when(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="1")
    session.pause(for_s=3600)
    view = status_of(at_desk, "k")
    assert view["status"] == "paused"
    wait = waits(view)["resume"]
    assert 3_590_000 < wait["until"] - view["now"] <= 3_600_000
    assert at_desk(*typed(wait["do"])).code == 0
    assert status_of(at_desk, "k")["status"] == "queued"


def test_a_running_session_says_who_holds_it_and_what_is_left_of_the_lease(at_desk: Cli, desk: Desk) -> None:
    seen: list[dict[str, Any]] = []
    desk.on_help = lambda: seen.append(status_of(at_desk, "k"))
    desk.submit("k", plan="help", do="call")
    desk.work()
    (view,) = seen
    assert view["status"] == "running"
    assert view["worker"].startswith("agent:helper (claim ")
    assert 50_000 < view["leaseLeftMs"] <= 60_000
    assert waits(view)["return"]["what"].startswith("the return of agent:helper (claim ")
    assert ", lease left 59s" in waits(view)["return"]["what"]


def test_an_outcome_is_shown_with_its_reason(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", plan="help", do="refuse")
    desk.work()
    view = status_of(at_desk, "k")
    assert view["outcome"] == {"result": "refused", "reason": "against the rules", "policy": "no-gifts"}
    assert view["waits"] == []
    assert "refused: against the rules (policy no-gifts)" in at_desk("status", "k").out
    desk.paid("p")
    assert 'done: {"told":true}' in at_desk("status", "p").out


def test_feedback_of_failed_attempts_is_shown_and_cannot_steer_the_terminal(at_desk: Cli, desk: Desk) -> None:
    desk.submit("k", plan="help", do="fail")
    for _ in range(3):
        desk.work()
        desk.tick()
    out = at_desk("status", "k").out
    assert out.count("feedback  ") == 3
    assert "1 failure in operators" in out
    assert "\x1b" not in out
    assert "\\x1b[31mred" in out


def test_effects_are_shown_as_the_ledger_has_them(at_desk: Cli, desk: Desk) -> None:
    desk.fail_next = "mail unknown"
    session = desk.paid("k")
    view = status_of(at_desk, "k")
    assert [(one["tool"], one["status"], one["approvedBy"]) for one in view["effects"]] == [
        ("refunds.create", "done", "user:ann"),
        ("mail.send", "unknown", ""),
    ]
    out = at_desk("status", "k").out
    assert "1 done  refunds.create" in out
    assert 'result {"id":"rf-4711"}' in out
    assert "approved by user:ann" in out
    assert "2 unknown  mail.send" in out
    assert f"passdown why {session.id}.e-" in out


def state(**fields: Any) -> State:
    base: dict[str, Any] = {
        "session_id": "s0-1",
        "task_id": "t",
        "task_name": "T",
        "key": "k",
        "plan": PlanRef(name="p", version=1, digest="d"),
        "by": "user:ann",
        "opened_at": 1,
        "stage": "pay",
        "step": 1,
    }
    return State(**{**base, **fields})


def seen(
    of: State, *, missing: list[str] | None = None, queues: dict[str, QueueRow] | None = None
) -> StatusView:
    return view_of(
        of, Beside(handed_back="its tool differs", counts={"fenced": 2}), queues or {}, missing or [], 10
    )


def test_a_retry_waits_until_its_time() -> None:
    view = seen(state(owed=Owed(cause="retry", at=99)))
    assert [(one.kind, one.what, one.until) for one in view.waits] == [
        ("time", "its next attempt (retry)", 99)
    ]


def test_a_deadline_is_something_that_is_waited_for() -> None:
    issued = Issued(attempt=1, cause="first", digest="d", role="cashier", lease_ms=1)
    view = seen(state(deadline=50, issued=issued))
    assert [(one.kind, one.until) for one in view.waits] == [("worker", None), ("deadline", 50)]
    assert view.waits[0].what == "a worker of role cashier to take the pack"
    assert view.handed_back == "its tool differs"
    assert view.counts == {"fenced": 2}


def test_what_ends_and_what_is_paused_says_so() -> None:
    ending = seen(state(ending="cancelled"))
    assert ending.waits[0].what == "0 effects to be settled, then it is cancelled"
    paused = seen(state(paused=True, owed=Owed(cause="resume", at=1)))
    assert [one.what for one in paused.waits] == [
        "being resumed",
        "its next pack (resume), once it is resumed",
    ]
    assert seen(state(status="done", outcome=Outcome(result="done"))).waits == []


@pytest.mark.parametrize("name", ["nope", "", "s0-000000000000000000000000", "x" * 300, "a/b"])
def test_a_session_that_is_not_there_is_not_found(at_desk: Cli, name: str) -> None:
    said = at_desk("status", name)
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("passdown: there is no session ")


def test_sessions_are_listed_newest_first_page_by_page(at_desk: Cli, desk: Desk) -> None:
    ids = [desk.submit(f"k{n}", orderId="1").id for n in range(5)]
    first = json.loads(at_desk("list", "--limit", 2, "--json").out)
    assert [one["sessionId"] for one in first["sessions"]] == ids[:2:-1]
    assert first["before"] == ids[3]
    rest = json.loads(at_desk("list", "--before", first["before"], "--json").out)
    assert [one["sessionId"] for one in rest["sessions"]] == ids[2::-1]
    assert rest["before"] is None
    assert at_desk("list", "--before", "k1").out.count("\n") == 2
    assert at_desk("list", "--before", "nope").code == 3


def test_sessions_are_listed_by_status_plan_and_task(at_desk: Cli, desk: Desk) -> None:
    desk.submit("a", orderId="1")
    desk.submit("b", plan="help")
    desk.work("helper")

    def keys(*filters: str) -> list[str]:
        return [one["key"] for one in json.loads(at_desk("list", "--json", *filters).out)["sessions"]]

    assert keys("--status", "queued") == ["a"]
    assert keys("--status", "done") == ["b"]
    assert keys("--plan", "refund@1") == ["a"]
    assert at_desk("list", "--plan", "refund").code == 2
    assert keys("--task", "Task of b") == ["b"]
    assert keys("--task", "nope") == []


def test_a_list_for_people_has_a_heading_and_a_line_for_each(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="1")
    heading, line = at_desk("list").out.splitlines()
    assert heading.split("  ")[0] == "session"
    assert line.startswith(f"{session.id}  queued  ")
    assert line.endswith("Task of k (refund@1, check)")
    assert at_desk("list", "--status", "failed").out == ""


def test_open_tickets_are_listed_by_queue_and_session(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("a", orderId="1")
    desk.submit("b", plan="help", do="escalate")
    desk.work()

    def tickets(*filters: str) -> list[str]:
        rows = json.loads(at_desk("tickets", "--json", *filters).out)["tickets"]
        return [one["queue"] for one in rows]

    assert sorted(tickets()) == ["operators", "refund-approvers"]
    assert tickets("--queue", "operators") == ["operators"]
    assert tickets("--session", "a") == ["refund-approvers"]
    assert tickets("--limit", "1") == ["refund-approvers"]
    assert f"{session.id}/1  approval" in at_desk("tickets").out
    assert at_desk("tickets", "--session", "nope").code == 3
    assert at_desk("tickets", "--limit", "5000").code == 2
