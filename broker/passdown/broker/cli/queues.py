"""`queues`: how much waits for which role, and for how long."""

import click

from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened


@click.command("queues", cls=Command)
@json_option
@click.pass_obj
def queues_command(frame: Frame, as_json: bool) -> None:
    """List the role queues: what waits, what runs, since when.

    Packs wait, are taken and not claimed yet, or run. A role whose packs wait longer and longer has no workers, or too few.
    """
    with opened(frame, "queue.read") as broker:
        rows = broker.queues()
    if as_json:
        output.print_json({"queues": rows})
        return
    tables.show_queues(rows)
