"""`export`: all sessions as JSON Lines."""

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame
from passdown.broker.cli.opening import load_settings, opened
from passdown.broker.cli.views.exports import export_lines
from passdown.broker.cli.words import many
from passdown.broker.demo.outside import outside_lines


@click.command("export", cls=Command)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write here, whole or not at all.",
)
@click.option(
    "--folder",
    metavar="FOLDER",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where a demo in this store has its files; by default they are looked for beside the store.",
)
@click.pass_obj
def export_command(frame: Frame, out: Path | None, folder: Path | None) -> None:
    """Write all sessions as JSON Lines, for a check from outside.

    Each session is followed by its branches, which name it as their parent. Each line has a `kind`: session, event, effect (its `key` is the idempotency key that the tool got),
    ticket, brief (what a person is shown), and, where a demo ran in this store, outside.
    """
    store = load_settings(frame).settings.store
    with opened(frame, "store.read") as broker:
        lines = export_lines(broker, outside_lines(store, folder))
        if out is None:
            _write(lines, sys.stdout.buffer)
        else:
            count = write_whole(lines, out)
            output.hint(f"{many(count, 'line')} in {out}")


def write_whole(lines: Iterator[bytes], path: Path) -> int:
    """Write lines into a file that appears once it is complete; returns their number."""
    part = path.with_name(f"{path.name}.part-{os.getpid()}")
    try:
        with part.open("wb") as file:
            count = _write(lines, file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _write(lines: Iterator[bytes], file: BinaryIO) -> int:
    count = itertools.count()
    with output.progress("lines written", hidden=file is sys.stdout.buffer) as advance:
        for line in lines:
            file.write(line)
            next(count)
            advance()
    return next(count)
