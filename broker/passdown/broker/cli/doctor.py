"""`doctor`: what is well, what is not, and what to do."""

import os
from collections import Counter

import click
from rich.text import Text

from passdown.broker.app import transport_of
from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import allowed_store, load_settings, require_store
from passdown.broker.cli.words import clean, cut
from passdown.broker.doctor import Patient, examine
from passdown.broker.findings import Finding, Level
from passdown.broker.settings import Settings
from passdown.broker.stores.base import Store
from passdown.contracts.errors import Denied

#: The exit code where something is red, as for what is unavailable.
RED = 6
_STYLES: dict[Level, str] = {"red": "bold red", "yellow": "yellow", "green": "green"}
#: How much of a text of others stands in the table (characters).
_SHOWN = 600


@click.command("doctor", cls=Command)
@json_option
@click.pass_obj
@click.pass_context
def doctor_command(ctx: click.Context, frame: Frame, as_json: bool) -> None:
    """Look at everything that Passdown stands on, and say what to do.

    Green: well. Yellow: works, and should be looked at. Red: does not work, or can lose something; then the
    exit code is 6. Nothing is changed but for a probe that is written and removed again; no check takes
    longer than eight seconds.
    """
    loaded = load_settings(frame)
    settings = loaded.settings
    denied: list[Denied] = []
    patient = Patient(
        loaded=loaded,
        open_store=lambda: _open(settings, denied),
        transport=lambda: transport_of(settings.store, settings.transport),
        environ=os.environ,
    )
    findings = list(examine(patient))
    if denied:
        raise denied[0]
    worst = _worst(findings)
    if as_json:
        output.print_json({"level": worst, "findings": findings})
    else:
        _show(findings)
    ctx.exit(RED if worst == "red" else 0)


def _open(settings: Settings, denied: list[Denied]) -> Store:
    """Open the store for somebody who may look into it; that they may not is no finding, and is kept in `denied`."""
    require_store(settings, create=False)
    try:
        return allowed_store(settings, "store.read")
    except Denied as error:
        denied.append(error)
        raise


def _worst(findings: list[Finding]) -> Level:
    levels = {one.level for one in findings}
    return "red" if "red" in levels else "yellow" if "yellow" in levels else "green"


def _show(findings: list[Finding]) -> None:
    tables.show(["", "looked at", "found"], [_row(one) for one in findings], "")
    counts = Counter(one.level for one in findings)
    told = [
        Text(f"{counts[level]} {level}", style=style) for level, style in _STYLES.items() if counts[level]
    ]
    output.say()
    output.say(Text(", ").join(told))


def _row(one: Finding) -> list[tables.Cell]:
    found = Text(cut(clean(one.found), _SHOWN))
    if one.advice:
        joint = "; " if output.width() is None else "\n→ "
        found += Text(f"{joint}{clean(one.advice)}", style="bold")
    return [Text(one.level, style=_STYLES[one.level]), one.what, found]
