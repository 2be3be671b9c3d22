"""The brief of a refund that waits for its approval, as an example in its schema."""

from passdown.contracts.brief import (
    Brief,
    BriefAction,
    BriefClaims,
    BriefEffect,
    BriefEffects,
    BriefQuestion,
    BriefRisks,
    BriefSubject,
    BriefSubjects,
    BriefTicket,
    Completeness,
    EarlierTicket,
    Quoted,
    Recommended,
    Standing,
    SubjectValue,
    ValidState,
)

_SESSION = "s0-9765284255cce134da42622a"
_ARGS = Quoted(
    source="the call of tool refunds.create",
    event=20,
    text='{\n  "cents": 5000,\n  "order_id": "4711"\n}',
)

BRIEF = Brief(
    session_id=_SESSION,
    plan="refund@1",
    seq=21,
    at=1_700_000_000_000,
    ticket=BriefTicket(
        ticket_no=2,
        kind="approval",
        queue="refund-approvers",
        version=1,
        approvals=2,
        approved_by=["user:bob"],
        age_ms=90_000,
        closed="",
    ),
    task=Quoted(source="whoever submitted it", text="Acme refund 4711"),
    goal="Refund order {inputs.orderId}.",
    goal_filled=Quoted(source="the plan's goal with the session's data in it", text="Refund order 4711."),
    constraints=["at most 50 euros"],
    done_when=["the refund is made"],
    standing=Standing(
        status="waiting-human",
        stage="pay",
        step=2,
        attempt=1,
        age_ms=95_000,
        why="A write needs a person's yes before it runs.",
        said=[Quoted(source="ticket 2", event=21, text="refunds.create: a person must see it first")],
    ),
    subjects=BriefSubjects(
        labels=[
            BriefSubject(
                label="order",
                values=[SubjectValue(value="4711", event=1, where="inputs", touched="proposed")],
                left_out=0,
                odd=0,
            )
        ],
        unkept=0,
        unsearched=0,
        more_labels=0,
    ),
    state=ValidState(
        kind="data",
        content=Quoted(
            source="the session's inputs and the outputs of finished stages", text='{"orderId":"4711"}'
        ),
    ),
    effects=BriefEffects(
        counts={"proposed": 1},
        shown=[
            BriefEffect(
                effect_id=f"{_SESSION}.e-abc27056000095ca92771aa3",
                ordinal=1,
                step=2,
                tool="refunds.create",
                status="proposed",
                decision="none yet: a person is asked",
                outcome="has not run",
                undo="",
                args=_ARGS,
                proposed_args=None,
                result=None,
                error=None,
            )
        ],
        left_out=0,
    ),
    evidence=[
        Quoted(
            source="the evidence of agent:analyst",
            event=6,
            text="within the policy\nsource: policy.md#refunds",
        )
    ],
    claims=BriefClaims(
        result="done",
        place="step 1, stage check, event 6, by agent:analyst",
        said=[Quoted(source="what agent:analyst gave as output", event=6, text='{"decision":"approve"}')],
        ledger="1 proposed",
        differences=["it names refunds.create; the ledger shows no such write as done, but proposed"],
    ),
    last_error=Quoted(source="the broker", event=12, text="a worker was lost: its lease ran out"),
    risks=BriefRisks(known=["1 effect proposed and not decided"], said=[]),
    actions=[
        BriefAction(
            action="approve", does="refunds.create runs once with exactly these arguments", exactly=_ARGS
        )
    ],
    recommended=Recommended(
        rule="compare-then-decide",
        step="Compare the exact arguments with the subjects, the constraints and the ledger; approve what fits, edit or deny what does not.",
    ),
    history=[
        "event 2: step 1, stage check, 1 attempt",
        "event 7: step 2, stage pay, 2 attempts, 1 worker lost",
    ],
    questions=[
        BriefQuestion(
            asked=Quoted(source="a question of the agent of stage check", event=4, text="Which order?"),
            answer=Quoted(source="the answer of user:ann", event=5, text="4711"),
        )
    ],
    comments=[Quoted(source="a comment of user:bob", event=None, text="I know this customer.")],
    earlier=[EarlierTicket(ticket_no=1, kind="question", how="answer by user:ann, in customers", note=None)],
    left_out={"comments": 3},
    completeness=Completeness(score=100, missing=[]),
)
