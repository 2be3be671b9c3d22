"""`demo`: Passdown at work, with real processes, and a check of what it did."""

from pathlib import Path

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame
from passdown.broker.cli.opening import load_settings
from passdown.broker.demo.bundled import run_demo
from passdown.broker.demo.place import Where
from passdown.broker.demo.recorded import run_recorded
from passdown.broker.demo.showing import show

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("demo", cls=Command)
@click.option(
    "--recorded", metavar="FILE", type=_FILE, help="Replay the agent runs recorded in this file instead."
)
@click.option(
    "--policy", metavar="FILE", type=_FILE, help="With --recorded: the policy that all runs refer to."
)
@click.option(
    "--first", metavar="N", type=click.IntRange(1), help="With --recorded: only the first so many runs."
)
@click.option(
    "--chaos",
    metavar="SEED",
    type=click.IntRange(0),
    help="With --recorded: kill and freeze processes, lose doorbells and replies, as this number decides.",
)
@click.option(
    "--folder",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the demo's own files go; by default beside the store, or in a new folder where that is a server.",
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes.")
@click.pass_obj
@click.pass_context
def demo_command(
    ctx: click.Context,
    frame: Frame,
    recorded: Path | None,
    policy: Path | None,
    first: int | None,
    chaos: int | None,
    folder: Path | None,
    workers: int,
) -> None:
    """Show Passdown at work, and check afterwards what it did.

    A dozen cases of an airline desk, with crashes, questions and approvals. Exits with 1 where anything
    did not end as it should. It works in a new folder, which stays, or in the one that --store names, or on the
    servers that --store and --transport name.
    """
    if recorded is None and (policy is not None or first is not None or chaos is not None):
        raise click.UsageError("--policy, --first and --chaos go with --recorded", ctx)
    load_settings(frame)
    # Settings of a real store must not lead the demo there: only what this command line names counts.
    where = Where(frame.flags.get("store"), frame.flags.get("transport", ""), folder)
    console = output.err()
    if recorded is None:
        report = run_demo(where=where, workers=workers, console=console)
    else:
        report = run_recorded(
            recorded, policy=policy, chaos=chaos, where=where, workers=workers, first=first, console=console
        )
    show(report, output.out())
    ctx.exit(0 if report.ok else 1)
