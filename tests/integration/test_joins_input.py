"""Lists that are none, too long, or hold what no branch can be given; merges that raise or return junk."""

from pathlib import Path
from typing import Any

import pytest

from passdown.broker.core.items import ITEM_BUDGET
from passdown.contracts import events as ev
from passdown.contracts.errors import BudgetExceeded, ContractError, PassdownError
from passdown.contracts.plans import Next, Plan, Stage
from tests.integration.joins import (
    Joins,
    assert_joined_once,
    branch,
    counted,
    do,
    event,
    family,
    fan_plan,
    joins,
)
from tests.integration.proof import assert_sound

KEYED: dict[str, Any] = {"key": "id", "most": 3}
WRONG: dict[str, tuple[Any, str]] = {
    "no list": ({"id": "a"}, "expected a list"),
    "too many": ([{"id": str(n)} for n in range(4)], "the list has 4 items, and"),
    "one name twice": ([{"id": "a"}, {"id": "b"}, {"id": "a"}], "two branches have the name 'a'"),
    "no name": ([{"id": "a"}, {"name": "b"}], "expected a name of 1 to 100 printable characters"),
    "an item over budget": ([{"id": "a", "text": "x" * ITEM_BUDGET}], f"an item may have {ITEM_BUDGET}"),
}


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("wrong", WRONG)
def test_rule_11_a_list_that_will_not_do_opens_nothing(tmp_path: Path, wrong: str, stored: bool) -> None:
    items, said = WRONG[wrong]
    with joins(tmp_path) as j:
        plan = fan_plan(**KEYED)
        j.broker.register(plan)
        given: dict[str, Any] = {"lists" if stored else "inputs": {"items": items}}
        with pytest.raises(PassdownError, match=said) as caught:
            j.broker.submit("fan", key="k", **given)
        assert isinstance(caught.value, ContractError | BudgetExceeded)
        assert "items" in str(caught.value)
        assert j.witness.commits == 0
        # The key is as good as new.
        good = j.broker.submit("fan", inputs={"items": [{"id": "a", "do": "be done"}]}, key="k")
        j.go_on()
        assert good.result(timeout_s=1).output["results"][0]["branch"] == "a"


@pytest.mark.parametrize("wrong", WRONG)
def test_rule_11_a_list_that_an_agent_gave_is_a_persons_to_mend(tmp_path: Path, wrong: str) -> None:
    """What led there stands; the person goes on by hand, and nothing of it was opened."""
    items, said = WRONG[wrong]
    fan = fan_plan(**KEYED)
    plan = Plan(
        name="fan", start="make", stages={**fan.stages, "make": Stage(queue="makers", next=Next(to="fan"))}
    )
    with joins(tmp_path) as j:
        session = j.submit(plan, {})
        (ticket,) = j.broker.tickets()
        session.resolve(ticket.ticket_no, "complete", {"items": items})
        (ticket,) = j.broker.tickets()
        assert ticket.kind == "failure"
        assert said in ticket.why
        assert len(list(family(session, j.broker))) == 1
        session.resolve(ticket.ticket_no, "complete", {"n": 0})
        assert session.result(timeout_s=1).output == {"n": 0}
        assert_sound(session)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("merge", ["collect", "first", "vote", "reduce:total", "judge"])
def test_a_list_of_none_and_of_one(tmp_path: Path, merge: str, count: int, stored: bool) -> None:
    """Of none nothing is opened: what needs one is short, what does not is merged."""
    items = [{"do": "be done", "n": 5}] * count
    with joins(tmp_path) as j:
        j.broker.register(fan_plan(merge=merge))
        given: dict[str, Any] = {"lists" if stored else "inputs": {"items": items}}
        session = j.broker.submit("fan", **given)
        j.go_on()
        assert len(list(family(session, j.broker))) == 1 + count
        if count == 0 and merge in ("first", "vote"):
            (ticket,) = j.broker.tickets()
            assert (ticket.kind, session.status()) == ("short", "waiting-human")
            session.resolve(ticket.ticket_no, "complete", {"n": 5})
            assert session.status() == "done"
            return
        output = session.result(timeout_s=1).output
        assert len(output.get("results", [])) == (count if merge == "collect" else 0)
        if merge != "collect" and count:
            assert output["n"] == 5
        assert_joined_once(session, j.broker)


@pytest.mark.parametrize(
    ("merge", "said"),
    [("reduce:raising", "these cannot be added"), ("reduce:junk", "returned list, not a dict")],
)
def test_rule_01_a_merge_that_breaks_is_an_attempt_that_failed(tmp_path: Path, merge: str, said: str) -> None:
    with joins(tmp_path) as j:
        session = broken(j, merge, on_failed="fail")
        outcome = session.result(timeout_s=1)
        assert outcome.result == "failed"
        assert said in outcome.reason
        assert counted(session)["ReturnRejected"] == 2
        # What the branches did stands, and the merge alone may be tried again.
        assert [one.status() for one in family(session, j.broker)] == ["failed", "done", "done"]
        session.retry()
        j.go_on()
        assert counted(session)["ReturnRejected"] == 3
        assert counted(session)["Joined"] == 1
        assert_joined_once(session, j.broker)


def test_rule_08_a_person_merges_by_hand_what_no_function_can(tmp_path: Path) -> None:
    with joins(tmp_path) as j:
        session = broken(j, "reduce:raising")
        (ticket,) = j.broker.tickets()
        assert ticket.kind == "failure"
        session.resolve(ticket.ticket_no, "complete", {"n": 2})
        assert session.result(timeout_s=1).output == {"n": 2}
        assert event(session, ev.Joined).counted == 2
        assert branch(session, j.broker, 0).status() == "done"


def broken(j: Joins, merge: str, **fan: Any) -> Any:
    """Return a session of two branches whose merge has used up its two attempts."""
    session = j.submit(fan_plan(merge=merge, fan={"max_attempts": 2, **fan}), do("be done", "be done"))
    j.go_on()
    for _ in range(2):
        j.clock.forward(310)
        j.go_on()
    return session
