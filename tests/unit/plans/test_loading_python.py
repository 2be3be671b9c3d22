"""Plans in Python files, as `passdown plan check FILE.py` and `up --plan FILE.py` read them."""

from pathlib import Path

import pytest

from passdown.broker.plans import load_plan
from passdown.contracts.errors import PlanError

GOOD = """
from passdown.broker import Plan, Stage

plan = Plan(name="refund", start="pay", stages={"pay": Stage(role="cashier")})
again = plan
"""


def test_the_one_plan_of_a_file_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "plan.py").write_text(GOOD)
    plan = load_plan(tmp_path / "plan.py")
    assert (plan.name, list(plan.stages)) == ("refund", ["pay"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "it defines 0 plans"),
        (GOOD + 'other = Plan(name="b", start="s", stages={"s": Stage(role="r")})', "it defines 2 plans"),
        ("raise KeyError('no')", "it cannot be run: KeyError"),
        ("x = (", "it cannot be run: SyntaxError"),
        (GOOD.replace('start="pay"', 'start="nowhere"'), "nowhere"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "plan.py").write_text(text)
    with pytest.raises(PlanError, match=said):
        load_plan(tmp_path / "plan.py")
