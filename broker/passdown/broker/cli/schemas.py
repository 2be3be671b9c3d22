"""`schema write`, `schema check`."""

from pathlib import Path

import click

from passdown.broker import schemas
from passdown.broker.cli import output
from passdown.broker.cli.frame import Group

_FOLDER = click.argument("folder", default="schemas", type=click.Path(file_okay=False, path_type=Path))


@click.group("schema", cls=Group)
def schema_command() -> None:
    """Write or check the JSON Schemas of all messages."""


@schema_command.command("write")
@_FOLDER
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit with 1 where FOLDER is out of date."
)
@click.pass_context
def write_command(ctx: click.Context, folder: Path, only_check: bool) -> None:
    """Write the schemas into FOLDER, by default schemas/."""
    if only_check:
        _check(ctx, folder)
    else:
        schemas.write(folder)
        output.say(f"written to {folder}")


@schema_command.command("check")
@_FOLDER
@click.pass_context
def check_command(ctx: click.Context, folder: Path) -> None:
    """Exit with 1 where the schemas in FOLDER are out of date, and name them."""
    _check(ctx, folder)


def _check(ctx: click.Context, folder: Path) -> None:
    stale = schemas.check(folder)
    for name in stale:
        output.say(str(name))
    if stale:
        ctx.exit(1)
    output.say(f"{folder} is up to date")
