"""An example of every command and of every reply."""

from passdown.broker.schemas import examples as ex
from passdown.contracts import commands as cmd
from passdown.contracts import replies as re
from passdown.contracts.codec import digest_of, encode
from passdown.contracts.errors import Fenced

_TICKET_CLAIM = "5d0c7a1e9b3f4826"
_NOTE = cmd.ToolNote(
    tool="orders.read",
    args={"orderId": "4711"},
    result_digest=digest_of({"total": 4900}),
    result={"total": 4900},
    kept=True,
    age_ms=2_500,
)

COMMANDS: list[cmd.Body] = [
    cmd.Submit(
        key=ex.KEY,
        plan=ex.PLAN_REF,
        inputs=ex.INPUTS,
        task_name=ex.TASK_NAME,
        resources=[ex.RESOURCE],
        trace=ex.TRACE,
    ),
    cmd.Claim(
        fence=ex.FENCE,
        pack_digest=ex.PACK.digest,
        agent="cashier",
        agent_version="1.4",
        model="example-large-2",
    ),
    cmd.Release(fence=ex.FENCE, notes=[_NOTE]),
    cmd.Checkpoint(fence=ex.FENCE, number=1, data={"lookedUp": True}, counters={ex.IDENTITY: 1}),
    cmd.NoteTools(fence=ex.FENCE, number=2, notes=[_NOTE]),
    cmd.Intend(
        fence=ex.FENCE,
        effect_id=ex.EFFECT,
        tool=ex.TOOL.name,
        args=ex.ARGS,
        counters={ex.IDENTITY: 1},
        notes=[_NOTE],
    ),
    cmd.Report(effect_id=ex.EFFECT, claim_id=ex.CLAIM, phase="done", result=ex.RESULT),
    cmd.Settle(fence=ex.FENCE, verdicts=[cmd.Verdict(effect_id=ex.EFFECT, found="found", result=ex.RESULT)]),
    cmd.Give(fence=ex.FENCE, body=encode(ex.DONE).decode()),
    cmd.Fail(fence=ex.FENCE, problem="TimeoutError: the provider did not answer"),
    cmd.Answer(step=2, attempt=1, id="account", value="DE02 1203 0000 0000 2020 51"),
    cmd.Resolve(ticket_no=1, version=2, lease=_TICKET_CLAIM, resolution="approve", note="within the limit"),
    cmd.Cancel(seen=9, reason="the customer withdrew"),
    cmd.Pause(seen=9, for_ms=3_600_000, reason="the provider is down for maintenance"),
    cmd.Resume(seen=10),
    cmd.Retry(seen=12),
    cmd.Due(kind="lease", subject=ex.CLAIM, due_at=ex.AT + 120_000),
    cmd.OpenBranch(
        parent=ex.PARENT,
        plan=ex.PLAN_REF,
        stage="check",
        inputs={**ex.INPUTS, "item": {"country": "de"}},
        task_id=ex.TASK,
        task_name=ex.TASK_NAME,
        resources=[ex.RESOURCE],
        trace=ex.TRACE,
    ),
    cmd.Rework(join_id=ex.PARENT.join_id, ticket_no=2, feedback="read the second page, too"),
    cmd.ClaimTicket(ticket_no=1, version=1, claim_id=_TICKET_CLAIM),
    cmd.ExtendTicket(ticket_no=1, lease=_TICKET_CLAIM, seen_until=ex.AT + 900_000),
    cmd.ReleaseTicket(ticket_no=1, lease=_TICKET_CLAIM, reason="off shift"),
    cmd.ReassignTicket(ticket_no=1, version=2, to_queue="finance-lead", reason="above my limit"),
    cmd.SnoozeTicket(ticket_no=1, version=3, for_ms=7_200_000, reason="the provider answers tomorrow"),
    cmd.WakeTicket(ticket_no=1, version=4),
    cmd.CommentTicket(ticket_no=1, comment_id="c-1", text="the customer called twice"),
    cmd.AlertTicket(ticket_no=1, version=5, why="nobody who is known has the skill polish"),
]

REPLIES: list[re.Reply] = [
    re.Accepted(),
    re.Opened(session_id=ex.SESSION),
    re.Held(lease_ms=120_000),
    re.Run(effect_id=ex.EFFECT, args=ex.ARGS),
    re.Recorded(effect_id=ex.EFFECT, status="done", result=ex.RESULT),
    re.Suspended(effect_id=ex.EFFECT, ticket_no=1),
    re.Rejected(
        problem="return does not fit its contract at /nextStep: Object missing required field `nextStep`"
    ),
    re.refusal(Fenced(str(ex.FENCE), "2/2/none", "its lease ran out")),
]
