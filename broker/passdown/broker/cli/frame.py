"""What all commands share: the flags that may stand before or after a command's name. Imports click only."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Frame:
    """What was said on the command line beside the command itself. ``flags`` are settings by name."""

    flags: dict[str, Any] = field(default_factory=dict[str, Any])
    config: str | None = None
    debug: bool = False


def _keep(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and param.name:
        ctx.ensure_object(Frame).flags[param.name] = value


def _keep_set(ctx: click.Context, _: click.Parameter, values: tuple[str, ...]) -> None:
    for pair in values:
        name, found, value = pair.partition("=")
        if not found:
            raise click.BadParameter(f"expected NAME=VALUE, got {pair!r}")
        ctx.ensure_object(Frame).flags[name] = value


def _keep_config(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    if value is not None:
        ctx.ensure_object(Frame).config = value


def _keep_debug(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.ensure_object(Frame).debug = True


def _option(name: str, callback: Callable[..., None], help_: str, **more: Any) -> click.Option:
    return click.Option([name], callback=callback, expose_value=False, help=help_, **more)


GLOBALS = [
    _option("--store", _keep, "Where the truth is kept, such as sqlite:///passdown.db.", metavar="ADDRESS"),
    _option(
        "--transport",
        _keep,
        "What carries doorbells; by default a folder beside the store.",
        metavar="ADDRESS",
    ),
    _option("--as", _keep, "The principal that acts, such as user:ann; by default you.", metavar="PRINCIPAL"),
    _option("--config", _keep_config, "Read this file in place of passdown.toml.", metavar="FILE"),
    _option(
        "--set", _keep_set, "Any other setting; see `passdown config`.", metavar="NAME=VALUE", multiple=True
    ),
    _option("--debug", _keep_debug, "Show the traceback of an error.", is_flag=True),
]


class Command(click.Command):
    """A command that takes the shared flags, too, and lists them apart from its own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params = [*self.params, *GLOBALS]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write this command's options, then the shared ones."""
        write_options(ctx, formatter, self)


class Group(click.Group):
    """A command with commands below it."""

    command_class = Command


def write_options(ctx: click.Context, formatter: click.HelpFormatter, command: click.Command) -> None:
    """Write two lists of options: a command's own, and those that all share."""
    params = command.get_params(ctx)
    own = [param for param in params if isinstance(param, click.Option) and param not in GLOBALS]
    for title, params in (("Options", own), ("Shared options", GLOBALS)):
        records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def json_option(command: F) -> F:
    """Add ``--json`` to a command, as the argument ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON in place of text.")(command)
