"""What the client packs for itself: long texts made small, rows, and what sessions are found by.

A text begins with a byte that says how it is kept: 0 as it is, 1 by zlib with the words below, 2 by zlib with these
and the first event of the session's log, for that repeats what the first pack has, 3 by zlib with these and the event
whose seq the next six bytes say, for the last return is in the last state, too. The words are part of the
format: a released list is never changed, a new one gets a number of its own.
"""

import hashlib
import zlib
from functools import lru_cache

import msgspec

from passdown.broker.stores.queries import SessionRow, TicketRow

_AS_IT_IS, _ZLIB_1, _ZLIB_1_AND_FIRST, _ZLIB_1_AND_SEQ = b"\x00", b"\x01", b"\x02", b"\x03"
_SEQ = 6
#: Shorter texts are kept as they are (bytes): making them smaller costs more than it saves.
_SHORT = 160
#: 4 KiB of window and little memory: eleven microseconds instead of fifty, and hardly longer; for long texts all.
_SMALL_WINDOW, _MIDDLE_WINDOW, _WHOLE_WINDOW = (12, 5), (13, 6), (15, 8)
_LONG = 4096

#: What is in every state, event and pack; what is in most stands last.
_WORDS_1 = (
    b'"unknown","intended","notes":[],"digest":"evidence":[],"uncertainty":{"level":0.0,"notes":[]},"usage":'
    b'"artifacts":[],"escalate","questions":[],"answered":"policy":"recommended":"risks":[],"handOver":'
    b'"type":"EffectIntended","type":"EffectDone","effectId":"tool":"args":"result":"scope":"type":"ToolCalled",'
    b'"type":"Checkpointed","snapshot":null,"type":"LeaseLost","type":"TicketOpened","ticketNo":"queue":"kind":'
    b'"type":"ReturnRejected","feedback":"type":"Failed","type":"Refused","type":"Cancelled","reason":'
    b'"status":"done","result":"done","output":{"type":"Completed","outcome":"leaseMs":60000}}'
    b'{"spec":"passdown.return/1","packDigest":"nextStep":null,"type":"Returned","body":{"result":"done",'
    b'"type":"Claimed","step":1,"attempt":1,"claimId":"agent":{"name":"version":"model":"","framework":""},'
    b'"type":"PackIssued","step":1,"attempt":1,"cause":"first","role":"digest":"bytes":"type":"StageEntered",'
    b'"reason":"start"}}{"spec":"passdown.state/1","by":"user:root","openedAt":"data":{"stage":"go","step":1,'
    b'"entries":{"attempt":1,"issued":{"claim":null,"head":"{"spec":"passdown.pack/1","plan":"stage":"role":'
    b'"goal":"","constraints":[],"doneWhen":[],"tools":[],"returns":{"results":["done","needs-input","refused",'
    b'"escalate"]},"escalation":[],"risk":"normal","leaseSeconds":60.0,"changes":[],"parent":null,"resources":[],'
    b'"inputs":{"memory":{"version":0,"entries":[],"leftOut":0},"step":1,"effects":[],"reads":[],"answers":[],'
    b'"feedback":[],"leftOut":0,"snapshot":null,"attempt":1,"cause":"first","deadline":null,"validUntil":null,'
    b'"trace":"","digest":"{"seq":1,"at":"by":"agent:","prev":"","event":{"type":"SessionOpened","sessionId":"s0-'
    b'"taskId":"t-"taskName":"","key":"","plan":{"name":"version":1,"digest":"'
)


def as_it_is(text: bytes) -> bytes:
    """Return a text as it is kept where nothing is made smaller."""
    return _AS_IT_IS + text


def squeeze(text: bytes, first_event: bytes = b"") -> bytes:
    """Return a text as it is kept. ``first_event``: that of the session's log, if it is written in the same step."""
    if len(text) < _SHORT:
        return _AS_IT_IS + text
    window = _SMALL_WINDOW if len(text) + len(first_event) < _LONG else _WHOLE_WINDOW
    how = _ZLIB_1_AND_FIRST if first_event else _ZLIB_1
    return _zlib(text, how, window, _WORDS_1 + first_event)


def squeeze_with(text: bytes, event: bytes, seq: int) -> bytes:
    """Return a text as it is kept that has much of an event of the session's log, which is written in the same step."""
    window = _MIDDLE_WINDOW if len(text) + len(event) < 2 * _LONG else _WHOLE_WINDOW
    return _zlib(text, _ZLIB_1_AND_SEQ + seq.to_bytes(_SEQ), window, _WORDS_1 + event)


def _zlib(text: bytes, how: bytes, window: tuple[int, int], words: bytes) -> bytes:
    packer = zlib.compressobj(1, zlib.DEFLATED, *window, zlib.Z_DEFAULT_STRATEGY, words)
    small = how + packer.compress(text) + packer.flush()
    return small if len(small) <= len(text) else _AS_IT_IS + text


def unsqueeze(kept: bytes, event: bytes | None = None) -> bytes:
    """Return the text. ``event``: that of the session's log which helps, as it is kept."""
    how = kept[:1]
    if how == _AS_IT_IS:
        return kept[1:]
    start, words = 1, _WORDS_1
    if how in (_ZLIB_1_AND_FIRST, _ZLIB_1_AND_SEQ):
        words += unsqueeze(event or b"")
    if how == _ZLIB_1_AND_SEQ:
        start += _SEQ
    return zlib.decompressobj(_WHOLE_WINDOW[0], words).decompress(kept[start:])


