"""Every command in every place where a session can stand: what it leads to, or which error.

``*`` is every situation that is not named. ``Fenced(ReturnFenced)`` is refused and recorded; ``nothing``
is taken and changes nothing.
"""

import pytest

from tests.unit.core.every_command import COMMANDS, outcome
from tests.unit.core.situations import ALL

#: Where a ticket is open that nobody holds; and where one is open at all.
_OPEN = "effect ticket, kept return, disputed, question ticket, approval, permission, unmet, resting, escalation, failure, human stage, ending ticket, join in conflict, join short"
_HELD_TOO = f"{_OPEN}, held"

TABLE: dict[str, dict[str, str]] = {
    "submit": {
        "nothing": "*",
    },
    "claim": {
        "Claimed": "queued, settle queued, ending settle, merge queued",
        "Fenced": "*",
    },
    "release": {
        "ClaimReleased PackIssued": "running, settle running, merge running",
        "EffectUnknown ClaimReleased PackIssued": "intended, ending",
        "ClaimReleased": "disputed, paused running",
        "Fenced": "*",
    },
    "checkpoint": {
        "Checkpointed": "running, disputed, paused running, merge running",
        "Conflict": "intended, settle running",
        "Fenced": "*",
    },
    "note": {
        "ToolDenied": "running, intended, settle running, disputed, paused running, merge running",
        "Fenced": "*",
    },
    "intend": {
        "EffectIntended": "running, intended, disputed, paused running",
        "Denied(ToolDenied)": "merge running",
        "Conflict": "settle running",
        "Fenced": "*",
    },
    "report done": {
        "EffectDone": "intended, settle running",
        "EffectDone PackIssued": "settle queued",
        "EffectDone TicketWithdrawn PackIssued": "effect ticket",
        "EffectDone TicketWithdrawn StageEntered PackIssued": "kept return",
        "EffectDone TicketWithdrawn TicketOpened StageEntered": "unmet",
        "nothing": "disputed, done, refused, failed, cancelled, expired",
        "Fenced": "approval, permission",
        "EffectDone Cancelled": "ending, ending settle",
        "EffectDone TicketWithdrawn Cancelled": "ending ticket",
        "NotFound": "*",
    },
    "report failed": {
        "EffectFailed": "intended, settle running, disputed",
        "EffectFailed PackIssued": "settle queued",
        "EffectFailed TicketWithdrawn PackIssued": "effect ticket",
        "EffectFailed TicketWithdrawn ReturnRejected PackIssued": "kept return",
        "nothing": "unmet",
        "Fenced": "approval, permission",
        "EffectFailed Cancelled": "ending, ending settle",
        "EffectFailed TicketWithdrawn Cancelled": "ending ticket",
        "EffectFailed TicketOpened": "done, refused, failed, cancelled, expired",
        "NotFound": "*",
    },
    "report unknown": {
        "EffectUnknown": "intended, ending",
        "nothing": "settle queued, settle running, effect ticket, kept return, disputed, unmet, ending settle, ending ticket, done, refused, failed, cancelled, expired",
        "Fenced": "approval, permission",
        "NotFound": "*",
    },
    "settle": {
        "ClaimReleased TicketOpened": "settle running",
        "Fenced": "*",
    },
    "give": {
        "Returned StageEntered PackIssued": "running, merge running",
        "EffectUnknown Returned PackIssued": "intended",
        "ReturnRejected TicketOpened": "settle running",
        "Returned StageEntered": "disputed, paused running",
        "Fenced(ReturnFenced)": "*",
    },
    "fail": {
        "ReturnRejected PackIssued": "running, merge running",
        "EffectUnknown ReturnRejected PackIssued": "intended, ending",
        "ReturnRejected TicketOpened": "settle running",
        "ReturnRejected": "disputed, paused running",
        "Fenced(ReturnFenced)": "*",
    },
    "answer": {
        "InputProvided": "waiting-input, question ticket, merge asks",
        "Conflict": "ending branches, ending done, ending, ending settle, ending ticket, done, refused, failed, cancelled, expired",
        "NotFound": "*",
    },
    "resolve": {
        "TicketResolved EffectSettled PackIssued": "effect ticket",
        "TicketResolved EffectSettled StageEntered PackIssued": "kept return",
        "TicketResolved": "disputed",
        "InputProvided InputProvided TicketResolved PackIssued": "question ticket",
        "TicketResolved PackIssued": "approval, permission, unmet",
        "TicketResolved StageEntered PackIssued": "escalation, failure, held, resting, human stage",
        "TicketResolved EffectSettled Cancelled": "ending ticket",
        "TicketResolved Joined PackIssued": "join in conflict, join short",
        "NotFound": "*",
    },
    "cancel": {
        "Ending": "intended, settle queued, settle running, effect ticket, kept return, waiting-join, waiting-join opening, join deadline, merge queued, merge running, merge asks, sent back, paused join",
        "TicketWithdrawn Ending": "join in conflict, join short",
        "TicketWithdrawn Cancelled": "question ticket, approval, permission, unmet, held, resting, escalation, failure, human stage",
        "nothing": "ending, ending settle, ending ticket, ending branches, ending done",
        "Conflict": "done, refused, failed, cancelled, expired",
        "Cancelled": "*",
    },
    "pause": {
        "nothing": "paused, paused running, paused for, paused join",
        "Conflict": "ending branches, ending done, ending, ending settle, ending ticket, done, refused, failed, cancelled, expired",
        "Paused": "*",
    },
    "resume": {
        "Resumed PackIssued": "paused, paused for",
        "Resumed": "paused running, paused join",
        "Conflict": "done, refused, failed, cancelled, expired",
        "nothing": "*",
    },
    "retry": {
        "PackIssued": "backoff, failed",
        "TicketWithdrawn PackIssued": "escalation, failure, held, resting",
        "Conflict": "*",
    },
    "due lease": {
        "LeaseLost PackIssued": "running, settle running, merge running",
        "EffectUnknown LeaseLost PackIssued": "intended, ending",
        "LeaseLost": "disputed, paused running",
        "nothing": "*",
    },
    "due restarted": {
        "EffectUnknown LeaseLost PackIssued": "intended, ending",
        "nothing": "*",
    },
    "due deadline": {
        "nothing": "*",
    },
    "due retry-at": {
        "PackIssued": "backoff",
        "nothing": "*",
    },
    "due resume-at": {
        "Resumed PackIssued": "paused for",
        "nothing": "*",
    },
    "due join-deadline": {
        "JoinShort TicketOpened": "join deadline",
        "nothing": "*",
    },
    "due branches": {
        "BranchesOpened": "waiting-join opening",
        "BranchesTold": "merge queued, merge running, merge asks, ending done, sent back, ending branches",
        "nothing": "*",
    },
    "due join": {
        "nothing": "*",
    },
    "open branch": {
        "nothing": "*",
    },
    "call off": {
        "nothing": "ending, ending settle, ending ticket, ending branches, ending done, done, refused, failed, cancelled, expired",
        "Ending": "intended, settle queued, settle running, effect ticket, kept return, waiting-join, waiting-join opening, join deadline, merge queued, merge running, merge asks, sent back, paused join",
        "TicketWithdrawn Ending": "join in conflict, join short",
        "TicketWithdrawn Cancelled": "question ticket, approval, permission, unmet, held, resting, escalation, failure, human stage",
        "Cancelled": "*",
    },
    "due ticket-lease": {
        "TicketReleased": "held",
        "nothing": "*",
    },
    "due ticket-wake": {
        "TicketWoken": "resting",
        "nothing": "*",
    },
    "due ticket-escalate": {
        "TicketExpired StageEntered PackIssued": "resting",
        "nothing": "*",
    },
    "hold": {
        "TicketClaimed": _OPEN,
        "Conflict": "held",
        "NotFound": "*",
    },
    "take over": {
        "TicketClaimed": _HELD_TOO,
        "NotFound": "*",
    },
    "extend": {
        "TicketExtended": "held",
        "Conflict": _OPEN,
        "NotFound": "*",
    },
    "give back": {
        "TicketReleased": "held",
        "Conflict": _OPEN,
        "NotFound": "*",
    },
    "hand to a person": {
        "TicketReassigned": _HELD_TOO,
        "NotFound": "*",
    },
    "hand to a queue": {
        "TicketReassigned": _HELD_TOO,
        "NotFound": "*",
    },
    "snooze": {
        "TicketSnoozed": _HELD_TOO,
        "NotFound": "*",
    },
    "wake": {
        "TicketWoken": "resting",
        "nothing": _HELD_TOO,
        "NotFound": "*",
    },
    "comment": {
        "TicketCommented": _HELD_TOO,
        "NotFound": "*",
    },
    "alert": {
        "TicketReassigned": _OPEN,
        "nothing": "*",
    },
    "rework": {
        "nothing": "*",
    },
}


def expected(command: str, situation: str) -> str:
    rest = ""
    for outcome_, situations in TABLE[command].items():
        if situation in situations.split(", "):
            return outcome_
        if situations == "*":
            rest = outcome_
    return rest


@pytest.mark.parametrize("situation", ALL)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_leads_to(command: str, situation: str) -> None:
    assert outcome(ALL[situation](), command) == expected(command, situation)


def test_the_table_names_situations_that_exist() -> None:
    named = {one for row in TABLE.values() for cell in row.values() for one in cell.split(", ")}
    assert named - {"*"} <= set(ALL)
