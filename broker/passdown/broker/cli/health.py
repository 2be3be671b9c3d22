"""`health`: whether a process works, from the file that it writes."""

import time

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, json_option
from passdown.broker.cli.params import Duration
from passdown.broker.cli.words import clean
from passdown.broker.health import faults, read_health

#: The exit code of a process that does not work, as for what is unavailable.
RED = 6


@click.command("health", cls=Command)
@click.argument("file", metavar="FILE")
@click.option(
    "--within",
    type=Duration(),
    default="30s",
    show_default=True,
    help="How old the last sign of life may be.",
)
@json_option
@click.pass_context
def health_command(ctx: click.Context, file: str, within: float, *, as_json: bool) -> None:
    """Say whether a process works, from the file that it writes.

    The setting `health_file` of a `worker`, `tick` or `up` names it. Green is a process that wrote lately, and heard its transport and its store lately; otherwise the exit code
    is 6. A worker whose slots are all busy need not hear its transport.
    """
    found = read_health(file)
    wrong = faults(found, within, time.time_ns() // 1_000_000)
    if as_json:
        output.print_json({"green": not wrong, "faults": wrong, "health": found})
    else:
        roles = f" for {', '.join(found.roles)}" if found.roles else ""
        who = (
            f"{found.kind}{roles}, process {found.pid}, up for {found.up_s:.0f} s, restarts {found.restarts}"
        )
        output.say(clean(f"{'red' if wrong else 'green'}: {who}"))
        for one in wrong:
            output.say(clean(f"  {one}"))
    ctx.exit(RED if wrong else 0)
