"""`archive list`, `show`, `prove`, `run`: what was removed from the store after its end."""

from pathlib import Path

import click

from passdown.broker.archive import Archive, Entry, lines_of
from passdown.broker.archivist import Archivist, Pass, retention_of
from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import load_settings, opened
from passdown.broker.cli.proving import show_proofs, show_replay
from passdown.broker.cli.views.archived import Tree
from passdown.broker.cli.views.transitions import Replay, prove
from passdown.broker.cli.words import clean, many, when
from passdown.broker.settings import NO_ARCHIVE, Settings
from passdown.contracts.errors import ContractError, PassdownError


@click.group("archive", cls=Group)
def archive_command() -> None:
    """Archive, find and prove sessions that ended long ago."""


@archive_command.command("list")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most so many.")
@json_option
@click.pass_obj
@click.pass_context
def list_command(ctx: click.Context, frame: Frame, limit: int, as_json: bool) -> None:
    """List archived sessions, those that were archived last first.

    A session with branches is listed with their number. One that is in two files is listed twice: a process died
    between archiving and removing it. Exits with 1 where a file cannot be read, and says which.
    """
    rows: list[Entry] = []
    faults = 0
    for entry in _archive(load_settings(frame).settings).entries():
        if isinstance(entry, PassdownError):
            faults += 1
            output.err().print(str(entry), soft_wrap=True)
            continue
        rows.append(entry)
        if len(rows) == limit:
            break
    if as_json:
        output.print_json({"archived": [_described(one) for one in rows]})
    else:
        cells: list[list[tables.Cell]] = [_cells(one) for one in rows]
        heads = ["session", "key", "plan", "status", "branches", "changed", "file"]
        tables.show(heads, cells, "nothing is archived")
    if faults:
        ctx.exit(1)


@archive_command.command("show")
@click.argument("session")
@click.option(
    "--lines", is_flag=True, help="Print its lines as they stand in the file, for a check from outside."
)
@json_option
@click.pass_obj
@click.pass_context
def show_command(ctx: click.Context, frame: Frame, session: str, lines: bool, as_json: bool) -> None:
    """Show every transition of an archived session, and prove its state from them, as `replay` does.

    SESSION is its id or key, or the id of a branch. Exits with 1 where the log does not give the state. With
    --json each transition is a line, the proof the last one.
    """
    found = _archive(load_settings(frame).settings).find(session)
    if lines:
        for line in lines_of(found):
            click.echo(line, nl=False)
        return
    replay = Replay(found, found.session_id)
    if not show_replay(replay, as_json, f"archived in {found.entry.path}: "):
        ctx.exit(1)


@archive_command.command("prove")
@click.argument("session")
@json_option
@click.pass_obj
@click.pass_context
def prove_command(ctx: click.Context, frame: Frame, session: str, as_json: bool) -> None:
    """Prove the states of an archived session and of all its branches from their logs.

    SESSION is its id or key, or the id of one of the branches. Exits with 1 where a log does not give its state,
    or a branch is in no file. With --json each proof is a line.
    """
    tree = Tree(_archive(load_settings(frame).settings), session)
    proofs = (prove(one, one.session_id) for one in tree)
    holds = show_proofs(proofs, as_json, f"archived in {tree.path}: ")
    for branch in tree.missing:
        output.err().print(f"branch {branch} is in no file", soft_wrap=True)
    if tree.missing or not holds:
        ctx.exit(1)


@archive_command.command("run")
@json_option
@click.pass_obj
def run_command(frame: Frame, as_json: bool) -> None:
    """Archive and remove now what `retention` says, instead of a tick: until nothing is left to do."""
    settings = load_settings(frame).settings
    retention = retention_of(settings)
    if retention is None:
        raise ContractError("setting retention", "it is 0s: sessions are kept for ever; say how long")
    with opened(frame, "store.archive") as broker:
        archivist = Archivist(broker.app.store, retention)
        passes = [archivist.once()]
        while passes[-1].more:
            passes.append(archivist.once())
    _show_run(passes, as_json)


def _show_run(passes: list[Pass], as_json: bool) -> None:
    removed, branches = sum(one.removed for one in passes), sum(one.branches for one in passes)
    files = [file for one in passes for file in one.files]
    if as_json:
        output.print_json({"removed": removed, "branches": branches, "left": passes[-1].left, "files": files})
        return
    with_branches = f", with {many(branches, 'branch')}" if branches else ""
    output.say(f"{many(removed, 'session')} removed{with_branches}")
    for file in files:
        output.say(file, 2)
    if passes[-1].left:
        output.say(
            f"{many(passes[-1].left, 'session')} left: changed meanwhile, with branches at work, or unreadable,"
            " as the log says"
        )


def _archive(settings: Settings) -> Archive:
    if settings.archive in ("", NO_ARCHIVE):
        raise ContractError("setting archive", "it names no folder: `--set archive=FOLDER` does")
    archive = Archive(Path(settings.archive))
    archive.require()
    return archive


def _described(entry: Entry) -> dict[str, object]:
    row = entry.row
    return {
        "sessionId": row.session_id,
        "key": row.key,
        "taskName": row.task_name,
        "plan": row.plan,
        "status": row.status,
        "branches": entry.branches,
        "openedAt": row.opened_at,
        "updatedAt": row.updated_at,
        "file": str(entry.path),
    }


def _cells(entry: Entry) -> list[tables.Cell]:
    row = entry.row
    return [
        row.session_id,
        clean(row.key),
        clean(row.plan),
        row.status,
        f"{entry.branches:,}" if entry.branches else "",
        when(row.updated_at),
        entry.path.name,
    ]
