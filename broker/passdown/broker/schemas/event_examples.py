"""An example of every event, in the order in which a session might write them."""

from passdown.broker.schemas import examples as ex
from passdown.contracts import events as ev
from passdown.contracts import ids, reserved
from passdown.contracts.codec import digest_of
from passdown.contracts.join_events import LateEffect
from passdown.contracts.ticket_events import Needs

_JOIN = ids.join_id(ex.SESSION, 2)
_RETRY_AT = ex.AT + 90_000
_TICKET_CLAIM = "5d0c7a1e9b3f4826"

EVENTS: list[ev.Event] = [
    ev.SessionOpened(
        session_id=ex.SESSION,
        task_id=ex.TASK,
        task_name=ex.TASK_NAME,
        key=ex.KEY,
        plan=ex.PLAN_REF,
        inputs=ex.INPUTS,
        resources=[ex.RESOURCE],
        trace=ex.TRACE,
    ),
    ev.StageEntered(stage="pay", step=2, reason="decision=approve", deadline=ex.AT + 86_400_000),
    ev.PackIssued(
        step=2,
        attempt=1,
        cause="first",
        role="cashier",
        digest=ex.PACK.digest,
        bytes=2148,
        lease_ms=120_000,
        tools={ex.TOOL.name: ex.TOOL_DIGEST},
    ),
    ev.Claimed(attempt=1, claim_id=ex.CLAIM, agent="cashier", agent_version="1.4", model="example-large-2"),
    ev.ClaimReleased(claim_id=ex.CLAIM, reason="the worker shuts down"),
    ev.LeaseLost(claim_id=ex.CLAIM, retry_at=_RETRY_AT),
    ev.Checkpointed(claim_id=ex.CLAIM, data={"lookedUp": True}, counters={ex.IDENTITY: 1}),
    ev.EffectProposed(
        effect_id=ex.EFFECT,
        tool=ex.TOOL.name,
        tool_digest=ex.TOOL_DIGEST,
        args=ex.ARGS,
        identity=ex.IDENTITY,
        n=1,
        action=ex.ACTION,
        why="stage pay asks refund-approvers",
        claim_id=ex.CLAIM,
    ),
    ev.EffectIntended(
        effect_id=ex.EFFECT,
        tool=ex.TOOL.name,
        tool_digest=ex.TOOL_DIGEST,
        args=ex.ARGS,
        identity=ex.IDENTITY,
        n=1,
        claim_id=ex.CLAIM,
        counters={ex.IDENTITY: 1},
        approval=1,
    ),
    ev.EffectDone(effect_id=ex.EFFECT, result=ex.RESULT),
    ev.EffectFailed(effect_id=ex.EFFECT, error="NotDone: the provider refused the card"),
    ev.EffectUnknown(effect_id=ex.EFFECT, why="its worker was lost"),
    ev.EffectSettled(effect_id=ex.EFFECT, status="done", result=ex.RESULT),
    ev.ToolCalled(
        tool="orders.read",
        args={"orderId": "4711"},
        args_digest=digest_of({"orderId": "4711"}),
        result_digest=digest_of({"total": 4900}),
        age_ms=2_500,
        kept=True,
        result={"total": 4900},
        fresh_for_ms=600_000,
    ),
    ev.ToolDenied(tool="mail.send", why="stage pay does not grant it"),
    ev.Returned(body=ex.DONE, agent="cashier", agent_version="1.4", model="example-large-2"),
    ev.ReturnFenced(
        fence=ex.FENCE, digest=digest_of("a late return"), why="fence 2/1/9f1c2d3e is not the current one"
    ),
    ev.ReturnRejected(
        claim_id=ex.CLAIM,
        kind="contract",
        problem="return does not fit its contract at /output: the output of a stage is a JSON object",
        digest=digest_of("a return that does not fit"),
        retry_at=_RETRY_AT,
    ),
    ev.InputRequested(attempt=1, questions=[ex.QUESTION], ask="producer"),
    ev.InputProvided(attempt=1, id="account", value="DE02 1203 0000 0000 2020 51"),
    ev.Escalated(
        reason="the provider reports a chargeback on this order",
        recommended="ask the customer to withdraw the chargeback first",
        risks=["paying twice"],
        evidence=[ex.EVIDENCE],
        hand_over={"chargebackId": "cb_19"},
    ),
    ev.TicketOpened(
        ticket_no=1,
        kind="approval",
        queue="refund-approvers",
        why="refunds.create needs an approval",
        actions=["approve", "deny", "edit", "cancel"],
        about=ex.EFFECT,
        action=ex.ACTION,
        priority=5,
        needs=Needs(excluded=["agent:cashier", "user:ann"]),
        approvals=2,
        due_at=ex.AT + 3_600_000,
        escalate_at=ex.AT + 3_600_000,
    ),
    ev.TicketClaimed(ticket_no=1, claim_id=_TICKET_CLAIM, until=ex.AT + 900_000),
    ev.TicketExtended(ticket_no=1, until=ex.AT + 1_800_000),
    ev.TicketReleased(ticket_no=1, holder="user:bob", why="given-back", reason="off shift"),
    ev.TicketReassigned(
        ticket_no=1,
        to="user:carla",
        claim_id=_TICKET_CLAIM,
        until=ex.AT + 900_000,
        reason="above my limit",
    ),
    ev.TicketSnoozed(ticket_no=1, until=ex.AT + 7_200_000, reason="the provider answers tomorrow"),
    ev.TicketWoken(ticket_no=1),
    ev.TicketCommented(ticket_no=1, text="the customer called twice"),
    ev.TicketApproved(ticket_no=1, action=ex.ACTION, note="within the limit"),
    ev.TicketEscalated(ticket_no=1, level=2, queue="finance-lead", escalate_at=ex.AT + 86_400_000),
    ev.TicketExpired(ticket_no=1, to="by-hand"),
    ev.TicketResolved(
        ticket_no=1,
        resolution="approve",
        note="within the limit",
        valid_until=ex.AT + 86_400_000,
        action=ex.ACTION,
    ),
    ev.TicketWithdrawn(ticket_no=1, why="the session was cancelled"),
    ev.FannedOut(
        join_id=_JOIN,
        branches=3,
        digest=digest_of(["de", "fr", "pl"]),
        opening=3,
        deadline=ex.AT + 3_600_000,
    ),
    ev.BranchesOpened(join_id=_JOIN, opened=3, opening=3),
    ev.JoinConflict(
        join_id=_JOIN,
        fields=["decision"],
        counted=3,
        why='the branches disagree in decision: "approve" by de, fr, "deny" by pl',
    ),
    ev.JoinShort(
        join_id=_JOIN,
        why="3 of 3 branches must count, and 2 can: 2 done, 1 refused",
        outcomes={"done": 2, "refused": 1},
    ),
    ev.Joined(
        join_id=_JOIN,
        how="enough",
        counted=3,
        digest=digest_of(["row 1", "row 2", "row 3"]),
        upto=3,
        outcomes={"done": 3},
    ),
    ev.BranchesTold(join_id=_JOIN, what="cancel", upto=3),
    ev.JoinDrained(
        join_id=_JOIN,
        outcomes={"done": 2, "cancelled": 1},
        effects=[LateEffect(branch="pl", effect_id=ex.EFFECT, tool=ex.TOOL.name)],
    ),
    ev.Reopened(feedback="read the second page, too", deadline=ex.AT + 86_400_000),
    ev.Paused(until=ex.AT + 3_600_000, reason="the provider is down for maintenance"),
    ev.Resumed(),
    ev.Ending(status="cancelled", reason="the customer withdrew"),
    ev.Cancelled(reason="the customer withdrew"),
    ev.Expired(reason="the deadline of stage pay passed"),
    ev.Completed(),
    ev.Refused(reason="the order is older than 14 days", policy="refund-window"),
    ev.Failed(reason="3 attempts of stage pay failed"),
    reserved.PenMoved(pen=2, visit_id="v-5f3a1c0b9d8e7f6a5b4c3d2e"),
]

LOGGED = ev.Logged(
    seq=10, at=ex.AT + 10_000, by="agent:cashier", prev=digest_of("the event before"), event=EVENTS[9]
)
