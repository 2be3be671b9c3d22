"""Events and the log: their names, their bytes, the chain, and that what is not known stops everything."""

import re
from pathlib import Path
from typing import Any, cast, get_args

import msgspec
import pytest

from passdown.broker.schemas.event_examples import EVENTS, LOGGED
from passdown.contracts import events, join_events, reserved, ticket_events
from passdown.contracts.codec import MAX_DEPTH, decode, digest, encode
from passdown.contracts.events import Checkpointed, Event, Logged, Resumed, WrittenEvent
from passdown.contracts.reserved import ReservedEvent
from tests.unit.contracts.helpers import nested, raw, refused

KINDS = cast("tuple[type[Any], ...]", get_args(Event))
#: The names as the design fixes them (DESIGN §5). A name in a log is never renamed.
NAMES = [
    "SessionOpened",
    "StageEntered",
    "PackIssued",
    "Claimed",
    "ClaimReleased",
    "LeaseLost",
    "Checkpointed",
    "EffectProposed",
    "EffectIntended",
    "EffectDone",
    "EffectFailed",
    "EffectUnknown",
    "EffectSettled",
    "ToolCalled",
    "ToolDenied",
    "Returned",
    "ReturnFenced",
    "ReturnRejected",
    "InputRequested",
    "InputProvided",
    "Escalated",
    "TicketOpened",
    "TicketClaimed",
    "TicketExtended",
    "TicketReleased",
    "TicketReassigned",
    "TicketSnoozed",
    "TicketWoken",
    "TicketCommented",
    "TicketApproved",
    "TicketEscalated",
    "TicketExpired",
    "TicketWithdrawn",
    "TicketResolved",
    "PenMoved",
    "FannedOut",
    "Joined",
    "JoinConflict",
    "BranchesOpened",
    "JoinShort",
    "BranchesTold",
    "JoinDrained",
    "Reopened",
    "Paused",
    "Resumed",
    "Ending",
    "Cancelled",
    "Expired",
    "Completed",
    "Refused",
    "Failed",
]


def test_the_names_are_those_of_the_design() -> None:
    tags = [kind.__struct_config__.tag for kind in KINDS]
    assert sorted(tags) == sorted(NAMES)
    assert tags == [kind.__name__ for kind in KINDS]


def test_each_event_is_either_written_or_reserved() -> None:
    written, kept = set(get_args(WrittenEvent)), {ReservedEvent}
    assert written | kept == set(KINDS)
    assert not written & kept
    assert {kind.__module__ for kind in written} == {
        events.__name__,
        join_events.__name__,
        ticket_events.__name__,
    }
    assert {kind.__module__ for kind in kept} == {reserved.__name__}


def test_every_struct_of_the_four_modules_is_in_the_union() -> None:
    for module in (events, join_events, ticket_events, reserved):
        source = Path(str(module.__file__)).read_text(encoding="utf-8")
        tagged = re.findall(r'^class (\w+)\(.*\btag="(\w+)"', source, re.MULTILINE)
        assert all(name == tag for name, tag in tagged)
        assert {name for name, _ in tagged} == {
            kind.__name__ for kind in KINDS if kind.__module__ == module.__name__
        }


def logged(event: Any, **changes: Any) -> Logged:
    entry = Logged(seq=1, at=1, by="user:ann", prev="", event=event)
    return msgspec.structs.replace(entry, **changes)


@pytest.mark.parametrize("event", EVENTS, ids=[type(event).__name__ for event in EVENTS])
def test_an_event_is_read_back_with_the_same_bytes(event: Any) -> None:
    data = encode(logged(event))
    found = decode(data, Logged)
    assert type(found.event) is type(event)
    assert found == logged(event)
    assert encode(found) == data


def test_the_bytes_of_a_log_entry_are_pinned() -> None:
    """The chain is over bytes: whatever changes them breaks every log that was written before."""
    entry = logged(Resumed(), seq=7, at=1_767_225_600_000, prev="ab")
    assert encode(entry) == (
        b'{"seq":7,"at":1767225600000,"by":"user:ann","prev":"ab","event":{"type":"Resumed"}}'
    )
    assert digest(encode(LOGGED)) == "03d70b2440da6ac635e1de1941298a6be50bc2a042b523436f941682d9db9133"


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        ({"type": "Teleported"}, "/event/type"),
        ({"type": "resumed"}, "/event/type"),
        ({"type": 1}, "/event/type"),
        ({}, "/event/type"),
        ({"type": "Resumed", "more": 1}, "/event/more"),
        ({"type": "Cancelled"}, "/event/reason"),
        ({"type": "Ending", "status": "paused", "reason": ""}, "/event/status"),
        (None, "/event"),
        ([], "/event"),
    ],
)
def test_an_unknown_event_is_a_hard_stop(event: Any, pointer: str) -> None:
    """F53: never a dict, never None."""
    data = raw({"seq": 1, "at": 1, "by": "x:y", "prev": "", "event": event})
    assert refused(lambda: decode(data, Logged, what="event")).pointer == pointer


def test_whatever_could_travel_can_be_read_back_from_the_log() -> None:
    """A limit that a log entry itself breaks would make the session unreadable (FAULTS 66)."""
    entry = logged(Checkpointed(claim_id="claim-0001", data=nested(MAX_DEPTH)))
    assert decode(encode(entry), Logged) == entry
