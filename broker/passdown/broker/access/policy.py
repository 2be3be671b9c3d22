"""`authorize(actor, verb, …)`: the one place where it is decided who may do what. Default deny (rule 10). Pure.

A role gives verbs; a token narrows them to its scopes, and never gives more. What a ticket asks of whoever takes it
(groups, skills, four eyes) is decided with the ticket (`passdown.broker.core.holding`), for that depends on its state.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal, get_args

from passdown.broker.core.given import Who
from passdown.broker.core.lanes import needs_of, why_not_in
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.contracts.codec import Record
from passdown.contracts.errors import Denied

Verb = Literal[
    "session.submit",
    "session.read",
    "session.answer",
    "session.steer",
    "ticket.read",
    "ticket.claim",
    "ticket.comment",
    "ticket.reassign",
    "ticket.resolve",
    "pack.take",
    "plan.read",
    "plan.register",
    "tool.read",
    "tool.register",
    "queue.read",
    "quarantine.read",
    "quarantine.change",
    "store.read",
    "store.archive",
    "token.manage",
    "principal.manage",
]
Role = Literal["producer", "worker", "human", "operator"]

VERBS: tuple[Verb, ...] = get_args(Verb)
ROLES: tuple[Role, ...] = get_args(Role)

#: Role → what it may do at all. A producer reads, answers and steers the sessions that it submitted; a human agent reads
#: those of which it may take or holds a ticket.
VERBS_OF: dict[Role, frozenset[Verb]] = {
    "producer": frozenset(
        {"session.submit", "session.read", "session.answer", "session.steer", "plan.read", "tool.read"}
    ),
    "worker": frozenset({"pack.take", "plan.read", "tool.read", "tool.register"}),
    "human": frozenset(
        {
            "session.read",
            "ticket.read",
            "ticket.claim",
            "ticket.comment",
            "ticket.reassign",
            "ticket.resolve",
            "plan.read",
        }
    ),
    "operator": frozenset(VERBS),
}
#: Verbs about one session, ticket, plan or pack at a time. All others are about the whole store where nothing is named.
ABOUT_ONE: frozenset[Verb] = frozenset(
    verb
    for verb in VERBS
    if verb.startswith(("session.", "ticket.")) or verb in ("plan.read", "plan.register", "pack.take")
)


class Scope(Record, frozen=True, kw_only=True):
    """What a token is good for: verbs and resources, each a pattern (``ticket.*``, ``queue:refund-*``, ``*``)."""

    verb: str = "*"
    resource: str = "*"

    def __str__(self) -> str:
        return f"{self.verb}={self.resource}"

    def gives(self, verb: Verb) -> bool:
        """Whether the verb is one of those."""
        return fnmatchcase(verb, self.verb)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts. ``owner``: whoever opened an embedded store, and is not known in it by name: they may do everything.

    ``scopes`` are those of the token that was brought; None: none was, or it is not narrowed.
    """

    principal: str
    roles: frozenset[Role] = frozenset()
    groups: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()
    scopes: tuple[Scope, ...] | None = None
    owner: bool = False

    @property
    def operates(self) -> bool:
        """Whether they see to the whole: an operator, or the owner of the store."""
        return self.owner or "operator" in self.roles

    @property
    def who(self) -> Who | None:
        """What tickets may ask of them; None: nothing but four eyes."""
        return None if self.operates else Who(self.groups, self.skills)

    def verbs(self) -> frozenset[Verb]:
        """Return what their roles give, before the scopes of a token."""
        if self.owner:
            return frozenset(VERBS)
        return frozenset[Verb]().union(*(VERBS_OF[role] for role in self.roles))


def authorize(actor: Actor, verb: Verb, *resources: str) -> None:
    """Raise Denied unless `actor` may do this to something that has all these names (``queue:…``, ``plan:…``).

    Without names it is asked whether they may do it at all, where the verb is about one thing at a time (`ABOUT_ONE`):
    what they do it to is still asked for one by one. For any other verb it is asked for the whole store, which a token
    that is narrowed to some things never covers.
    """
    if verb not in actor.verbs():
        able = ", ".join(role for role in ROLES if verb in VERBS_OF[role])
        has = f"has the role {', '.join(sorted(actor.roles))}" if actor.roles else "has no role here"
        raise Denied(
            actor.principal, _what(verb, resources), f"it takes the role {able}, and {actor.principal} {has}"
        )
    if actor.scopes is not None and not any(_covers(scope, verb, resources) for scope in actor.scopes):
        scopes = ", ".join(map(str, actor.scopes)) or "nothing"
        raise Denied(actor.principal, _what(verb, resources), f"the token is good for {scopes}")


def _covers(scope: Scope, verb: Verb, resources: Iterable[str]) -> bool:
    if not scope.gives(verb):
        return False
    names = list(resources)
    if not names:
        return verb in ABOUT_ONE or scope.resource == "*"
    return any(fnmatchcase(name, scope.resource) for name in names)


def _what(verb: Verb, resources: Iterable[str]) -> str:
    return " ".join([verb, *resources])


def names_of(state: State) -> list[str]:
    """Return the names by which a token may be scoped to a session."""
    return [f"session:{state.session_id}", f"plan:{state.plan.name}", f"task:{state.task_id}"]


def authorize_session(actor: Actor, verb: Verb, state: State, submitted_by: str = "") -> None:
    """Raise Denied unless `actor` may do this to this very session: nobody reads across tasks (rule 10).

    `submitted_by` is who submitted the root of a branch; empty: the session is none.
    """
    authorize(actor, verb, *names_of(state))
    if actor.operates or ("producer" in actor.roles and (submitted_by or state.by) == actor.principal):
        return
    if verb == "session.read" and any(_concerns(actor, ticket) for ticket in state.tickets):
        return
    why = "it belongs to whoever submitted it, to those who may take its tickets, and to operators"
    raise Denied(actor.principal, f"{verb} {state.session_id}", why)


def _concerns(actor: Actor, ticket: Ticket) -> bool:
    if "human" not in actor.roles:
        return False
    held = ticket.holder is not None and ticket.holder.by == actor.principal
    return held or not why_not_in(needs_of(ticket), actor.principal, actor.who)


def authorize_ticket(actor: Actor, verb: Verb, state: State, ticket: Ticket) -> None:
    """Raise Denied unless `actor` may do this to this very ticket: it serves its queue, or holds it."""
    authorize(actor, verb, f"queue:{ticket.queue}", *names_of(state))
    held = ticket.holder is not None and ticket.holder.by == actor.principal
    why = "" if held else why_not_in(needs_of(ticket), actor.principal, actor.who)
    if why:
        raise Denied(actor.principal, f"{verb} {state.session_id}/{ticket.ticket_no}", why)
