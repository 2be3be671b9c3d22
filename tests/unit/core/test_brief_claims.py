"""What an agent claims beside what the ledger shows, and the three rules by which they differ."""

from typing import Any

import pytest

from passdown.contracts.brief import BriefClaims
from passdown.contracts.commands import ToolNote
from passdown.contracts.plans import Grant, Plan, Subject
from passdown.contracts.returns import EvidenceItem
from tests.unit.core.briefly import brief_of
from tests.unit.core.plans import ARGS, MAIL, READ, REFUND, one
from tests.unit.core.spec import Session

GONE = ", which is in no input, answer or result that the log keeps"


def session(**subjects: Subject) -> Session:
    """Return one that read an order, mailed, and failed to refund."""
    tools = [Grant(tool=name) for name in ("orders.read", "refund", "mail")]
    plan = Plan(name="p", start="work", subjects=subjects, stages=one(tools=tools).stages)
    made = Session(plan, READ, REFUND, MAIL).submit({"order": "4711"}).claim()
    made.note(ToolNote(tool="orders.read", args={"id": "4711"}, result={"invoice": "INV-7"}, kept=True))
    made.report(made.run("mail", {"to": "a@b.c"}), result={"id": "m-1"})
    made.report(made.run("refund", ARGS), "failed", error="closed")
    return made


def claimed(made: Session) -> BriefClaims:
    found = brief_of(made).claims
    assert found
    return found


def differ(made: Session) -> list[str]:
    return claimed(made).differences


def evidence(claim: str, source: str = "") -> list[EvidenceItem]:
    return [EvidenceItem(claim=claim, source=source)]


def test_what_it_claims_stands_beside_the_ledger() -> None:
    found = claimed(session().escalate("no idea", recommended="wait"))
    assert (found.result, found.ledger) == ("escalate", "1 done, 1 failed")
    assert [(one.source, one.text) for one in found.said] == [
        ("what agent:worker gave as reason", "no idea"),
        ("what agent:worker gave as recommendation", "wait"),
    ]
    assert found.place.startswith("step 1, stage work, event ")
    assert claimed(session().refuse("no", "rule 7")).said[0].text == "no\npolicy: rule 7"
    assert claimed(session().ask("why")).said == []
    assert brief_of(session()).claims is None


@pytest.mark.parametrize(
    ("given", "differs"),
    [
        (
            {"reason": "refund is done"},
            ["it names refund; the ledger shows no such write as done, but failed"],
        ),
        ({"reason": "mail went out, orders.read said so"}, []),
        (
            {"reason": "x", "evidence": evidence("paid", "refund")},
            ["it names refund; the ledger shows no such"],
        ),
        ({"reason": "refunded, refundable, e-mail"}, []),
        ({"reason": "x", "recommended": "call refund again", "risks": ["refund"]}, []),
    ],
)
def test_rule_1_a_tool_that_is_named_was_called_and_did_write(given: Any, differs: list[str]) -> None:
    found = differ(session().escalate(**given))
    assert len(found) == len(differs)
    assert all(one.startswith(want) for one, want in zip(found, differs, strict=True))


def test_rule_1_a_tool_of_the_plan_that_was_never_called() -> None:
    made = (
        Session(session().plan, READ, REFUND, MAIL).submit().claim().escalate("orders.read says it is paid")
    )
    assert differ(made) == ["it names orders.read; the log shows no call of it"]


def test_rule_2_an_effect_that_is_named_is_done() -> None:
    made = session()
    mail, refund = made.state.effects
    made.escalate(f"see {mail.effect_id} and {refund.effect_id}.")
    assert differ(made) == ["it names effect 2 (refund); the ledger shows it as failed"]


@pytest.mark.parametrize(
    ("output", "differs"),
    [
        ({"mailId": "m-1", "order_id": "4711", "invoice_id": "INV-7", "note": "nothing"}, []),
        ({"refundId": "r-9"}, [f"its output has refundId r-9{GONE}"]),
        ({"ids": ["m-1", "m-2"]}, [f"its output has ids m-2{GONE}"]),
        ({"id": "471"}, [f"its output has id 471{GONE}"]),
    ],
)
def test_rule_3_ids_of_an_output_are_in_some_input_answer_or_result(output: Any, differs: list[str]) -> None:
    assert differ(session().done(output)) == differs


def test_rule_3_what_a_pattern_finds_in_its_words() -> None:
    invoice = Subject(pattern=r"\bINV-[0-9]+\b")
    assert differ(session(invoice=invoice).escalate("INV-7 is paid")) == []
    assert differ(session(invoice=invoice).escalate("INV-8 is paid")) == [f"it names invoice INV-8{GONE}"]
    assert differ(session().escalate("INV-8 is paid")) == []


def test_an_answer_counts_as_ground_and_a_failed_call_does_not() -> None:
    made = session().ask("which").answer("which", "it is r-9").claim()
    assert differ(made.done({"refundId": "r-9"})) == []
    assert differ(session().done({"cents_id": "900"})) == [f"its output has cents_id 900{GONE}"]


def test_differences_are_bounded() -> None:
    assert len(differ(session().done({"ids": [f"x{n}" for n in range(100)]}))) == 20
