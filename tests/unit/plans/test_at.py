from passdown.broker.plans.at import At
from passdown.contracts.plans import Plan, Stage


def test_what_is_above_or_below_an_unsure_place_is_not_sure() -> None:
    stage = Stage(role="r")
    at = At(
        Plan(name="p", start="a", stages={"a": stage}), "a", stage, frozenset({"stages.a.returns.schema"})
    )
    assert at.place("tools", 0) == "stages.a.tools[0]"
    assert not at.is_sure("returns", "schema")
    assert not at.is_sure("returns", "schema", "type")
    assert not at.is_sure("returns")
    assert at.is_sure("returns", "results")
    assert at.is_sure("next")
    assert not at._replace(unsure=frozenset({"stages.a"})).is_sure("next")
