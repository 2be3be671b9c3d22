from pathlib import Path

from passdown.broker.plans.authored import HumanStage, Plan, Returns, Stage
from passdown.broker.plans.lowering import Lowering
from passdown.contracts import plans as stored


def lower(stage: Stage | HumanStage, base_dir: Path | None = None) -> tuple[stored.Stage, Lowering]:
    lowering = Lowering(base_dir)
    return lowering.plan(Plan(name="p", start="a", stages={"a": stage})).stages["a"], lowering


def test_a_schema_that_cannot_be_had_is_a_fault_and_its_place_unsure(tmp_path: Path) -> None:
    stage, lowering = lower(
        Stage(role="r", inputs="x.json", returns=Returns(schema="y.json", evidence="required")), tmp_path
    )
    assert [fault.place for fault in lowering.faults] == ["stages.a.inputs", "stages.a.returns.schema"]
    assert lowering.unsure == {"stages.a.inputs", "stages.a.returns.schema"}
    assert stage.returns == stored.Returns(evidence="required")


def test_moves_that_cannot_be_meant_make_next_unsure() -> None:
    stage, lowering = lower(Stage(role="r", next={"escalate": "b"}))
    assert lowering.unsure == {"stages.a.next"}
    assert stage.next == stored.Next()


def test_moves_by_result_become_the_fields_of_the_stage() -> None:
    stage, lowering = lower(Stage(role="r", next={"done": "b", "failed": "fail"}, on_denied="c"))
    assert (stage.next.to, stage.on_failed, stage.on_denied) == ("b", "fail", "c")
    assert lowering.renamed == {
        "stages.a.next": "stages.a.next.done",
        "stages.a.on_failed": "stages.a.next.failed",
    }


def test_numbers_that_are_stored_as_floats_are_floats() -> None:
    stage, _ = lower(Stage(role="r", lease="2s", time_limit="3s", backoff={"factor": 3}))  # pyright: ignore[reportArgumentType]
    assert [
        type(one)
        for one in (
            stage.lease_seconds,
            stage.time_limit_seconds,
            stage.backoff.factor,
            stage.backoff.first_seconds,
        )
    ] == [float] * 4
