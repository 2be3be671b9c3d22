"""`submit` and `delegate`: hand over work, and wait for it."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import Duration, inputs_of, lists_of, schema_file
from passdown.broker.cli.watching import report, wait_for
from passdown.broker.client import Broker, Session
from passdown.contracts.plans import PlanRef
from passdown.contracts.schema import Schema

F = TypeVar("F", bound=Callable[..., Any])


class Asked(NamedTuple):
    """What both commands are told: the work, how to wait for its outcome, and what to print."""

    task: str | None
    pairs: tuple[str, ...]
    inputs: str | None
    key: str | None
    reply_to: str | None
    wait: bool
    timeout: float | None
    progress: bool | None
    as_json: bool


def _options(command: F) -> F:
    """Add the options that both commands have."""
    for option in reversed(
        [
            click.option("--task", help="What the work is to its user."),
            click.option(
                "--input", "pairs", metavar="NAME=VALUE", multiple=True, help="One input; see above."
            ),
            click.option("--inputs", metavar="FILE", help="A JSON object with inputs; - is standard input."),
            click.option("--key", help="The same key again is the same session."),
            click.option(
                "--reply-to", metavar="QUEUE", help="A message queue of yours that the outcome is sent to."
            ),
            click.option("--wait", is_flag=True, help="Wait until the session ends."),
            click.option(
                "--timeout", type=Duration(), help="Wait at most so long; 0s looks once. Without: for ever."
            ),
            click.option(
                "--progress/--no-progress",
                default=None,
                help="Show each event while waiting; by default on a terminal.",
            ),
            json_option,
        ]
    ):
        command = option(command)
    return command


@click.command("submit", cls=Command)
@click.argument("plan")
@click.option(
    "--list",
    "lists",
    metavar="NAME=FILE",
    multiple=True,
    help="A list that a fan-out opens a branch for each of; - is standard input.",
)
@_options
@click.pass_obj
@click.pass_context
def submit_command(
    ctx: click.Context, frame: Frame, plan: str, lists: tuple[str, ...], **options: Any
) -> None:
    """Open a session of a plan.

    PLAN is a name, for its newest version, or NAME@VERSION. Prints the session's id.

    A VALUE is text, unless the plan's schema wants something else there; NAME:=JSON is JSON.

    The FILE of a --list holds a JSON array, or JSON Lines. It may be long: it is kept beside the session.

    With --wait the exit code is 0 only when the session is done, 1 when it ends otherwise, 6 when the
    timeout runs out.
    """
    asked = _asked(ctx, options)
    if sum(one.endswith("=-") for one in lists) + (asked.inputs == "-") > 1:
        raise click.UsageError("only one of --list and --inputs can be standard input", ctx)
    with opened(frame, "session.submit", ring=True) as broker:
        ref, schema = _plan(broker, plan)
        inputs = inputs_of(asked.pairs, asked.inputs, schema)
        session = broker.submit(
            ref,
            task=asked.task or "",
            inputs=inputs,
            key=asked.key,
            reply_to=asked.reply_to or "",
            lists=lists_of(lists),
        )
        _follow(ctx, broker, session, asked)


@click.command("delegate", cls=Command)
@click.argument("role")
@click.argument("goal")
@click.option(
    "--returns", metavar="FILE", help="The JSON Schema that the output must fit; - is standard input."
)
@_options
@click.pass_obj
@click.pass_context
def delegate_command(
    ctx: click.Context, frame: Frame, role: str, goal: str, returns: str | None, **options: Any
) -> None:
    """Hand one piece of work to a role, without a plan of its own.

    A VALUE is text; NAME:=JSON is JSON. Prints the session's id. Exit codes with
    --wait are those of `submit`.
    """
    asked = _asked(ctx, options)
    if asked.inputs == "-" == returns:
        raise click.UsageError("only one of --inputs and --returns can be standard input", ctx)
    inputs, schema = inputs_of(asked.pairs, asked.inputs, None), schema_file(returns)
    with opened(frame, "session.submit", create=True, ring=True) as broker:
        session = broker.delegate(
            role,
            goal,
            inputs,
            returns=schema,
            task=asked.task or "",
            key=asked.key,
            reply_to=asked.reply_to or "",
        )
        _follow(ctx, broker, session, asked)


def _asked(ctx: click.Context, options: dict[str, Any]) -> Asked:
    asked = Asked(**options)
    if not asked.wait and (asked.timeout is not None or asked.progress is not None):
        raise click.UsageError("--timeout and --progress go with --wait", ctx)
    if asked.task == "":
        raise click.UsageError("an empty --task names nothing; leave it out", ctx)
    if asked.key == "":
        raise click.UsageError("an empty --key names no session; leave it out for a session of its own", ctx)
    if asked.reply_to == "":
        raise click.UsageError("an empty --reply-to names no queue; leave it out", ctx)
    return asked


def _plan(broker: Broker, name: str) -> tuple[PlanRef, Schema | None]:
    """Return a registered plan and the schema of its inputs; raises NotFound."""
    catalog = broker.app.controller.catalog
    ref = catalog.plan(name, broker.app.store.load("").catalog)
    plan = catalog.document(ref)
    return ref, plan.stages[plan.start].inputs


def _follow(ctx: click.Context, broker: Broker, session: Session, asked: Asked) -> None:
    if not asked.wait:
        _show_opened(session, asked.as_json)
        return
    if not asked.as_json:
        output.say(session.id)
        sys.stdout.flush()
    show = sys.stderr.isatty() if asked.progress is None else asked.progress
    report(ctx, wait_for(broker.app.store, session, asked.timeout, show=show), asked.as_json)


def _show_opened(session: Session, as_json: bool) -> None:
    if as_json:
        state = session.state()
        output.print_json({"sessionId": state.session_id, "key": state.key, "status": state.shown_status})
        return
    output.say(session.id)
    output.hint(f"passdown status {session.id}")
