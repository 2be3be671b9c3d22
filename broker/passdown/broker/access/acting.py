"""Who acts on a store, and the log of what was refused. What every surface asks before it does something (rule 10)."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import structlog

from passdown.broker.access import policy
from passdown.broker.access.directory import GROUP, Directory
from passdown.broker.access.policy import Actor, Verb
from passdown.broker.access.tokens import read_token, require_good
from passdown.broker.core.given import Who
from passdown.broker.core.parts import Ticket
from passdown.broker.core.state import State
from passdown.broker.settings import Settings
from passdown.broker.stores.base import Store
from passdown.contracts.errors import ContractError, Denied, Unauthenticated

#: Where a token is needed: on a store for several machines once one was made in it (`auto`), or everywhere.
AccessMode = Literal["auto", "tokens"]

_NEEDED = (
    "this store asks for a token: PASSDOWN_TOKEN_FILE names its file, and an operator makes one with"
    " `passdown token create`"
)
#: Letters that are read of a token's file; a token has 66.
_MOST_IN_FILE = 1000
_FIRST = " (the first of a store with `--set access=auto`)"

_log = structlog.get_logger("passdown.access")


class Acting:
    """A principal that acts on a store. Each `require…` raises Denied, and logs that it was refused."""

    def __init__(self, actor: Actor, directory: Directory) -> None:
        self.actor = actor
        self._directory = directory

    @property
    def by(self) -> str:
        """The principal."""
        return self.actor.principal

    @property
    def who(self) -> Who | None:
        """What tickets may ask of them."""
        return self.actor.who

    def require(self, verb: Verb, *resources: str) -> None:
        """Raise Denied unless they may do this to something of these names."""
        self._logged(verb, lambda: policy.authorize(self.actor, verb, *resources))

    def require_session(self, verb: Verb, state: State, submitted_by: str = "") -> None:
        """Raise Denied unless they may do this to this session; of a branch it counts who `submitted_by` its root."""
        self._logged(verb, lambda: policy.authorize_session(self.actor, verb, state, submitted_by))

    def require_ticket(self, verb: Verb, state: State, ticket: Ticket) -> None:
        """Raise Denied unless they may do this to this ticket."""
        self._logged(verb, lambda: policy.authorize_ticket(self.actor, verb, state, ticket))

    @property
    def sees_all(self) -> bool:
        """Whether every session and ticket is theirs to see."""
        return self.actor.operates and self.actor.scopes is None

    def may_read(self, state: State) -> bool:
        """Whether this session is theirs to read; nothing is logged, for it was not asked for by name."""
        try:
            policy.authorize_session(self.actor, "session.read", state)
        except Denied:
            return False
        return True

    def refused(self, verb: Verb, what: str, why: str) -> Denied:
        """Return the error for something that they may not do, and log it."""
        error = Denied(self.by, what, why)
        log_refused(error, verb, self.by)
        return error

    def covers(self, verb: Verb, *resources: str) -> bool:
        """Whether they may; nothing is logged, for it was not asked for by name."""
        try:
            policy.authorize(self.actor, verb, *resources)
        except Denied:
            return False
        return True

    def who_of(self, principal: str) -> Who | None:
        """Return what is known of somebody else to whom a ticket is to be given; None for operators, and where nobody is known.

        Raises Denied for somebody who is not known, or takes no tickets, where others are known.
        """
        person = self._directory.person(principal)
        if person is not None and person.takes_tickets:
            return None if "operator" in person.roles else person.who
        known = person is not None or self._directory.was_removed(principal)
        if not known and next(self._directory.people(), None) is None:
            return None
        raise Denied(principal, "be given a ticket", "it is not known here as somebody who takes tickets")

    def _logged(self, verb: Verb, check: Callable[[], None]) -> None:
        try:
            check()
        except Denied as error:
            log_refused(error, verb, self.by)
            raise


def log_refused(error: Denied, verb: str, by: str) -> None:
    """Log a refusal: who asked for what, and why not. The core's own refusals of people are logged here as well."""
    _log.warning("access.denied", by=by, verb=verb, what=error.what, why=error.why)


