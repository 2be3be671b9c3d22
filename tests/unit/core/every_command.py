"""One command of each kind, as the state in which it is sent calls for."""

from collections.abc import Callable

from passdown.broker.core.decide import dues
from passdown.contracts import commands as cmd
from passdown.contracts.errors import PassdownError
from passdown.contracts.pack import Parent
from passdown.contracts.plans import plan_ref
from tests.unit.core.spec import AGENT, ANN, BOB, CLERK, TICK, Phase, Session

Made = Callable[[Session], tuple[cmd.Body, str]]


def _report(session: Session, phase: Phase) -> tuple[cmd.Body, str]:
    row = session.state.effects[0] if session.state.effects else None
    effect_id = row.effect_id if row else f"{session.id}.e-none"
    claim = row.claims[-1] if row and row.claims else session.fence.claim_id
    return cmd.Report(effect_id=effect_id, claim_id=claim, phase=phase, result={"id": 1}, error="e"), AGENT


def _answer(session: Session) -> tuple[cmd.Body, str]:
    asked = session.state.questions[0] if session.state.questions else None
    body = cmd.Answer(step=session.state.step, attempt=asked.attempt if asked else 1, id="why", value="so")
    return body, ANN


def _resolve(session: Session) -> tuple[cmd.Body, str]:
    """The first thing that the newest ticket allows; where there is none, what was never opened is decided."""
    if not session.state.tickets:
        return cmd.Resolve(ticket_no=99, resolution="cancel"), BOB
    ticket = session.state.tickets[-1]
    values = {"question": {"why": 1, "when": 2}, "conflict": "a", "short": "a"}
    value = values.get(ticket.kind, {})
    lease = ticket.holder.claim_id if ticket.holder else ""
    resolution = ticket.actions[0]
    body = cmd.Resolve(
        ticket_no=ticket.ticket_no, version=ticket.version, lease=lease, resolution=resolution, value=value
    )
    return body, BOB


def _ticket(session: Session) -> tuple[int, int, str]:
    """The newest ticket, its version and its lease; where there is none, what was never opened."""
    if not session.state.tickets:
        return 99, 1, ""
    ticket = session.state.tickets[-1]
    return ticket.ticket_no, ticket.version, ticket.holder.claim_id if ticket.holder else ""


def _hold(session: Session, claim_id: str, by: str, *, take_over: bool = False) -> tuple[cmd.Body, str]:
    number, version, _ = _ticket(session)
    return cmd.ClaimTicket(
        ticket_no=number, version=version, claim_id=claim_id, take_over=take_over, reason="r"
    ), by


def _hand_on(session: Session, **to: str) -> tuple[cmd.Body, str]:
    number, version, _ = _ticket(session)
    return cmd.ReassignTicket(ticket_no=number, version=version, claim_id="lease-9", **to), BOB


def _on_ticket(session: Session, verb: str) -> tuple[cmd.Body, str]:
    number, version, lease = _ticket(session)
    made: dict[str, cmd.Body] = {
        "extend": cmd.ExtendTicket(ticket_no=number, lease=lease, seen_until=0, lease_ms=86_400_000),
        "release": cmd.ReleaseTicket(ticket_no=number, lease=lease),
        "snooze": cmd.SnoozeTicket(ticket_no=number, version=version, for_ms=5_000),
        "wake": cmd.WakeTicket(ticket_no=number, version=version),
        "comment": cmd.CommentTicket(ticket_no=number, comment_id="c", text="hm"),
        "alert": cmd.AlertTicket(ticket_no=number, version=version, why="w"),
    }
    return made[verb], TICK if verb == "alert" else BOB


def _branch(session: Session, cancel: str = "") -> tuple[cmd.Body, str]:
    parent = Parent(session_id="s0-p", join_id="s0-p.j-1", branch="a", stage="spread")
    state = session.state
    body = cmd.OpenBranch(
        parent=parent,
        plan=plan_ref(session.plan),
        stage=next(iter(session.plan.stages)),
        inputs={},
        task_id=state.task_id,
        task_name=state.task_name,
        cancel=cancel,
    )
    return body, TICK


def _look(session: Session) -> tuple[cmd.Body, str]:
    name = session.state.joins[-1].join_id if session.state.joins else f"{session.id}.j-1"
    return cmd.Due(kind="join", subject=name, due_at=session.state.seq), TICK


