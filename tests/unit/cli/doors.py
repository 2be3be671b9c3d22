"""Every command, with something to do it to: for tests of who may do what."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from passdown.broker.access.directory import Directory, Person
from passdown.broker.access.policy import Role
from passdown.broker.cli.root import COMMANDS, root
from passdown.broker.stores.base import Quarantine
from passdown.broker.stores.queries import FindQuarantine
from tests.unit.cli.desk import PRODUCER, Desk

Path_ = tuple[str, ...]

#: Commands that ask for nothing, and why.
OPEN: dict[Path_, str] = {
    ("up",): "it is the broker itself",
    ("tick",): "it is the broker itself",
    ("demo",): "it works in a store of its own",
    ("worker",): "its process asks, as test_worker shows",
    ("schema", "write"): "it reads no store",
    ("schema", "check"): "it reads no store",
    ("config",): "it reads no store",
    ("health",): "it reads a file, which the system guards",
    ("archive", "list"): "it reads a folder, which the system guards",
    ("archive", "show"): "it reads a folder, which the system guards",
    ("archive", "prove"): "it reads a folder, which the system guards",
}
#: What stands for a required argument of this name, where nothing else is said below.
WORDS = {
    "ticket": "order-1/1",
    "tickets": "order-1/1",
    "session": "order-1",
    "question": "reason",
    "value": "because",
    "resolution": "approve",
    "text": "look",
    "ids": "1",
    "id_": "1",
    "files": "refund.toml",
    "modules": "tools.py",
    "plan": "refund",
    "role": "helper",
    "goal": "Help.",
    "effect": "EFFECT",
    "token_id": "TOKEN",
}
#: What is typed after these commands.
TYPED: dict[Path_, list[str]] = {
    ("submit",): ["help", "--key", "order-2"],
    ("show",): ["order-1"],
    ("tickets",): ["--session", "order-1"],
    ("plan", "show"): ["refund"],
    ("quarantine", "drop"): ["--all"],
    ("archive", "run"): ["--set", "retention=1h", "--set", "archive=none"],
    ("principal", "set"): ["user:new", "--role", "human"],
    ("principal", "remove"): ["user:gone"],
    ("token", "create"): ["user:gone"],
    ("resolve",): ["order-1/1", "approve", "--version", "1"],
    ("inbox", "resolve"): ["order-1/1", "approve", "--version", "1"],
    ("inbox", "snooze"): ["order-1/1", "5m"],
    ("inbox", "reassign"): ["order-1/1", "--to", "user:human"],
    ("inbox", "take-over"): ["order-1/1", "--reason", "gone home"],
}
PLAN = 'name = "mail"\nstart = "a"\n[stages.a]\nrole = "desk"\ngoal = "Write."\n'
TOOLS = "from passdown.agents import tool\n\n@tool('letters.read')\ndef read_letter(name: str) -> dict:\n    return {}\n"


def paths() -> Iterator[tuple[Path_, click.Command]]:
    """Yield every command by its path, those below others as well."""
    for name in (name for section in COMMANDS.values() for name in section):
        command = root.get_command(click.Context(root), name)
        assert command is not None
        below = command.commands if isinstance(command, click.Group) else None
        if below is None:
            yield (name,), command
        else:
            yield from (((name, one), leaf) for one, leaf in below.items())


def guarded() -> list[Path_]:
    """Return the commands that ask who is there, by their paths."""
    return [path for path, _ in paths() if path not in OPEN]


class Doors:
    """A desk with an approval that waits, where one principal of each role is known, and one without any."""

    def __init__(self, desk: Desk, folder: Path) -> None:
        self.desk = desk
        self._folder = folder
        self._copies = 0
        desk.submit("order-1", orderId="1")
        desk.work()
        desk.broker.app.store.put(Quarantine(source="return", reason="odd", body=b"{}"))
        self.directory = Directory(desk.broker.app.store)
        for role in ("worker", "operator"):
            self.know(f"user:{role}", role)
        self.know("user:human", "human", "refund-approvers")
        self.know("user:gone", "worker")
        self.directory.set_person(Person(name="user:nobody"))
        session = desk.broker.session("order-1")
        self.session_id = session.id
        _, spare = self.directory.create_token("user:gone", "user:me")
        self._words = {**WORDS, "effect": session.state().effects[0].effect_id, "token_id": spare.id}
        (folder / "refund.toml").write_text(PLAN)
        (folder / "tools.py").write_text(TOOLS)

    def know(self, name: str, role: Role, *groups: str) -> None:
        """Make a principal known."""
        self.directory.set_person(Person(name=name, roles=[role], groups=[*groups]))

    def know_the_producer(self) -> None:
        """From then on who made the sessions is no owner any more; the desk needs it to be one."""
        self.know(PRODUCER, "producer")

    def typed(self, path: Path_) -> list[str]:
        """Return a command line that can be carried out by whoever may."""
        command = dict(paths())[path]
        words = TYPED.get(path)
        return [*path, *(self._required(path, command) if words is None else words)]

    def _required(self, path: Path_, command: click.Command) -> list[str]:
        asked = [one for one in command.params if isinstance(one, click.Argument)]
        if path == ("replay",):
            return [self._words["session"]]
        needed = [one for one in asked if one.required]
        missing = [one.name for one in needed if one.name not in self._words]
        assert not missing, f"say in WORDS or TYPED what stands for {missing} of {path}"
        return [self._words[str(one.name)] for one in needed]

    def copy(self) -> str:
        """Return the address of a copy of the store, to do something to it."""
        self._copies += 1
        path = self._folder / f"copy-{self._copies}.db"
        with sqlite3.connect(self.desk.path) as store, sqlite3.connect(path) as to:
            store.backup(to)
        to.close()
        return f"sqlite:///{path}"

    def fingerprint(self) -> tuple[Any, ...]:
        """Return everything that a command could have changed."""
        people, tokens = list(self.directory.people()), list(self.directory.tokens())
        refused = self.desk.broker.app.store.find(FindQuarantine(limit=100))
        return self.desk.fingerprint(), people, tokens, self.directory.sweeps(), refused

    def clean(self) -> None:
        """Remove what commands made beside the store."""
        for path in self._folder.glob("copy-*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
