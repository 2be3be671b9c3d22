from typing import Any

import pytest

from passdown.agents import Done, Escalate, Question, Refused, ScriptedAgent, tool
from passdown.agents.scripted import (
    Answer,
    Ask,
    Call,
    Checkpoint,
    Fail,
    Finish,
    Input,
    Pause,
    Saved,
    Scene,
    Step,
)
from passdown.agents.testing import make_pack, run_agent
from passdown.contracts.errors import ContractError

written: list[str] = []


@tool("orders.read")
def read(order: str) -> dict[str, Any]:
    return {"order": {"id": order, "cents": 700}}


@tool("pay", effect=True)
def pay(order: str, cents: int, *, key: str) -> dict[str, str]:
    written.append(key)
    return {"id": f"{order}-{cents}"}


REFUND: list[Step] = [
    Call("orders.read", {"order": Input("orderId")}, save="order"),
    Ask(Question("sure", "Pay it?", schema={"type": "boolean"})),
    Call(
        "pay",
        {"order": Saved("order", "order", "id"), "cents": Saved("order", "order", "cents")},
        save="refund",
    ),
    Checkpoint(),
    Pause(0),
    Finish(Done({"refund": Saved("refund", "id"), "sure": Answer("sure"), "list": [Input("orderId")]})),
]
PACK = make_pack("cashier", tools=[read, pay], inputs={"orderId": "o1"})


@pytest.mark.parametrize("plain", [False, True])
def test_a_script_is_played_to_its_end(plain: bool):
    agent = ScriptedAgent("cashier", REFUND, plain=plain)
    assert agent.is_async is not plain
    assert agent.info.name == "script-of-cashier"
    outcome = run_agent(agent, PACK, tools=[read, pay], answers={"sure": True})
    assert outcome.output == {"refund": "o1-700", "sure": True, "list": ["o1"]}
    assert outcome.causes == ["first", "input"]


@pytest.mark.parametrize("plain", [False, True])
def test_without_an_answer_it_asks(plain: bool):
    outcome = run_agent(ScriptedAgent("cashier", REFUND, plain=plain), PACK, tools=[read, pay])
    assert (outcome.status, outcome.ticket and outcome.ticket.kind) == ("waiting", "question")


def test_it_goes_on_from_its_snapshot():
    written.clear()
    agent = ScriptedAgent("cashier", REFUND)
    outcome = run_agent(agent, PACK, tools=[read, pay], answers={"sure": True}, crash=("after_checkpoint", 1))
    assert outcome.output["refund"] == "o1-700"
    assert len(written) == 1
    assert outcome.checkpoints[0]["next"] == 4
    assert len(outcome.reads) == 2


def test_it_may_fail_refuse_and_escalate():
    pack = make_pack("cashier")
    failed = run_agent(ScriptedAgent("cashier", [Fail(KeyError("x"))]), pack, max_attempts=2)
    assert (failed.status, failed.attempts) == ("failed", 2)
    assert failed.problems[0].text.startswith("KeyError: 'x'")
    refused = run_agent(ScriptedAgent("cashier", [Finish(Refused("no"))]), pack)
    assert refused.status == "refused"
    escalated = run_agent(ScriptedAgent("cashier", [Finish(Escalate("why"))]), pack)
    assert escalated.status == "escalated"


def test_a_function_is_a_step_too():
    def note(scene: Scene) -> None:
        scene.saved["role"] = scene.pack.role

    agent = ScriptedAgent("cashier", [note, Finish(Done({"role": Saved("role")}))])
    assert run_agent(agent, make_pack("cashier")).output == {"role": "cashier"}


def test_junk_may_be_the_point():
    outcome = run_agent(
        ScriptedAgent("cashier", [Finish({"not": "a result"})]), make_pack("cashier"), max_attempts=1
    )
    assert outcome.problems[0].kind == "contract"


def test_a_script_needs_an_end():
    with pytest.raises(ContractError, match="no step ends it"):
        ScriptedAgent("cashier", [Checkpoint()])