def _due(session: Session, kind: cmd.DueKind) -> tuple[cmd.Body, str]:
    if kind in ("lease", "restarted"):
        return cmd.Due(kind=kind, subject=session.fence.claim_id, due_at=0), TICK
    found = next((one for one in dues(session.state) if one.kind == kind), None)
    session.at = max(session.at, found.at if found else 0)
    return cmd.Due(kind=kind, subject=found.subject if found else "1", due_at=found.at if found else 0), TICK


COMMANDS: dict[str, Made] = {
    "submit": lambda s: (cmd.Submit(key=s.key, plan=plan_ref(s.plan), inputs={"order": "4711"}), ANN),
    "claim": lambda s: (
        cmd.Claim(fence=s.next_fence(), pack_digest=s.state.issued.digest if s.state.issued else "0" * 64),
        AGENT,
    ),
    "release": lambda s: (cmd.Release(fence=s.fence), AGENT),
    "checkpoint": lambda s: (cmd.Checkpoint(fence=s.fence, number=1, data={"n": 1}), AGENT),
    "note": lambda s: (
        cmd.NoteTools(fence=s.fence, number=1, notes=[cmd.ToolNote(tool="x", args={})]),
        AGENT,
    ),
    "intend": lambda s: (s.intent("mail", {"to": "x"}), AGENT),
    "report done": lambda s: _report(s, "done"),
    "report failed": lambda s: _report(s, "failed"),
    "report unknown": lambda s: _report(s, "unknown"),
    "settle": lambda s: (cmd.Settle(fence=s.fence, verdicts=[]), AGENT),
    "give": lambda s: (s.body({"go": 1}), AGENT),
    "fail": lambda s: (cmd.Fail(fence=s.fence, problem="boom"), AGENT),
    "answer": _answer,
    "resolve": _resolve,
    "cancel": lambda s: (cmd.Cancel(seen=s.state.seq), ANN),
    "pause": lambda s: (cmd.Pause(seen=s.state.seq), ANN),
    "resume": lambda s: (cmd.Resume(seen=s.state.seq), ANN),
    "retry": lambda s: (cmd.Retry(seen=s.state.seq), ANN),
    "due lease": lambda s: _due(s, "lease"),
    "due restarted": lambda s: _due(s, "restarted"),
    "due deadline": lambda s: _due(s, "deadline"),
    "due retry-at": lambda s: _due(s, "retry-at"),
    "due resume-at": lambda s: _due(s, "resume-at"),
    "due join-deadline": lambda s: _due(s, "join-deadline"),
    "due branches": lambda s: _due(s, "branches"),
    "due join": _look,
    "open branch": _branch,
    "call off": lambda s: _branch(s, "its branch is no longer needed"),
    "due ticket-lease": lambda s: _due(s, "ticket-lease"),
    "due ticket-wake": lambda s: _due(s, "ticket-wake"),
    "due ticket-escalate": lambda s: _due(s, "ticket-escalate"),
    "hold": lambda s: _hold(s, "lease-2", CLERK),
    "take over": lambda s: _hold(s, "lease-2", CLERK, take_over=True),
    "extend": lambda s: _on_ticket(s, "extend"),
    "give back": lambda s: _on_ticket(s, "release"),
    "hand to a person": lambda s: _hand_on(s, to=CLERK),
    "hand to a queue": lambda s: _hand_on(s, to_queue="operators"),
    "snooze": lambda s: _on_ticket(s, "snooze"),
    "wake": lambda s: _on_ticket(s, "wake"),
    "comment": lambda s: _on_ticket(s, "comment"),
    "alert": lambda s: _on_ticket(s, "alert"),
    "rework": lambda s: (cmd.Rework(join_id="s0-p.j-1", ticket_no=1, feedback="better"), BOB),
}


def outcome(session: Session, command: str) -> str:
    """Return what a command leads to here: its events, its error, ``nothing``, or ``Error(events)`` if recorded."""
    body, by = COMMANDS[command](session)
    session.last = []
    try:
        session.do(body, by)
    except PassdownError as error:
        events = ",".join(type(one).__name__ for one in session.last)
        return f"{type(error).__name__}({events})" if events else type(error).__name__
    return " ".join(type(one).__name__ for one in session.last) or "nothing"
