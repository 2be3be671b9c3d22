"""All commands by name, and the edge at which every error becomes one line and an exit code."""

import difflib
import importlib
import io
import os
import sys
import traceback
from collections.abc import Sequence

import click

from passdown.broker.cli.frame import GLOBALS, Frame, write_options
from passdown.contracts.errors import PassdownError, PlanError

#: Exit codes beside those of the error classes (`passdown.contracts.errors`).
USAGE, UNWRITABLE, BUG, INTERRUPTED, PIPE_CLOSED = 2, 6, 70, 130, 141

#: Section of the help → command → (the module that holds it, what it does). Read without loading a module.
COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("serving", "Run everything in one process: agents, timers, doorbells."),
        "demo": ("demos", "Show Passdown at work, and check afterwards what it did."),
        "worker": ("serving", "Run a pool of workers for some roles, and for the merges of fan-outs."),
        "tick": ("serving", "See to timers, lost leases and lost doorbells."),
    },
    "Hand over work": {
        "submit": ("work", "Open a session of a plan."),
        "delegate": ("work", "Hand one piece of work to a role, without a plan of its own."),
    },
    "Look": {
        "status": ("looking", "Show where a session stands and what it waits for."),
        "show": ("showing", "Draw the tree of a session, or show a ticket with its brief."),
        "list": ("looking", "List sessions, newest first."),
        "queues": ("queues", "List the role queues: what waits, what runs, since when."),
        "tickets": ("looking", "List what waits for people, oldest first."),
        "log": ("logs", "Show every transition of a session."),
        "why": ("logs", "Show what lies behind an effect: delegation, attempts, decisions, outcome."),
        "replay": ("proving", "Prove stored states from their logs."),
        "quarantine": ("quarantine", "List, show, retry and drop what was refused."),
        "export": ("exporting", "Write all sessions as JSON Lines, for a check from outside."),
        "archive": ("archiving", "Archive, find and prove sessions that ended long ago."),
    },
    "People": {
        "inbox": (
            "inbox",
            "Work on the tickets of people: find the next one, hold it, hand it on, decide it.",
        ),
    },
    "Decide": {
        "answer": ("deciding", "Answer an open question."),
        "resolve": ("deciding", "Decide a ticket."),
        "cancel": ("steering", "Call a session off, and its branches."),
        "pause": ("steering", "Issue nothing new in a session until it is resumed."),
        "resume": ("steering", "Let a paused session go on."),
        "retry": ("steering", "Issue the present step of a session again, its failures forgotten."),
    },
    "Set up": {
        "plan": ("plans", "Check, register and show plans."),
        "tools": ("tools", "Register and list tools."),
        "schema": ("schemas", "Write or check the JSON Schemas of all messages."),
        "config": ("configuring", "Show every setting and where it comes from."),
        "principal": ("principals", "Say who is known here, and what they may do."),
        "token": ("tokens", "Make, list and revoke tokens."),
        "doctor": ("doctor", "Look at everything that Passdown stands on, and say what to do."),
        "health": ("health", "Say whether a process works, from the file that it writes."),
    },
}

_TABLE = {name: entry for section in COMMANDS.values() for name, entry in section.items()}


class Root(click.Group):
    """The `passdown` command."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click passes it
        """Return the names of all commands."""
        return list(_TABLE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click passes it
        """Return a command, loading its module."""
        if cmd_name not in _TABLE:
            return None
        module = importlib.import_module(f"passdown.broker.cli.{_TABLE[cmd_name][0]}")
        return getattr(module, f"{cmd_name}_command")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that `args` name; a misspelt one is told its nearest."""
        if args[0] not in _TABLE:
            near = difflib.get_close_matches(args[0], _TABLE, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "`passdown --help` lists them"
            raise click.UsageError(f"there is no command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click passes it
        """Write the commands by section."""
        for title, commands in COMMANDS.items():
            with formatter.section(title):
                formatter.write_dl([(name, help_) for name, (_, help_) in commands.items()])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        write_options(ctx, formatter, self)


@click.command(cls=Root, context_settings={"help_option_names": ["-h", "--help"]}, params=list(GLOBALS))
@click.version_option(package_name="passdown", message="passdown %(version)s")
def root() -> None:
    """A message-queue based handoff broker for agents and people.

    Exit codes: 0 done, 1 it ended otherwise or does not hold, 2 usage, 3 not found, 4 conflict or
    fenced, 5 denied, 6 unavailable or timeout.
    """


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # what a terminal cannot show must not be why a command fails
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(args: Sequence[str]) -> int:
    """Carry out one command line; returns the exit code."""
    frame = Frame()
    try:
        _require_unicode(args)
        with root.make_context("passdown", list(args), obj=frame) as ctx:
            root.invoke(ctx)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return USAGE
    except click.exceptions.Exit as done:
        return _flushed(done.exit_code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed()
    except Exception as error:  # noqa: BLE001 - the edge: whatever it is, people get one line
        return _say(error, frame)
    return 0


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _pipe_closed()
    return code


def _pipe_closed() -> int:
    """Nobody reads on. What is still buffered goes nowhere, or Python would complain when it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return PIPE_CLOSED


def _require_unicode(args: Sequence[str]) -> None:
    for number, arg in enumerate(args, 1):
        try:
            arg.encode()
        except UnicodeEncodeError:
            raise click.UsageError(f"argument {number} is not UTF-8") from None


def _say(error: Exception, frame: Frame) -> int:
    if frame.debug:
        traceback.print_exception(error)
    message, code = _told(error)
    shown = "".join(char if char.isprintable() else " " for char in message)
    sys.stderr.write(f"passdown: {shown}\n")
    return code


def _told(error: Exception) -> tuple[str, int]:
    """Return what is said of an error, and the exit code."""
    match error:
        case PlanError(faults=[_, _, *_]):
            faults = "; ".join(f"({n}) {fault}" for n, fault in enumerate(error.faults, 1))
            return f"plan {error.plan} has {len(error.faults)} faults: {faults}", error.exit_code
        case PassdownError():
            return str(error), error.exit_code
        case click.ClickException():
            return _usage(error), USAGE
        case OSError():
            where = f"{error.filename}: " if error.filename else ""
            return f"{where}{error.strerror or error}", UNWRITABLE
        case _:
            kind = type(error).__name__
            return f"this is a bug in Passdown: {kind}: {error} (--debug shows where)", BUG


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    message = message[:1].lower() + message[1:]
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message}; see `{ctx.command_path} --help`" if ctx else message
