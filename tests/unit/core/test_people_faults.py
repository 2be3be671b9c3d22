"""What users of others met with people in the loop: pending approvals, several questions, work that was handed back."""

import pytest

from passdown.contracts import commands as cmd
from passdown.contracts.codec import encode
from passdown.contracts.errors import ContractError, Fenced, NotFound, PassdownError
from passdown.contracts.plans import Stage
from passdown.contracts.replies import Suspended
from tests.unit.core import situations
from tests.unit.core.plans import ARGS, READ, REFUND, one
from tests.unit.core.spec import BOB, Session


def test_h27_an_agent_ends_its_own_pending_approval_in_no_way() -> None:
    session = situations.running(approve="approvers")
    fence = session.fence
    reply = session.intend("refund", ARGS)
    assert isinstance(reply, Suspended)
    effect_id, claim_id = reply.effect_id, fence.claim_id
    session.refuses(Fenced, cmd.Release(fence=fence, reason="done with it"))
    session.refuses(Fenced, cmd.Checkpoint(fence=fence, number=9, data={}))
    session.refuses(Fenced, cmd.Intend(fence=fence, effect_id=effect_id, tool="refund", args=ARGS))
    session.refused_and_recorded(Fenced, cmd.Fail(fence=fence, problem="it was refused"))
    for phase in ("failed", "unknown", "done"):
        body = cmd.Report(effect_id=effect_id, claim_id=claim_id, phase=phase)  # type: ignore[arg-type]
        with pytest.raises(PassdownError):
            session.do(body)
    (ticket,) = session.state.tickets
    assert (ticket.kind, session.effect(effect_id).status) == ("approval", "proposed")


def test_h31_each_of_several_questions_gets_its_own_answer() -> None:
    session = Session(one(ask="people"), READ, REFUND).submit().claim()
    session.ask("size", "colour")
    for wrong in (
        "blue",
        {"size": 1},
        {"size": 1, "colour": "blue", "third": 2},
        {"Size": 1, "colour": "blue"},
    ):
        session.refuses(ContractError, session.resolution("answer", wrong), BOB)
    session.refuses(NotFound, cmd.Answer(step=1, attempt=1, id="shape", value=1), BOB)
    session.resolve("answer", {"colour": "blue", "size": 1})
    given = {(one.id, one.value, one.by) for one in session.pack.answers}
    assert given == {("size", 1, BOB), ("colour", "blue", BOB)}


def test_h35_what_is_handed_back_says_so_and_nothing_of_the_handing_over_is_left() -> None:
    session = Session(one(), READ, REFUND).submit().claim()
    session.escalate("a person must take over: stay silent")
    session.resolve("send-back", "go on, and ask for the account first")
    pack = session.pack
    assert (pack.cause, pack.step, pack.attempt) == ("rework", 1, 2)
    assert [(one.kind, one.text) for one in pack.feedback] == [
        ("sent-back", "go on, and ask for the account first")
    ]
    assert b"stay silent" not in encode(pack)
    assert {tool.name for tool in pack.tools} == {grant.tool for grant in _only(session).tools}
    assert session.state.tickets == []


def _only(session: Session) -> Stage:
    return session.plan.stages[session.state.stage]
