"""`config`: every setting, and where it comes from."""

import os
from typing import Any

import click

from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import load_settings
from passdown.broker.settings import ROWS, SECRET, Loaded, Row, shown, told, unknown_variables


@click.command("config", cls=Command)
@json_option
@click.pass_obj
def config_command(frame: Frame, as_json: bool) -> None:
    """Show every setting and where it comes from.

    A setting is taken from a flag (--store, --set NAME=VALUE …), else from its environment variable, else
    from passdown.toml, else it is the default.
    """
    loaded = load_settings(frame)
    if as_json:
        output.print_json({row.name: _view(row, loaded) for row in ROWS.values()})
    else:
        lines = [_line(row, loaded) for row in ROWS.values()]
        tables.show(["setting", "value", "from", "meaning"], lines, "")
    for name, advice in unknown_variables(os.environ).items():
        click.echo(f"passdown: {name} in the environment is no setting; {advice}", err=True)


def _view(row: Row, loaded: Loaded) -> dict[str, Any]:
    value = told(row, loaded.settings) if row.kind == SECRET else getattr(loaded.settings, row.field)
    return {
        "value": shown(value) if isinstance(value, float) else value,
        "origin": loaded.origins[row.name],
        "environment": row.env,
    }


def _line(row: Row, loaded: Loaded) -> list[tables.Cell]:
    return [
        row.name,
        told(row, loaded.settings) or "(empty)",
        loaded.origins[row.name],
        row.meaning.replace("`", ""),
    ]
