"""`log` and `why`: what happened, and what lies behind an effect."""

import json
import threading
from typing import Any

import pytest

from passdown.broker.cli.views.effects import find_effect, why_view
from passdown.broker.client import Session
from passdown.contracts.errors import ContractError, NotFound
from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk, broker_on


def effects(session: Session) -> list[str]:
    return [one.effect_id for one in session.state().effects]


def why(cli: Cli, effect: str) -> dict[str, Any]:
    said = cli("why", effect, "--json")
    assert (said.code, said.err) == (0, "")
    return json.loads(said.out)


def chain(view: dict[str, Any]) -> list[str]:
    return [one["event"] for one in view["chain"]]


def test_the_log_has_a_line_for_each_event(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    lines = at_desk("log", "paid").out.splitlines()
    assert [line.split()[0] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert [line.split()[3] for line in lines] == [type(one.event).__name__ for one in session.events()]
    assert lines[0].split()[2] == "user:producer"


def test_the_log_as_json_is_the_log_as_it_is_stored(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    assert at_desk("log", "paid", "--json").out.encode() == b"".join(
        raw + b"\n" for raw in session.raw_events()
    )
    assert at_desk("log", "paid", "--after", 20).out.count("\n") == session.state().seq - 20
    assert at_desk("log", "paid", "--after", 999).out == ""


@pytest.mark.parametrize("args", [["log", "nope"], ["log", "paid", "--after", "-1"], ["log"]])
def test_a_log_that_cannot_be_shown_says_why(at_desk: Cli, desk: Desk, args: list[str]) -> None:
    said = at_desk(*args)
    assert said.code in (2, 3)
    assert said.err.startswith("passdown: ")


def test_a_log_is_followed_until_the_session_ends(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", plan="help")
    worker = threading.Timer(0.4, desk.work)
    worker.start()
    said = at_desk("log", "k", "--follow")
    worker.join()
    assert said.code == 0
    assert said.out.splitlines()[-1].split()[3] == "Completed"
    assert said.out.count("\n") == session.state().seq


def test_an_approved_effect_names_delegation_attempts_decision_and_outcome(at_desk: Cli, desk: Desk) -> None:
    session = desk.paid()
    refund = effects(session)[0]
    view = why(at_desk, refund)
    assert (view["submittedBy"], view["plan"], view["taskName"]) == (
        "user:producer",
        "refund@1",
        "Task of paid",
    )
    assert (view["stage"], view["step"], view["tool"], view["status"]) == ("pay", 2, "refunds.create", "done")
    assert view["result"] == {"id": "rf-4711"}
    assert view["proposedArgs"] is None
    assert [(one["cause"], one["worker"], one["ended"], one["intended"]) for one in view["attempts"]] == [
        ("first", "agent:cashier", "EffectProposed", False),
        ("human", "agent:cashier", "Returned", True),
    ]
    (decision,) = view["decisions"]
    assert (decision["resolution"], decision["by"], decision["note"]) == ("approve", "user:ann", "fine")
    assert chain(view) == [
        "SessionOpened",
        "StageEntered",
        "PackIssued",
        "Claimed",
        "EffectProposed",
        "TicketOpened",
        "TicketResolved",
        "PackIssued",
        "Claimed",
        "EffectIntended",
        "EffectDone",
        "Returned",
    ]
    out = at_desk("why", refund).out
    for part in (
        "submitted   by user:producer as refund@1, key paid",
        "attempt 1   first, agent:cashier, put the effect to a person",
        "attempt 2   human, agent:cashier, intended the effect, returned",
        "decision    approve by user:ann (ticket 1 in refund-approvers): fine",
        'result      {"id":"rf-4711"}',
    ):
        assert part in out


def test_an_effect_of_a_later_step_tells_only_of_its_own(at_desk: Cli, desk: Desk) -> None:
    mail = effects(desk.paid())[1]
    view = why(at_desk, mail)
    assert (view["stage"], view["step"], view["decisions"]) == ("tell", 3, [])
    assert chain(view) == [
        "SessionOpened",
        "StageEntered",
        "PackIssued",
        "Claimed",
        "EffectIntended",
        "EffectDone",
        "Returned",
    ]


def resolve(desk: Desk, session: Session, resolution: Any, value: Any = None, **more: Any) -> None:
    Session(broker_on(desk.url, "user:ann"), session.id).resolve(1, resolution, value, version=1, **more)


def test_an_edit_keeps_both_versions_of_the_arguments(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="4711")
    desk.work()
    resolve(desk, session, "edit", {"order_id": "4711", "cents": 4000})
    before = why(at_desk, effects(session)[0])
    desk.work()
    after = why(at_desk, effects(session)[0])
    for view, status in ((before, "proposed"), (after, "done")):
        assert view["status"] == status
        assert view["proposedArgs"] == {"order_id": "4711", "cents": 5000}
        assert view["args"] == {"order_id": "4711", "cents": 4000}
    assert 'proposed    {"cents":5000,"order_id":"4711"}' in at_desk("why", effects(session)[0]).out


def test_a_denied_effect_says_who_denied_it(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="4711")
    desk.work()
    resolve(desk, session, "deny", note="too much")
    view = why(at_desk, effects(session)[0])
    assert (view["status"], view["error"]) == ("denied", "too much")
    assert view["decisions"][0]["by"] == "user:ann"


def test_an_unknown_effect_that_was_settled_shows_its_recovery(at_desk: Cli, desk: Desk) -> None:
    session = desk.submit("k", orderId="4711")
    desk.work()
    resolve(desk, session, "approve")
    desk.fail_next = "refund unknown"
    desk.work("cashier")
    view = why(at_desk, effects(session)[0])
    assert view["status"] in ("unknown", "not-done", "done")
    for _ in range(5):
        desk.tick()
        desk.work()
    view = why(at_desk, effects(session)[0])
    assert view["status"] == "done"
    assert {"EffectUnknown", "EffectSettled", "EffectDone"} <= set(chain(view))
    assert "settle" in [one["cause"] for one in view["attempts"]]


def test_an_effect_is_named_by_its_beginning_if_only_one_has_it(desk: Desk) -> None:
    session = desk.paid()
    log = list(session.events())
    first, second = effects(session)
    assert find_effect(log, first) == first
    assert find_effect(log, second[:-10]) == second
    with pytest.raises(ContractError, match="is the beginning of 2 effects"):
        find_effect(log, f"{session.id}.e-")
    with pytest.raises(NotFound, match=first):
        find_effect(log, f"{session.id}.e-zzz")
    with pytest.raises(NotFound):
        why_view(log, "s0-1.e-nope")
    with pytest.raises(NotFound):
        why_view([], first)


@pytest.mark.parametrize("effect", ["nope", "", "s0-1.e-1", "."])
def test_an_effect_that_is_not_there_is_not_found(at_desk: Cli, effect: str) -> None:
    said = at_desk("why", effect)
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith("passdown: there is no effect ")
