"""One story, told in messages: the refund of order 4711, as the examples of the schemas show it."""

from typing import Any

from passdown.broker.core import parts
from passdown.broker.core import state as st
from passdown.contracts import ids
from passdown.contracts.codec import digest_of
from passdown.contracts.errors import Fenced
from passdown.contracts.pack import Pack, PackEffect, PackRead, PackTool, Parent, Resource, seal
from passdown.contracts.plans import Grant, Level, Next, Plan, Returns, Stage, plan_ref
from passdown.contracts.problems import Problem, problem_of
from passdown.contracts.push import Push, push_claim_id
from passdown.contracts.returns import (
    DoneReturn,
    EscalateReturn,
    EvidenceItem,
    Fence,
    NeedsInputReturn,
    Question,
    RefusedReturn,
    Return,
    Uncertainty,
)
from passdown.contracts.tools import ToolSpec, action_digest, identity_of, tool_digest

KEY = "order-4711"
SESSION = ids.session_id(KEY)
TASK = ids.task_id(SESSION)
TASK_NAME = "Acme refund 4711"
CLAIM = "9f1c2d3e4b5a69788796a5b4c3d2e1f0"
FENCE = Fence(step=2, attempt=1, claim_id=CLAIM)
#: The store's clock, in milliseconds since the epoch.
AT = 1_767_225_600_000
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
INPUTS: dict[str, Any] = {"orderId": "4711", "cents": 4900}
ARGS: dict[str, Any] = {"order_id": "4711", "cents": 4900}
RESULT: dict[str, Any] = {"refundId": "re_8842", "url": "https://pay.example/refunds/re_8842"}

RESOURCE = Resource(
    name="invoice",
    uri="https://files.example/invoices/4711.pdf",
    media_type="application/pdf",
    digest="6f1ed002ab5595859014ebf0951522d9f8e1f6b7a4fbd2c5b3d1a6c4e0c7a9b2",
    bytes=48_213,
)

#: Where the session is a branch of another.
PARENT = Parent(session_id=SESSION, join_id=ids.join_id(SESSION, 2), branch="de", stage="countries", place=0)

TOOL = ToolSpec(
    name="refunds.create",
    description="Refund an order at the payment provider.",
    params={
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "cents": {"type": "integer", "minimum": 1}},
        "required": ["order_id", "cents"],
        "additionalProperties": False,
    },
    effect=True,
    scope="refunds:write",
    owner="payments",
    identity=["order_id"],
    dedupes=True,
    verifies=True,
)
TOOL_DIGEST = tool_digest(TOOL)
READING_DIGEST = "0c7d52a4f1f0a3a5c1f3b6a5c38f2f0a6b1c3b3c7d2c0e6f9a4b8d1e5f7a9c3d"

EFFECT = ids.effect_id(SESSION, 2, TOOL.name, identity_of(TOOL, ARGS), 1)
IDENTITY = ids.identity_digest(identity_of(TOOL, ARGS))
ACTION = action_digest(EFFECT, TOOL.name, ARGS)

PLAN = Plan(
    name="refund",
    description="Decide on a refund, pay it, and tell the customer.",
    start="check",
    stages={
        "check": Stage(
            role="analyst",
            goal="Decide whether order {inputs.orderId} may be refunded under the policy.",
            done_when=["a decision and the rule it rests on"],
            tools=[Grant(tool="orders.read")],
            returns=Returns(
                schema={
                    "type": "object",
                    "properties": {"decision": {"enum": ["approve", "deny"]}, "rule": {"type": "string"}},
                    "required": ["decision", "rule"],
                },
                evidence="required",
            ),
            next=Next(field="decision", cases={"approve": "pay", "deny": "tell"}),
        ),
        "pay": Stage(
            role="cashier",
            tools=[Grant(tool="refunds.create", approve="refund-approvers")],
            recovery="continue",
            risk="high",
            lease_seconds=120.0,
            next=Next(to="tell"),
            escalation=[Level(queue="finance-desk", after_seconds=3600.0)],
        ),
        "tell": Stage(role="desk", goal="Tell the customer what was decided and done.", recovery="continue"),
    },
)
PLAN_REF = plan_ref(PLAN)

PACK, _ = seal(
    Pack(
        plan=str(PLAN_REF),
        stage="pay",
        role="cashier",
        goal="Pay the refund that was approved.",
        constraints=["never more than the order's total"],
        done_when=["the refund's id"],
        tools=[
            PackTool(
                name=TOOL.name,
                description=TOOL.description,
                params=TOOL.params,
                effect=True,
                scope=TOOL.scope,
                identity=TOOL.identity,
                needs_approval=True,
                digest=TOOL_DIGEST,
            )
        ],
        returns=Returns(schema={"type": "object", "required": ["refundId"]}, evidence="optional"),
        escalation=[Level(queue="finance-desk", after_seconds=3600.0)],
        risk="high",
        lease_seconds=120.0,
        task_id=TASK,
        session_id=SESSION,
        resources=[RESOURCE],
        inputs={**INPUTS, "decision": "approve", "rule": "14 days"},
        step=2,
        effects=[PackEffect(effect_id=EFFECT, step=2, tool=TOOL.name, status="proposed", args=ARGS)],
        reads=[
            PackRead(tool="orders.read", args={"orderId": "4711"}, result={"total": 4900}, age_seconds=2.5)
        ],
        attempt=1,
        cause="first",
        deadline=AT + 86_400_000,
        trace=TRACE,
    )
)

