"""`token create`, `list`, `revoke`: by what somebody proves who they are (docs/security.md)."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import click

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.operators import directory_of, require_first
from passdown.broker.access.policy import ROLES, VERBS, Role, Scope
from passdown.broker.access.tokens import Token
from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import opened
from passdown.broker.cli.params import Duration
from passdown.broker.cli.words import clean, cut, when
from passdown.contracts.errors import ContractError


@click.group("token", cls=Group)
def token_command() -> None:
    """Make, list and revoke tokens."""


@token_command.command("create")
@click.argument("principal")
@click.option(
    "--role",
    "roles",
    type=click.Choice(ROLES),
    multiple=True,
    help="Make the principal known with this role, where it is not yet. May be repeated.",
)
@click.option(
    "--scope",
    "scopes",
    metavar="VERBS=RESOURCES",
    multiple=True,
    help="Good for this only, such as 'ticket.*=queue:refund-*'. May be repeated.",
)
@click.option(
    "--expires", "expires_s", metavar="DURATION", type=Duration(), help="Good for so long; else for ever."
)
@click.option("--label", default="", help="What it is for, to tell it in a list.")
@click.option(
    "--to",
    "file",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write it into a new file that only you may read, in place of stdout.",
)
@click.pass_obj
def create_command(
    frame: Frame,
    principal: str,
    roles: tuple[Role, ...],
    scopes: tuple[str, ...],
    expires_s: float | None,
    label: str,
    file: Path | None,
) -> None:
    """Make a token for a principal, and print it: nobody can read it again.

    It gives what the principal's roles give, with --scope less. VERBS and RESOURCES are patterns with * and ?;
    resources are queue:NAME, plan:NAME, role:NAME, session:ID, task:ID.

    On a Redis server everybody needs a token once there is one. So the first must be an operator's, that neither
    ends nor has scopes: --role operator.
    """
    if expires_s == 0:
        raise click.BadParameter(
            "a token that is good for no time; leave it out: for ever", param_hint="--expires"
        )
    narrowed = [_scope(one) for one in scopes]
    with _new_file(file) as to, opened(frame, "token.manage", create=True) as broker:
        directory = Directory(broker.app.store)
        known = directory.person(principal)
        bearer = _bearer(principal, known, roles)
        if not broker.app.embedded:
            require_first(directory, broker.by, bearer, lasts=expires_s is None and not narrowed)
        if known is None:
            broker.acting.require("principal.manage")
            directory.set_person(bearer)
        text, token = directory.create_token(
            principal, broker.by, scopes=narrowed or None, expires_s=expires_s, label=label
        )
        click.echo(text, file=to)
    click.echo(f"passdown: token {token.id} of {principal}; it cannot be shown again", err=True)


def _scope(text: str) -> Scope:
    verb, _, resource = text.partition("=")
    scope = Scope(verb=verb, resource=resource or "*")
    if not any(scope.gives(one) for one in VERBS):
        known = ", ".join(VERBS)
        raise click.BadParameter(f"{verb!r} is and covers no verb; there are {known}", param_hint="--scope")
    return scope


def _bearer(name: str, known: Person | None, roles: tuple[Role, ...]) -> Person:
    """Return who is to have the token; one who is known is changed by `principal set` only. Raises ContractError."""
    if known is None:
        if not roles:
            problem = f"{name} is not known here; say its --role, or `passdown principal set`"
            raise ContractError("token", problem)
        return Person(name=name, roles=sorted(set(roles)))
    missing = sorted(set(roles) - set(known.roles))
    if missing:
        problem = f"{name} is known, and not as {', '.join(missing)}; `passdown principal set` changes that"
        raise ContractError("token", problem)
    return known


@contextmanager
def _new_file(path: Path | None) -> Generator[TextIO | None]:
    """Open a new file for the token, None for stdout. It is there before the token is.

    A token that cannot be handed over might be the first one, and then nobody had any. Raises ContractError.
    """
    if path is None:
        yield None
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        problem = "it is there already; name another, or remove it first"
        raise ContractError(f"token file {path}", problem) from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            yield file
    except BaseException:
        path.unlink()
        raise


@token_command.command("list")
@json_option
@click.pass_obj
def list_command(frame: Frame, as_json: bool) -> None:
    """List all tokens that were ever made, by id; what they were is shown nowhere."""
    with opened(frame, "token.manage") as broker:
        directory = Directory(broker.app.store)
        tokens, now = list(directory.tokens()), directory.now()
    if as_json:
        output.print_json({"tokens": [_described(one, now) for one in tokens]})
        return
    lines: list[list[tables.Cell]] = [
        [
            one.id,
            one.principal,
            one.state(now),
            _scopes(one),
            when(one.expires_at) if one.expires_at is not None else "never",
            cut(clean(one.label), 60),
        ]
        for one in tokens
    ]
    tables.show(["token", "principal", "state", "good for", "ends", "label"], lines, "there is no token")


def _scopes(token: Token) -> str:
    if token.scopes is None:
        return "all that its principal may"
    return clean(", ".join(map(str, token.scopes)))


def _described(token: Token, now: int) -> dict[str, object]:
    return {
        "id": token.id,
        "principal": token.principal,
        "label": token.label,
        "state": token.state(now),
        "scopes": token.scopes,
        "createdAt": token.created_at,
        "createdBy": token.created_by,
        "expiresAt": token.expires_at,
        "revokedAt": token.revoked_at,
    }


@token_command.command("revoke")
@click.argument("token_id", metavar="ID")
@click.pass_obj
def revoke_command(frame: Frame, token_id: str) -> None:
    """End a token for good. Who works with it is refused within seconds."""
    with opened(frame, "token.manage") as broker:
        token = directory_of(broker.app.store, embedded=broker.app.embedded).revoke_token(token_id)
    output.say(f"{token.id} of {token.principal} is revoked")
