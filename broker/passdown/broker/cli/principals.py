"""`principal set`, `list`, `remove`: who is known in a store, and what they may do (docs/security.md)."""

import click

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.operators import directory_of
from passdown.broker.access.policy import ROLES, Role
from passdown.broker.cli import output, tables
from passdown.broker.cli.frame import Frame, Group, json_option
from passdown.broker.cli.opening import opened


@click.group("principal", cls=Group)
def principal_command() -> None:
    """Say who is known here, and what they may do."""


@principal_command.command("set")
@click.argument("name")
@click.option("--role", "roles", type=click.Choice(ROLES), multiple=True, help="May be repeated.")
@click.option(
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="A group: it serves the human queue of its name; * serves all. May be repeated.",
)
@click.option(
    "--skill", "skills", metavar="SKILL", multiple=True, help="What tickets may ask for. May be repeated."
)
@click.pass_obj
def set_command(
    frame: Frame, name: str, roles: tuple[Role, ...], groups: tuple[str, ...], skills: tuple[str, ...]
) -> None:
    """Make a principal known, or change all that is known of it.

    NAME is kind:name, such as user:ann. Its roles, groups and skills are those that are named here and no other; a
    claim that it may not hold any more ends soon.
    """
    person = Person(
        name=name, roles=sorted(set(roles)), groups=sorted(set(groups)), skills=sorted(set(skills))
    )
    with opened(frame, "principal.manage", create=True) as broker:
        directory_of(broker.app.store, embedded=broker.app.embedded).set_person(person)
    output.say(f"{name}: {', '.join(person.roles) or 'no role'}")


@principal_command.command("list")
@json_option
@click.pass_obj
def list_command(frame: Frame, as_json: bool) -> None:
    """List the principals that are known, by name."""
    with opened(frame, "principal.manage") as broker:
        people = list(Directory(broker.app.store).people())
    if as_json:
        output.print_json({"principals": people})
        return
    lines: list[list[tables.Cell]] = [
        [one.name, ", ".join(one.roles), ", ".join(one.groups), ", ".join(one.skills)] for one in people
    ]
    tables.show(["principal", "roles", "groups", "skills"], lines, "nobody is known")


@principal_command.command("remove")
@click.argument("name")
@click.pass_obj
def remove_command(frame: Frame, name: str) -> None:
    """Forget a principal. Its tokens open nothing from then on; a claim that it holds ends soon."""
    with opened(frame, "principal.manage") as broker:
        directory_of(broker.app.store, embedded=broker.app.embedded).remove_person(name)
    output.say(f"{name} is forgotten")
