"""`up`, `worker`, `tick`, `demo`: the processes."""

import click

from passdown.broker.cli import output
from passdown.broker.cli.frame import Command, Frame
from passdown.broker.cli.opening import load_settings
from passdown.broker.client import Broker
from passdown.broker.processes import run_tick, run_up, run_worker
from passdown.broker.settings import Settings

_MODULE = click.option(
    "--module",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="A module with agents and tools: dotted name or .py file.",
)
_CONCURRENCY = click.option("--concurrency", metavar="N", help="Packs that run at once, 1 to 1000.")
_POOL = click.option(
    "--pool", metavar="KIND", help="threads, prefork (as many processes), or solo (one at a time)."
)


def _settings(frame: Frame, **flags: object) -> Settings:
    frame.flags.update({name: value for name, value in flags.items() if value})
    return load_settings(frame).settings


@click.command("up", cls=Command)
@_MODULE
@click.option("--plan", "plans", metavar="FILE", multiple=True, help="A plan to register first.")
@_CONCURRENCY
@click.pass_obj
@click.pass_context
def up_command(
    ctx: click.Context,
    frame: Frame,
    modules: tuple[str, ...],
    plans: tuple[str, ...],
    concurrency: str | None,
) -> None:
    """Run everything in one process: agents, timers, doorbells.

    Ends on Ctrl-C or SIGTERM: takes nothing new, lets what runs finish for a while, hands back the rest.
    """
    settings = _settings(frame, modules=modules, plans=plans, concurrency=concurrency)

    def ready(_: Broker, roles: list[str]) -> None:
        agents = f"agents for {', '.join(roles)}" if roles else "no agents (--module names some)"
        output.err().print(
            f"passdown is up on {settings.store}, with {agents}; Ctrl-C ends it", soft_wrap=True
        )

    ctx.exit(run_up(settings, ready))


@click.command("worker", cls=Command)
@click.argument("roles", metavar="[ROLE...]", nargs=-1)
@_MODULE
@_POOL
@_CONCURRENCY
@click.option("--no-merge", is_flag=True, help="Leave the merges of fan-outs to other workers.")
@click.pass_obj
@click.pass_context
def worker_command(
    ctx: click.Context,
    frame: Frame,
    roles: tuple[str, ...],
    modules: tuple[str, ...],
    pool: str | None,
    concurrency: str | None,
    no_merge: bool,
) -> None:
    """Run a pool of workers for some roles, and for the merges of fan-outs.

    Run as many as you like. One that dies is started again; what it held is handed on when its lease runs
    out. Ends as `up` does.
    """
    merge = "false" if no_merge else None
    settings = _settings(frame, modules=modules, pool=pool, concurrency=concurrency, merge=merge)
    if not settings.modules:
        raise click.UsageError("a worker needs its agents: --module, or `modules` in passdown.toml", ctx)
    names = list(dict.fromkeys(roles or settings.roles))
    if not names:
        raise click.UsageError("a worker needs its roles: name some, or `roles` in passdown.toml", ctx)
    ctx.exit(run_worker(settings, names))


@click.command("tick", cls=Command)
@click.pass_obj
@click.pass_context
def tick_command(ctx: click.Context, frame: Frame) -> None:
    """See to timers, lost leases and lost doorbells.

    One must run; several may. `up` has its own.
    """
    ctx.exit(run_tick(_settings(frame)))
