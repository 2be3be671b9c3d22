"""`plan check`, `plan register`, `plan show`."""

from pathlib import Path
from typing import NamedTuple

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.registered import registered_tools, tools_of
from passdown.broker.cli.words import clean, many
from passdown.broker.client import Broker
from passdown.broker.plans import Fault, as_mermaid, as_text, check_plan, check_tools, load_plan
from passdown.contracts.errors import NotFound, PlanError
from passdown.contracts.plans import Plan
from passdown.contracts.tools import ToolSpec

_FILE = click.Path(dir_okay=False, exists=True, path_type=Path)


class Found(NamedTuple):
    """Something that was found about a plan: a fault, or a warning, with its place and how to mend it."""

    severity: str
    text: str


@click.group("plan", cls=Group)
def plan_command() -> None:
    """Check, register and show plans."""


@plan_command.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.option(
    "--module",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Check against the tools of this module, too.",
)
@json_option
@click.pass_obj
@click.pass_context
def check_command(
    ctx: click.Context, frame: Frame, files: tuple[Path, ...], modules: tuple[str, ...], as_json: bool
) -> None:
    """Say everything that is wrong with plans, each fault with its place and how to mend it.

    What depends on tools is checked against those in the store, if there is one, and in --module. Exits
    with 2 where a plan has faults; warnings are only said.
    """
    tools = {**_stored_tools(frame), **{spec.name: spec for spec in tools_of(modules)}}
    found = {str(path): _found(path, tools) for path in files}
    if as_json:
        output.print_json({path: [one._asdict() for one in of] for path, of in found.items()})
    else:
        for path, of in found.items():
            _show_found(path, of)
    if any(one.severity == "fault" for of in found.values() for one in of):
        ctx.exit(PlanError.exit_code)


def _stored_tools(frame: Frame) -> dict[str, ToolSpec]:
    try:
        with opened(frame, "tool.read") as broker:
            return {spec.name: spec for _, spec in registered_tools(broker)}
    except NotFound:
        return {}


def _found(path: Path, tools: dict[str, ToolSpec]) -> list[Found]:
    try:
        plan = load_plan(path)
    except PlanError as error:
        return [Found("fault", fault) for fault in error.faults]
    return [Found(fault.severity, str(fault)) for fault in [*check_plan(plan), *check_tools(plan, tools)]]


def _show_found(path: str, found: list[Found]) -> None:
    for one in found:
        output.say(clean(f"{path}: {one.severity}: {one.text}"))
    serious = sum(one.severity == "fault" for one in found)
    output.say(f"{path}: {many(serious, 'fault')}" if serious else f"{path}: sound")


@plan_command.command("register")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=_FILE)
@click.pass_obj
def register_command(frame: Frame, files: tuple[Path, ...]) -> None:
    """Register plans: new sessions run them from now on, open ones keep theirs.

    All are checked before one is registered, also against the tools that are registered.
    """
    plans = [load_plan(path) for path in files]
    with opened(frame, "plan.register", create=True) as broker:
        tools = {spec.name: spec for _, spec in registered_tools(broker)}
        for path, plan in zip(files, plans, strict=True):
            _require_sound(path, check_tools(plan, tools))
        for plan in plans:
            broker.acting.require("plan.register", f"plan:{plan.name}")
        for plan in plans:
            ref = broker.register(plan)
            output.say(f"{ref} {ref.digest}")


def _require_sound(path: Path, faults: list[Fault]) -> None:
    serious = [str(fault) for fault in faults if fault.severity == "fault"]
    if serious:
        raise PlanError(str(path), serious)


@plan_command.command("show")
@click.argument("name", metavar="FILE|NAME")
@click.option("--mermaid", is_flag=True, help="As a Mermaid state diagram.")
@json_option
@click.pass_obj
@click.pass_context
def show_command(ctx: click.Context, frame: Frame, name: str, mermaid: bool, as_json: bool) -> None:
    """Draw a plan: a file, or a registered one by NAME (its newest version) or NAME@VERSION."""
    if mermaid and as_json:
        raise click.UsageError("--mermaid or --json, not both", ctx)
    plan = _plan(frame, name)
    if as_json:
        output.print_json(plan)
    else:
        drawn = as_mermaid(plan) if mermaid else as_text(plan, width=output.width() or 100)
        click.echo(drawn.rstrip("\n"))


def _plan(frame: Frame, name: str) -> Plan:
    if name.endswith(".toml") or "/" in name:
        return load_plan(Path(name))
    with opened(frame, "plan.read") as broker:
        broker.acting.require("plan.read", f"plan:{name.partition('@')[0]}")
        return _registered(broker, name)


def _registered(broker: Broker, name: str) -> Plan:
    catalog = broker.app.controller.catalog
    return catalog.document(catalog.plan(name, broker.app.store.load("").catalog))