def acting_on(
    store: Store,
    *,
    principal: str,
    named: bool = False,
    token: str = "",
    embedded: bool,
    mode: AccessMode = "auto",
) -> Acting:
    """Return who acts on `store`.

    With a `token` its principal does; `principal` must be the same where it was `named` by the user. Without one, on
    an embedded store, `principal` does: with what the store knows of it, or else as the store's owner, for whoever
    can open the file can do everything to it. So it is on a store for several machines in which no token was made
    yet. Who was removed there is no owner, but somebody who may do nothing. A ``group:…`` is any member of that group, on
    an embedded store only. Raises Unauthenticated where a token is needed and none is there, or it is not good.
    """
    directory = Directory(store)
    if principal.startswith(GROUP) and (token or not embedded):
        error = Unauthenticated(
            "act as a group", "on a store for several machines each acts in their own name"
        )
        _log.warning("access.refused", why=error.why, claimed=principal)
        raise error
    if token:
        return Acting(_by_token(directory, token, principal if named else ""), directory)
    if mode == "tokens" or (not embedded and directory.has_tokens()):
        error = Unauthenticated("tell who you are", _NEEDED + (_FIRST if mode == "tokens" else ""))
        _log.warning("access.refused", why="no token was brought", claimed=principal)
        raise error
    return Acting(_by_name(directory, principal), directory)


def the_broker(store: Store, principal: str) -> Acting:
    """Return the broker itself, which may do everything: whoever runs its process has the store."""
    return Acting(Actor(principal, owner=True), Directory(store))


def warn_of_no_tokens(store: Store, *, embedded: bool) -> None:
    """Log, where processes start, that whoever reaches a store for several machines may do everything in it."""
    if not embedded and not Directory(store).has_tokens():
        _log.warning(
            "access.open", why="no token was made in this store: whoever reaches it may do everything"
        )


def _by_name(directory: Directory, principal: str) -> Actor:
    if principal.startswith(GROUP):
        return Actor(principal, frozenset({"human"}), frozenset({principal.removeprefix(GROUP)}))
    person = directory.person(principal)
    if person is None:
        return Actor(principal, owner=not directory.was_removed(principal))
    return Actor(principal, frozenset(person.roles), frozenset(person.groups), frozenset(person.skills))


def _by_token(directory: Directory, text: str, named: str) -> Actor:
    token_id = ""
    try:
        brought = read_token(text)
        token_id = brought.id
        token = require_good(brought, directory.token(token_id), directory.now())
        _require_same(token.principal, named)
    except Unauthenticated as error:
        _log.warning("access.refused", token=token_id, why=error.why)
        raise
    person = directory.person(token.principal)
    scopes = None if token.scopes is None else tuple(token.scopes)
    if person is None:
        return Actor(token.principal, scopes=scopes)
    return Actor(
        token.principal,
        frozenset(person.roles),
        frozenset(person.groups),
        frozenset(person.skills),
        scopes,
    )


def _require_same(principal: str, named: str) -> None:
    if named and named != principal:
        raise Unauthenticated("act as somebody else", f"the token is of {principal}, and --as says {named}")


def token_of(settings: Settings) -> str:
    """Return the token that the settings bring, empty where they bring none. Raises ContractError as `token_from` does."""
    if settings.token or not settings.token_file:
        return settings.token
    return token_from(settings.token_file)


def token_from(path: str) -> str:
    """Return the token in a file that nobody but its owner may read. Raises ContractError."""
    try:
        with Path(path).open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(_MOST_IN_FILE).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ContractError(f"token file {path}", f"it cannot be read: {why}") from error
    if mode & 0o077 and os.name == "posix":
        raise ContractError(
            f"token file {path}", f"others may read it (mode {mode:o}); mend it with: chmod 600 {path}"
        )
    if not text:
        raise ContractError(f"token file {path}", "it is empty")
    return text