#: A pack that is pushed: its workers call no tools.
PUSHED, _ = seal(
    Pack(
        plan=str(PLAN_REF),
        stage="tell",
        role="desk",
        goal=PLAN.stages["tell"].goal,
        constraints=[],
        done_when=["the customer's language is used"],
        tools=[],
        returns=Returns(
            schema={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        ),
        escalation=[],
        risk="normal",
        lease_seconds=600.0,
        task_id=TASK,
        session_id=SESSION,
        inputs={**INPUTS, "decision": "approve", "rule": "14 days", "refundId": RESULT["refundId"]},
        step=3,
        attempt=1,
        cause="first",
        trace=TRACE,
    )
)
PUSH = Push(
    claim_id=push_claim_id(SESSION, PUSHED.step, PUSHED.attempt, PUSHED.digest),
    lease_until=AT + 600_000,
    pack=PUSHED,
)

_BOUND: dict[str, Any] = {
    "session_id": SESSION,
    "step": FENCE.step,
    "attempt": FENCE.attempt,
    "claim_id": CLAIM,
    "pack_digest": PACK.digest,
    "stage": "pay",
    "next_step": None,
}
EVIDENCE = EvidenceItem(claim="refund created", source=RESULT["url"])
QUESTION = Question(id="account", text="Which account should be credited?", schema={"type": "string"})
DONE = DoneReturn(
    **_BOUND,
    output={"refundId": "re_8842"},
    evidence=[EVIDENCE],
    uncertainty=Uncertainty(level=0.1, notes=["the provider answered late"]),
    usage={"inputTokens": 1834, "outputTokens": 212},
)
#: What gives back the pack that was pushed.
PUSHED_DONE = DoneReturn(
    session_id=SESSION,
    step=PUSHED.step,
    attempt=PUSHED.attempt,
    claim_id=PUSH.claim_id,
    pack_digest=PUSHED.digest,
    stage=PUSHED.stage,
    next_step=None,
    output={"text": "The refund of order 4711 is on its way."},
)
RETURNS: list[Return] = [
    DONE,
    NeedsInputReturn(**_BOUND, questions=[QUESTION]),
    RefusedReturn(**_BOUND, reason="the order is older than 14 days", policy="refund-window"),
    EscalateReturn(
        **_BOUND,
        reason="the provider reports a chargeback on this order",
        recommended="ask the customer to withdraw the chargeback first",
        risks=["paying twice"],
        hand_over={"chargebackId": "cb_19"},
    ),
]

STATE = st.State(
    session_id=SESSION,
    task_id=TASK,
    task_name=TASK_NAME,
    key=KEY,
    plan=PLAN_REF,
    by="service:shop",
    opened_at=AT,
    resources=[RESOURCE],
    trace=TRACE,
    data={**INPUTS, "decision": "approve", "rule": "14 days"},
    status="running",
    stage="pay",
    step=2,
    deadline=AT + 86_400_000,
    entries={"check": 1, "pay": 1},
    attempt=1,
    issued=parts.Issued(
        attempt=1,
        cause="first",
        digest=PACK.digest,
        role="cashier",
        lease_ms=120_000,
        tools={TOOL.name: TOOL_DIGEST},
    ),
    claim=parts.ClaimHeld(
        claim_id=CLAIM, attempt=1, by="agent:cashier", agent="cashier", agent_version="1.4"
    ),
    snapshot=parts.Snapshot(attempt=1, data={"lookedUp": True}, counters={IDENTITY: 1}),
    effects=[
        parts.Effect(
            effect_id=EFFECT,
            ordinal=1,
            step=2,
            tool=TOOL.name,
            tool_digest=TOOL_DIGEST,
            identity=IDENTITY,
            n=1,
            status="intended",
            by="agent:cashier",
            args=ARGS,
            args_digest=digest_of(ARGS),
            args_seq=9,
            claims=[CLAIM],
            attempts=1,
            approval=parts.Approval(
                ticket_no=1, by="user:ann", action=ACTION, valid_until=AT + 86_400_000, spent=True
            ),
            touched=9,
        )
    ],
    reads=[
        parts.Read(
            tool="orders.read",
            args={"orderId": "4711"},
            args_digest=digest_of({"orderId": "4711"}),
            result_digest=digest_of({"total": 4900}),
            at=AT + 4_000,
            kept=True,
            result={"total": 4900},
        )
    ],
    feedback=[parts.FeedbackItem(attempt=1, kind="contract", text="the output is a JSON object")],
    tickets_opened=1,
    seq=9,
    at=AT + 9_000,
    head=digest_of("the event before"),
)

PROBLEM: Problem = problem_of(Fenced(str(FENCE), "2/2/none", "its lease ran out"))
