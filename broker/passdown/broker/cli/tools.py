"""`tools register`, `tools list`."""

import click

from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.registered import registered_tools, tools_of
from passdown.broker.cli.words import clean, cut
from passdown.contracts.errors import NotFound
from passdown.contracts.tools import ToolSpec, tool_digest


@click.group("tools", cls=Group)
def tools_command() -> None:
    """Register and list tools."""


@tools_command.command("register")
@click.argument("modules", metavar="MODULE...", nargs=-1, required=True)
@click.pass_obj
def register_command(frame: Frame, modules: tuple[str, ...]) -> None:
    """Publish the tools of modules, as workers do when they start.

    MODULE is a dotted name or the path of a .py file; it is imported, and what it defines with @tool is
    registered.
    """
    tools = tools_of(modules)
    if not tools:
        raise NotFound("tool in", ", ".join(modules), "define one with @tool")
    with opened(frame, "tool.register", create=True) as broker:
        broker.register_tools(tools)
    for tool in tools:
        output.say(f"{tool.name} {tool_digest(tool)}")


@tools_command.command("list")
@json_option
@click.pass_obj
def list_command(frame: Frame, as_json: bool) -> None:
    """List the tools that are registered."""
    with opened(frame, "tool.read") as broker:
        tools = registered_tools(broker)
    if as_json:
        output.print_json({"tools": [{"digest": digest, "tool": spec} for digest, spec in tools]})
        return
    lines: list[list[tables.Cell]] = [
        [
            clean(spec.name),
            "effect" if spec.effect else "reads",
            _promises(spec),
            clean(spec.scope),
            digest[:12],
            _first(spec),
        ]
        for digest, spec in tools
    ]
    tables.show(["tool", "kind", "promises", "scope", "digest", "what"], lines, "no tool is registered")


def _promises(spec: ToolSpec) -> str:
    found = {"verifies": spec.verifies, "dedupes": spec.dedupes, "repeatable": spec.repeatable}
    return ", ".join(name for name, holds in found.items() if holds)


def _first(spec: ToolSpec) -> str:
    return cut(clean(spec.description.strip().partition("\n")[0]), 200)
