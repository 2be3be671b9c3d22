import json
import time
from pathlib import Path

import pytest

from passdown.broker.plans import as_text, check_tools, load_plan
from passdown.broker.plans.schema_source import FILE_BUDGET
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Grant, Next, Plan, Returns, Stage
from tests.unit.plans.samples import DECISION, REFUND_TOML, SPECS


def write(folder: Path, text: str | bytes) -> Path:
    (folder / "schemas").mkdir()
    (folder / "schemas" / "decision.json").write_text(json.dumps(DECISION))
    path = folder / "refund.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_the_plan_of_the_design_loads(tmp_path: Path) -> None:
    plan = load_plan(write(tmp_path, REFUND_TOML))
    assert plan == Plan(
        name="refund",
        start="check",
        stages={
            "check": Stage(
                role="analyst",
                goal="Decide whether order {inputs.orderId} may be refunded under the policy.",
                done_when=["a decision and the rule it rests on"],
                tools=[Grant(tool="orders.read")],
                returns=Returns(schema=DECISION, evidence="required"),
                next=Next(field="decision", cases={"approve": "pay", "deny": "tell"}),
            ),
            "pay": Stage(
                role="cashier",
                tools=[Grant(tool="refunds.create", approve="refund-approvers")],
                recovery="continue",
                risk="high",
                next=Next(to="tell"),
            ),
            "tell": Stage(
                role="desk",
                goal="Tell the customer what was decided and done.",
                tools=[Grant(tool="mail.send")],
                recovery="continue",
            ),
        },
    )
    assert check_tools(plan, SPECS) == []
    assert as_text(plan)


def test_line_ends_and_the_mark_of_other_systems_change_nothing(tmp_path: Path) -> None:
    path = write(tmp_path, REFUND_TOML)
    before = load_plan(str(path))
    path.write_bytes(b"\xef\xbb\xbf" + REFUND_TOML.replace("\n", "\r\n").encode())
    assert load_plan(path) == before


def test_faults_name_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, REFUND_TOML.replace("decision.json", "decison.json").replace('"tell"', '"tel"'))
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert caught.value.plan == str(path)
    assert [fault.partition(": ")[0] for fault in caught.value.faults] == [
        "stages.check.returns.schema (line 11)",
        "stages.check.next.deny (line 12)",
        "stages.pay.next (line 19)",
        "stages.tell (line 21)",
    ]
    assert caught.value.faults[0].endswith("did you mean 'decision.json'?")


HUGE = 5 * 1024 * 1024


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"", "plan: 'name' is missing; add it"),
        (b"name = ", "file: not TOML: Invalid value (at end of document)"),
        (b'name = "p"\nstart = a\n', "file: not TOML: Invalid value (at line 2, column 9)"),
        (b'name = "p"\nname = "q"\n', "file: not TOML: Cannot overwrite a value (at line 2, column 11)"),
        (b'name = "p"\nstart = "\xe9"\n', "file: line 2 is not UTF-8 (byte 20); save the file as UTF-8"),
        (b"\x00", "file: not TOML: "),
        (b"x" * HUGE, f"file: 'refund.toml' has {HUGE} bytes, and a plan may have {FILE_BUDGET}; pass bulk"),
        (b"a = " + b"[" * 100_000, "file: nested too deeply; move schemas to .json files"),
        (b"a = " + b"{a=" * 50_000, "file: nested too deeply; move schemas to .json files"),
        (b"\n\na." + b"a." * 60_000 + b"a = 1", "file: line 3: a key of more than 64 dotted parts"),
        (b"[" + b'"a" . ' * 40_000 + b"a]", "file: line 1: a key of more than 64 dotted parts"),
        (b"version = " + b"9" * 5000, "file: a number is too large: "),
        (b"version = 2026-13-45", "file: not TOML: "),
    ],
)
def test_a_file_that_is_no_toml_is_refused_in_no_time(tmp_path: Path, text: bytes, fault: str) -> None:
    path = write(tmp_path, text)
    began = time.monotonic()
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert time.monotonic() - began < 5
    assert caught.value.plan == str(path)
    assert caught.value.faults[0].startswith(fault)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("priority = 99999999999999999999", "stages.check.priority: 99999999999999999999 is out of range; "),
        (
            "inputs = { maximum = nan }",
            "stages.check.inputs: in the schema at /maximum: NaN and infinities are not JSON",
        ),
        (
            "inputs = { maximum = inf }",
            "stages.check.inputs: in the schema at /maximum: NaN and infinities are not JSON",
        ),
        (
            "inputs = { maximum = 99999999999999999999 }",
            "stages.check.inputs: in the schema at /maximum: an integer",
        ),
        (
            "inputs = { default = 2026-01-02 }",
            "stages.check.inputs: in the schema at /default: date is not JSON data",
        ),
        ("lease = 00:05:00", "stages.check.lease: not a duration; write a number with its unit"),
        ("backoff = { factor = nan }", "stages.check.backoff.factor: expected a finite number, got nan"),
        ("backoff = { factor = 1e400 }", "stages.check.backoff.factor: expected a finite number, got inf"),
        ("inputs = " + "{not=" * 100 + "{}" + "}" * 100, "stages.check.inputs: in the schema at /not/not/"),
    ],
)
def test_values_that_toml_knows_and_a_plan_does_not(tmp_path: Path, line: str, fault: str) -> None:
    path = write(tmp_path, REFUND_TOML.replace("[stages.check]\n", f"[stages.check]\n{line}\n"))
    with pytest.raises(PlanError) as caught:
        load_plan(path)
    assert len(caught.value.faults) == 1
    assert caught.value.faults[0].replace(" (line 6)", "").startswith(fault)


def test_a_file_that_is_not_there_names_the_nearest(tmp_path: Path) -> None:
    write(tmp_path, REFUND_TOML)
    with pytest.raises(PlanError) as caught:
        load_plan(tmp_path / "refunds.toml")
    assert caught.value.faults[0].startswith("file: there is no file ")
    assert caught.value.faults[0].endswith("did you mean 'refund.toml'?")
    with pytest.raises(PlanError, match="no file"):
        load_plan(tmp_path)
    with pytest.raises(PlanError, match="no file"):
        load_plan("a\0b.toml")


def test_words_with_many_dots_in_a_text_are_no_key(tmp_path: Path) -> None:
    goal = "See " + "1.2.3.4.5.6.7.8.9." * 3 + " and so on."
    path = write(tmp_path, REFUND_TOML.replace("Tell the customer", goal))
    assert load_plan(path).stages["tell"].goal.startswith(goal)
