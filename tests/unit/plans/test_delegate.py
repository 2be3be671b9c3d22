import msgspec
import pytest

from passdown.broker.plans import Grant, Returns, check_plan, delegate_plan
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Plan, Stage
from passdown.contracts.plans import Returns as StoredReturns
from tests.unit.plans.samples import DECISION


class Answer(msgspec.Struct):
    text: str


def test_a_delegation_is_a_plan_of_one_stage() -> None:
    plan = delegate_plan("analyst", "Look at {inputs.orderId}.", DECISION)
    stage = Stage(role="analyst", goal="Look at {inputs.orderId}.", returns=StoredReturns(schema=DECISION))
    assert plan == Plan(name=plan.name, start="work", stages={"work": stage})
    assert plan.name.startswith("delegate-analyst-")
    assert check_plan(plan) == []


def test_the_same_delegation_is_the_same_plan_and_another_is_another() -> None:
    plans = [
        delegate_plan("analyst", "Look."),
        delegate_plan("analyst", "Look again."),
        delegate_plan("cashier", "Look."),
        delegate_plan("analyst", "Look.", Answer),
        delegate_plan("analyst", "Look.", Returns(schema=Answer, evidence="required")),
        delegate_plan("analyst", "Look.", tools=["orders.read"]),
        delegate_plan("analyst", "Look.", tools=[Grant(tool="orders.read", approve="people")]),
    ]
    assert len({plan.name for plan in plans}) == len(plans)
    assert delegate_plan("analyst", "Look.") == plans[0]
    assert {plan.version for plan in plans} == {1}


def test_a_long_role_makes_a_name_that_is_still_one() -> None:
    plan = delegate_plan("a" * 59 + "-" + "b" * 40, "Look.")
    assert check_plan(plan) == []
    assert plan.stages["work"].role.endswith("b")


@pytest.mark.parametrize(
    ("role", "fields", "place"),
    [
        ("My Role", {}, "stages.work.role"),
        (5, {}, "stages.work.role"),
        ("r", {"bogus": 1}, "stages.work.bogus"),
        ("r", {"returns": {"type": "strin"}}, "stages.work.returns.schema: in the schema at /type"),
        ("r", {"next": "other"}, "stages.work.next"),
    ],
)
def test_what_is_wrong_is_said_as_in_a_plan(role: str, fields: dict[str, object], place: str) -> None:
    with pytest.raises(PlanError) as caught:
        delegate_plan(role, "Look.", **fields)  # pyright: ignore[reportArgumentType]
    assert caught.value.plan == f"delegate to {role!r}".replace("'5'", "5")
    assert caught.value.faults[0].startswith(place)