def short_digest(text: str) -> bytes:
    """Return 16 bytes that stand for the digest of a command's content."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def stand_in(digest: str) -> bytes:
    """Return eight bytes that stand for an event's digest."""
    return hashlib.blake2b(digest.encode(), digest_size=8).digest()


def last_event(state: bytes) -> str:
    """Return the digest of the last event, which a state names at its very end (empty: it names none)."""
    _, found, after = state.rpartition(b'"head":"')
    return after.partition(b'"')[0].decode() if found else ""


def filed_under(kind: str, value: str) -> bytes:
    """Return six bytes for what something is found by; two values may share them, so look at what is found."""
    return hashlib.blake2b(f"{kind}\0{value}".encode(), digest_size=6).digest()


#: These are told apart by their rows, so that no index is touched when one becomes the other.
AT_WORK = ("queued", "running")
#: Nothing is found by this: a task without a name.
_NOTHING = bytes(6)
#: As common.lua has it.
_UNFILED = bytes(24)


@lru_cache(64)
def filed_status(status: str) -> bytes:
    """Return what a session of a status is found by: one thing for both that change with every step."""
    return filed_under("status", "at work" if status in AT_WORK else status)


def index_of(row: SessionRow) -> bytes:
    """Return what a session is found by: status, plan, task, the task's name; a branch is found by nothing."""
    if row.parent:
        return _UNFILED
    return filed_status(row.status) + _filed_for_ever(row.plan, row.task_id, row.task_name)


@lru_cache(4096)
def _filed_for_ever(plan: str, task_id: str, task_name: str) -> bytes:
    name = filed_under("name", task_name) if task_name else _NOTHING
    return filed_under("plan", plan) + filed_under("task", task_id) + name


#: The fields of a SessionRow that its row keeps, in this order; the key names the session, the head its version.
_Row = tuple[str, str, str, str, str, str, int, int]
_row_encoder = msgspec.msgpack.Encoder()
_row_decoder = msgspec.msgpack.Decoder(_Row)


class _Ticket(msgspec.Struct, array_like=True, frozen=True):
    """What only the client reads of a ticket's row. Format 2 had those without a default."""

    version: int
    kind: str
    queue: str
    why: str
    about: str
    opened_at: int
    priority: int = 0
    due_at: int | None = None
    holder: str = ""
    until: int | None = None
    level: int = 0
    lapses: int = 0
    excluded: list[str] = []


class _KeptTicket(msgspec.Struct, array_like=True, frozen=True):
    """A ticket as it stands in its session; see common.lua."""

    ticket_no: int
    of_queue: str
    opened_at: int
    row: str
    of_holder: str = ""
    lane: str = ""
    order: str = ""


_ticket_encoder = msgspec.json.Encoder()
_ticket_decoder = msgspec.json.Decoder(_Ticket)
_tickets_decoder = msgspec.msgpack.Decoder(list[_KeptTicket])


def pack_row(row: SessionRow) -> bytes:
    """Return what a session is shown by."""
    return _row_encoder.encode(
        (
            row.task_id,
            row.task_name,
            row.key,
            row.plan,
            row.stage,
            row.status,
            row.opened_at,
            row.updated_at,
        )
    )


def unpack_row(session_id: str, head: bytes, packed: bytes) -> SessionRow:
    """Return what a session is shown by."""
    task_id, task_name, key, plan, stage, status, opened_at, updated_at = _row_decoder.decode(packed)
    return SessionRow(
        session_id=session_id,
        task_id=task_id,
        task_name=task_name,
        key=key,
        plan=plan,
        stage=stage,
        status=status,
        version=int.from_bytes(head[:6]),
        opened_at=opened_at,
        updated_at=updated_at,
    )


def place_of(head: bytes) -> bytes:
    """Return where a session stands in the index, from its head: when it was opened, and its number."""
    return head[12:18] + head[7:12]


def pack_ticket(row: TicketRow) -> tuple[int | str, ...]:
    """Return a ticket as the script takes and keeps it; its row is text, for it stands in a list that the script packs."""
    fields = _Ticket(**{name: getattr(row, name) for name in _Ticket.__struct_fields__})
    return (
        row.ticket_no,
        filed_under("queue", row.queue).hex(),
        row.opened_at,
        _ticket_encoder.encode(fields).decode(),
        filed_under("holder", row.holder).hex() if row.holder else "",
        row.lane,
        row.order,
    )


def unpack_tickets(session_id: str, packed: bytes) -> list[TicketRow]:
    """Return a session's open tickets."""
    return [_ticket_row(session_id, kept) for kept in _tickets_decoder.decode(packed)]


def _ticket_row(session_id: str, kept: _KeptTicket) -> TicketRow:
    fields = msgspec.structs.asdict(_ticket_decoder.decode(kept.row))
    return TicketRow(
        session_id=session_id, ticket_no=kept.ticket_no, lane=kept.lane, order=kept.order, **fields
    )


def after_all(prefix: bytes) -> bytes:
    """Return what comes right after everything that begins with `prefix`."""
    shortened = prefix.rstrip(b"\xff")
    return shortened[:-1] + bytes([shortened[-1] + 1]) if shortened else b"\xff" * (len(prefix) + 64)
