"""The brief of one session: how long it takes at 500 events, and whether it is linear in them up to 5,000.

From the bytes of the log, as a store gives them, to the text.
"""

import time
from collections.abc import Iterator
from typing import Any

from figures import at_most, median

from passdown.broker.core.brief import brief
from passdown.broker.core.brief_render import render
from passdown.broker.core.evolve import evolve
from passdown.broker.core.state import State
from passdown.broker.logbook import read_logged
from passdown.contracts import events as ev
from passdown.contracts import ids
from passdown.contracts.codec import digest, encode
from passdown.contracts.plans import Grant, Plan, Stage, Subject, plan_ref
from passdown.contracts.returns import EscalateReturn, EvidenceItem

ROUNDS = 9
SESSION = ids.session_id("bench")
PLAN = Plan(
    name="bench",
    start="serve",
    subjects={
        "account": Subject(fields=["user_id"], pattern=r"\b[a-z]{2,20}_[a-z]{2,20}_[0-9]{4}\b"),
        "order": Subject(fields=["order_id", "orders"], pattern=r"\bO[0-9]{6}\b"),
    },
    stages={
        "serve": Stage(
            role="agent",
            goal="Serve {inputs.user_id}.",
            constraints=["nothing without a yes"],
            done_when=["the customer wants nothing more"],
            tools=[Grant(tool="orders.read"), Grant(tool="orders.cancel")],
        )
    },
)


def _order(n: int) -> dict[str, Any]:
    """Return what a tool answers: 700 bytes or so."""
    items = [{"sku": f"S{n:05}-{k}", "count": k, "state": "packed", "price": 10 * k} for k in range(8)]
    return {"order_id": f"O{n:06}", "user_id": "ann_bee_1234", "note": "leave it at the door", "items": items}


def _attempt(attempt: int, first: int) -> Iterator[tuple[str, ev.Event]]:
    """Yield what one attempt leaves in the log: ten events."""
    claim = f"claim-{attempt:06}"
    yield (
        "service:tick",
        ev.PackIssued(
            step=1,
            attempt=attempt,
            cause="first" if attempt == 1 else "retry",
            role="agent",
            digest="d" * 64,
            bytes=2000,
            lease_ms=60_000,
        ),
    )
    yield "agent:a", ev.Claimed(attempt=attempt, claim_id=claim, agent="agent")
    for n in range(first, first + 5):
        args, order = {"order_id": f"O{n:06}"}, _order(n)
        yield (
            "agent:a",
            ev.ToolCalled(
                tool="orders.read",
                args=args,
                args_digest=f"{n:064}",
                result_digest="r" * 64,
                kept=True,
                result=order,
            ),
        )
    effect = ids.effect_id(SESSION, 1, "orders.cancel", {"order_id": f"O{first:06}"}, 1)
    yield (
        "agent:a",
        ev.EffectIntended(
            effect_id=effect,
            tool="orders.cancel",
            tool_digest="t" * 64,
            args={"order_id": f"O{first:06}"},
            identity="i",
            n=1,
            claim_id=claim,
        ),
    )
    yield "agent:a", ev.EffectDone(effect_id=effect, result={"cancelled": f"O{first:06}"})


def _events(count: int) -> Iterator[tuple[str, ev.Event]]:
    ref = plan_ref(PLAN)
    inputs = {"user_id": "ann_bee_1234"}
    yield (
        "user:ann",
        ev.SessionOpened(
            session_id=SESSION, task_id="t", task_name="bench", key="bench", plan=ref, inputs=inputs
        ),
    )
    yield "user:ann", ev.StageEntered(stage="serve", step=1, reason="start")
    attempts = (count - 5) // 10
    for attempt in range(1, attempts + 1):
        yield from _attempt(attempt, 5 * attempt)
        if attempt < attempts:
            yield "agent:a", ev.ClaimReleased(claim_id=f"claim-{attempt:06}", reason="it shuts down")
    body = EscalateReturn(
        session_id=SESSION,
        step=1,
        attempt=attempts,
        claim_id=f"claim-{attempts:06}",
        pack_digest="d" * 64,
        stage="serve",
        next_step=None,
        reason="a person must go on",
        evidence=[EvidenceItem(claim="cancelled", source="orders.cancel")],
    )
    yield "agent:a", ev.Returned(body=body)
    yield "agent:a", ev.Escalated(reason=body.reason)
    why = ev.TicketOpened(
        ticket_no=1, kind="escalation", queue="people", why=body.reason, actions=["send-back", "cancel"]
    )
    yield "agent:a", why


def session(count: int) -> tuple[State, list[bytes]]:
    """Return a session with about so many events: reading calls, writes, attempts, an escalation."""
    state: State | None = None
    log: list[bytes] = []
    for by, event in _events(count):
        logged = ev.Logged(
            seq=len(log) + 1, at=1_000 * len(log), by=by, prev=state.head if state else "", event=event
        )
        raw = encode(logged)
        state = evolve(state, logged, digest(raw))
        log.append(raw)
    if state is None:
        raise AssertionError("a session has events")
    return state, log


def _milliseconds(state: State, log: list[bytes]) -> float:
    began = time.perf_counter()
    render(brief(state, [read_logged(raw) for raw in log], PLAN, 1))
    return (time.perf_counter() - began) * 1000


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    few, many = session(500), session(2_000 if quick else 5_000)
    short: list[float] = []
    long: list[float] = []
    for _ in range(ROUNDS):
        short.append(_milliseconds(*few))
        long.append(_milliseconds(*many))
    sizes = len(few[1]), len(many[1])
    print(f"brief: {median(short):.1f} ms of {sizes[0]} events, {median(long):.1f} ms of {sizes[1]}")
    ratio = (median(long) / sizes[1]) / (median(short) / sizes[0])
    return [
        *at_most(f"brief of {sizes[0]} events, ms", median(short), 20),
        *at_most(f"per event, {sizes[1]} against {sizes[0]} events", ratio, 1.3),
    ]
