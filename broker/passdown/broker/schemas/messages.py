"""Every message that has a schema: its file, its type, and examples of it."""

from collections.abc import Iterable
from typing import Any, NamedTuple, cast, get_args

from passdown.broker.core.state import State
from passdown.broker.schemas import (
    brief_example,
    command_examples,
    event_examples,
    examples,
    outgoing_examples,
)
from passdown.contracts import commands, replies
from passdown.contracts.brief import Brief
from passdown.contracts.events import Event, Logged
from passdown.contracts.outgoing import OutcomeEvent, Outgoing, StatusEvent
from passdown.contracts.pack import Pack
from passdown.contracts.plans import Plan
from passdown.contracts.problems import Problem
from passdown.contracts.push import Push
from passdown.contracts.returns import Return
from passdown.contracts.tools import ToolSpec


class Message(NamedTuple):
    """``name`` is the file's path without its suffix; a struct brings its own title and description."""

    name: str
    kind: Any
    examples: list[Any]
    title: str = ""
    description: str = ""
    version: int = 1


def messages() -> list[Message]:
    """Return all messages, in a fixed order."""
    return [
        Message("pack", Pack, [examples.PACK]),
        Message("plan", Plan, [examples.PLAN]),
        Message("problem", Problem, [examples.PROBLEM]),
        Message("push", Push, [examples.PUSH]),
        Message("state", State, [examples.STATE]),
        Message("tool", ToolSpec, [examples.TOOL]),
        Message("brief", Brief, [brief_example.BRIEF]),
        Message("event", Logged, [event_examples.LOGGED]),
        *_family("events", Event, event_examples.EVENTS),
        *_union("return", Return, examples.RETURNS, "What one claim gives back: one of four results."),
        *_union("command", commands.Body, command_examples.COMMANDS, "What can be asked of a session."),
        Message(
            "outgoing",
            Outgoing,
            outgoing_examples.OUTGOING,
            "Outgoing",
            "What is told outside about a session: a CloudEvent, one of two.",
        ),
        Message("outgoing/status", StatusEvent, outgoing_examples.OUTGOING[:1]),
        Message("outgoing/outcome", OutcomeEvent, outgoing_examples.OUTGOING[1:]),
        *_union("reply", replies.Reply, command_examples.REPLIES, "What a command answered."),
    ]


def _union(name: str, union: Any, of: list[Any], description: str) -> Iterable[Message]:
    yield Message(name, union, of, name.capitalize(), description)
    plural = f"{name[:-1]}ies" if name.endswith("y") else f"{name}s"
    yield from _family(plural, union, of)


def _family(folder: str, union: Any, of: list[Any]) -> Iterable[Message]:
    """Yield a message for each struct of a union, with those of the examples that are of it."""
    for member in cast("tuple[type[Any], ...]", get_args(union)):
        tag = member.__struct_config__.tag
        yield Message(f"{folder}/{tag}", member, [example for example in of if type(example) is member])
