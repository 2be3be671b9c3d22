"""`quarantine list`, `show`, `drop`, `retry`: what was refused and kept (rule 11)."""

import sys
from typing import Any

import click

from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.words import ago, clean, line, many, size, when
from passdown.broker.client import Broker
from passdown.broker.outgoing import SOURCE as OUTGOING
from passdown.broker.push.judging import KEPT, judge
from passdown.broker.stores.base import MOST_QUARANTINED, Drop, Quarantine
from passdown.broker.stores.queries import FindQuarantine, QuarantineRow
from passdown.contracts.errors import ContractError, NotFound
from passdown.contracts.push import RETURNS_QUEUE

#: Where a return was refused: it came as a message, or from a worker over the gateway.
_RETURNS = (RETURNS_QUEUE, "return")
#: Bytes in a line of what is no text.
_HEX_WIDTH = 16

_IDS = click.IntRange(1)


@click.group("quarantine", cls=Group)
def quarantine_command() -> None:
    """List, show, retry and drop what was refused."""


@quarantine_command.command("list")
@click.option("--source", help="Only what came from here, such as passdown.returns.")
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_QUARANTINED),
    default=50,
    show_default=True,
    help="At most so many.",
)
@json_option
@click.pass_obj
def list_command(frame: Frame, source: str | None, limit: int, as_json: bool) -> None:
    """List what was refused, newest first."""
    with opened(frame, "quarantine.read") as broker:
        found = _rows(broker, limit if source is None else MOST_QUARANTINED)
        now = broker.app.store.load("").now
    rows = [row for row in found if source in (None, row.source)][:limit]
    if as_json:
        output.print_json({"quarantine": [_described(row) for row in rows]})
        return
    lines: list[list[tables.Cell]] = [
        [
            str(row.id),
            clean(row.source),
            ago(row.at, now) if sys.stdout.isatty() else when(row.at),
            size(len(row.body)),
            line(row.reason),
        ]
        for row in rows
    ]
    tables.show(["id", "source", "came", "size", "why"], lines, "nothing is in quarantine")
    if len(rows) == limit:
        output.hint("there may be more: --limit or --source")


@quarantine_command.command("show")
@click.argument("id_", metavar="ID", type=_IDS)
@click.option("--raw", is_flag=True, help="Write its bytes to stdout as they are, and nothing else.")
@json_option
@click.pass_obj
def show_command(frame: Frame, id_: int, raw: bool, as_json: bool) -> None:
    """Show one message: why it was refused, and what it says.

    What is no text is shown as hexadecimal numbers.
    """
    with opened(frame, "quarantine.read") as broker:
        row = _row(broker, id_)
    if raw:
        sys.stdout.buffer.write(row.body)
    elif as_json:
        output.print_json({**_described(row), "body": _text(row.body), "bodyHex": row.body.hex()})
    else:
        output.say(f"{row.id} from {clean(row.source)}, {when(row.at)}, {size(len(row.body))}")
        output.say(clean(row.reason), 2)
        output.say()
        _show_body(row.body)


@quarantine_command.command("drop")
@click.argument("ids", metavar="[ID]...", nargs=-1, type=_IDS)
@click.option("--all", "every", is_flag=True, help="All that is there now.")
@click.pass_obj
@click.pass_context
def drop_command(ctx: click.Context, frame: Frame, ids: tuple[int, ...], every: bool) -> None:
    """Forget messages."""
    if bool(ids) == every:
        raise click.UsageError("name some ID, or --all", ctx)
    with opened(frame, "quarantine.change") as broker:
        rows = _rows(broker, MOST_QUARANTINED) if every else [_row(broker, one) for one in _once(ids)]
        for row in rows:
            broker.app.store.put(Drop(id=row.id))
    output.say(f"{many(len(rows), 'message')} dropped")


@quarantine_command.command("retry")
@click.argument("ids", metavar="ID...", nargs=-1, type=_IDS, required=True)
@click.pass_obj
@click.pass_context
def retry_command(ctx: click.Context, frame: Frame, ids: tuple[int, ...]) -> None:
    """Take messages in again, as if they came now.

    A return that is accepted by now, or fenced as too late, is dropped from the quarantine; any other stays
    there with what is wrong with it now. Exits with 1 where one stays. Only returns can be retried. Of an event
    that was given up (source outgoing) `show ID --raw` writes the bytes, to be published by other means.
    """
    with opened(frame, "quarantine.change", ring=True) as broker:
        rows = [_row(broker, one) for one in _once(ids)]
        for row in rows:
            _require_retryable(row)
        gone = [_retry(broker, row) for row in rows]
    if not all(gone):
        ctx.exit(1)


def _require_retryable(row: QuarantineRow) -> None:
    what = f"quarantined message {row.id}"
    if row.source == OUTGOING:
        advice = f"publish it yourself (`passdown quarantine show {row.id} --raw`), then drop it"
        raise ContractError(what, f"it was to be told outside, and its place took nothing: {advice}")
    if row.source not in _RETURNS:
        raise ContractError(what, f"it came from {clean(row.source)!r}, and only returns can be retried")
    if len(row.body) >= KEPT:
        raise ContractError(what, f"it was too large, and only its first {KEPT} bytes were kept")


def _retry(broker: Broker, row: QuarantineRow) -> bool:
    """Take a return in; say whether it left the quarantine."""
    judged = judge(broker.app.controller, row.body)
    put = broker.app.store.put
    if judged.fate in ("accepted", "fenced"):
        put(Drop(id=row.id))
        said = f": {judged.reason}" if judged.reason else ""
        output.say(f"{row.id} was {judged.fate}, and is dropped{clean(said)}")
        return True
    if judged.reason != row.reason:
        put(Quarantine(source=row.source, reason=judged.reason, body=row.body))
        put(Drop(id=row.id))
        row = next((one for one in _rows(broker, MOST_QUARANTINED) if one.body == row.body), row)
    output.say(f"it stays, as {row.id}: {clean(judged.reason)}")
    return False


def _once(ids: tuple[int, ...]) -> list[int]:
    return list(dict.fromkeys(ids))


def _rows(broker: Broker, limit: int) -> list[QuarantineRow]:
    found = broker.app.store.find(FindQuarantine(limit=limit))
    return [row for row in found if isinstance(row, QuarantineRow)] if isinstance(found, list) else []


def _row(broker: Broker, id_: int) -> QuarantineRow:
    found = broker.app.store.find(FindQuarantine(id=id_, limit=1))
    for row in found if isinstance(found, list) else []:
        if isinstance(row, QuarantineRow):
            return row
    raise NotFound("quarantined message", str(id_), "`passdown quarantine list` shows what there is")


def _described(row: QuarantineRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": row.at,
        "source": row.source,
        "reason": row.reason,
        "bytes": len(row.body),
        "retryable": row.source in _RETURNS and len(row.body) < KEPT,
    }


def _text(body: bytes) -> str | None:
    """Return a message as text; None where it is none."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return text if "\0" not in text else None


def _show_body(body: bytes) -> None:
    text = _text(body)
    if text is not None:
        for one in text.splitlines():
            output.say(clean(one))
        return
    for at in range(0, len(body), _HEX_WIDTH):
        piece = body[at : at + _HEX_WIDTH]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        output.say(f"{at:08x}  {piece.hex(' '):<{3 * _HEX_WIDTH}} {shown}")
