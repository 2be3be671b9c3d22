"""What a decision is given beside the state: the command, when, by whom, and what is registered.

The controller fetches it; nothing here reads a clock or a store.
"""

from dataclasses import dataclass, field
from typing import Any, cast

from passdown.broker.core.join import Facts, Mark, Waking
from passdown.broker.core.state import State
from passdown.contracts.codec import Record
from passdown.contracts.commands import Body, DueKind
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Grant, Plan, Stage
from passdown.contracts.replies import Reply
from passdown.contracts.tools import ToolSpec


@dataclass(frozen=True, slots=True)
class Given:
    """The plan that the session pinned, the newest one of its name, and tool specifications.

    ``newest`` is None where it is the pinned one. ``registered``: name → (digest, specification) as of
    now, for the tools that the plan names; ``pinned``: digest → specification, for those that the present
    pack carries and those of effects that are proposed, intended or unknown, or that a ticket `unmet` is about.
    """

    plan: Plan
    newest: Plan | None = None
    registered: dict[str, tuple[str, ToolSpec]] = field(default_factory=dict[str, tuple[str, ToolSpec]])
    pinned: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])

    def stage(self, name: str) -> Stage:
        """Return a stage of the pinned plan; raises PlanError where it has none of that name."""
        found = self.plan.stages.get(name)
        if found is None:
            raise PlanError(
                self.plan.name, [f"there is no stage {name!r}; it has {', '.join(self.plan.stages)}"]
            )
        return found


@dataclass(frozen=True, slots=True)
class Who:
    """What is known of whoever acts, that tickets may ask for: names of groups and of skills."""

    groups: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Command:
    """A command in its circumstances: ``at`` is the store's clock in milliseconds, ``by`` a principal.

    ``events_to`` is the exchange on which the deciding process has the sessions told of that it opens;
    ``join`` the record of the join that the command is about, where it is about one. ``who`` is what is known of
    ``by``; None: an operator, or whoever owns the store, whom nothing but four eyes keeps from a ticket.
    """

    session_id: str
    body: Body
    at: int
    by: str
    given: Given
    events_to: str = ""
    join: Facts | None = None
    who: Who | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a command leads to. With no events nothing is written, and the reply stands alone.

    ``waking`` is what changes about the record of one of its joins, ``mark`` the row in the join of its parent.
    """

    state: State | None
    events: list[bytes]
    reply: Reply
    pack: bytes | None = None
    waking: Waking | None = None
    mark: Mark | None = None


class DueAt(Record, frozen=True, kw_only=True):
    """Something that a state waits for, until ``at`` (store milliseconds)."""

    kind: DueKind
    subject: str
    at: int


def grant_of(stage: Stage, tool: str) -> Grant | None:
    """Return what a stage grants of a tool."""
    return next((grant for grant in stage.tools if grant.tool == tool), None)


def permit_of(stage: Stage, tool: str) -> Grant | None:
    """Return what a person may permit once of a tool that a stage denies, as a grant that needs that person's approval."""
    for permit in stage.permits:
        if permit.tool == tool:
            return Grant(
                tool=tool,
                approve=permit.queue,
                approvals=permit.approvals,
                approval_seconds=permit.approval_seconds,
                params=permit.params,
            )
    return None


def as_object(value: object) -> dict[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
