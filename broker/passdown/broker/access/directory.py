"""Who is known in a store: principals with their roles, groups and skills, and the tokens that they have.

Kept as records of the store, each changed against its version. Where somebody loses something, a record in the same
step says so, until the claims are ended that they may not hold any more (`passdown.broker.routing`).
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from msgspec.structs import replace

from passdown.broker.access.policy import VERBS_OF, Role, Scope
from passdown.broker.access.tokens import Brought, Token, new_token
from passdown.broker.core.given import Who
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindRecord, FindRecords, RecordRow
from passdown.broker.stores.records import RecordPut, Records
from passdown.contracts.codec import Record, convert, decode, encode, plain
from passdown.contracts.commands import PRINCIPAL_PATTERN
from passdown.contracts.errors import Conflict, ContractError, NotFound

PRINCIPAL, TOKEN, SWEEP, REMOVED = "principal", "token", "sweep", "removed"
#: For how long whoever has read what is known of a principal and its token trusts it (seconds).
TRUSTED_S = 5.0
#: What a name begins with that stands for any member of a group. No principal has it.
GROUP = "group:"
_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*|\*")
_PAGE, _TRIES = 100, 20
#: The longest that a token is good for, where it ends at all (seconds): a hundred years.
_LONGEST_S = 100 * 365 * 86400
#: Principals, groups, skills and labels have at most so many letters, and a principal so many groups and skills.
_MOST_LETTERS, _MOST_NAMES = 200, 1000

T = TypeVar("T")


class Person(Record, frozen=True, kw_only=True):
    """A principal that is known here. A group in it is one whose queue of the same name it serves (``*``: any)."""

    name: str
    roles: list[Role] = []
    groups: list[str] = []
    skills: list[str] = []

    @property
    def who(self) -> Who:
        """What tickets may ask of them."""
        return Who(frozenset(self.groups), frozenset(self.skills))

    @property
    def takes_tickets(self) -> bool:
        """Whether a role lets them take tickets at all."""
        return any("ticket.claim" in VERBS_OF[role] for role in self.roles)


class Directory:
    """Reads and changes who is known. Every method raises Unavailable where the store is away."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- principals -----------------------------------------------------------------------------------------

    def person(self, name: str) -> Person | None:
        """Return what is known of a principal. Raises ContractError for what is no text."""
        row = self._row(PRINCIPAL, name)
        return decode(row.body, Person, what="principal") if row else None

    def people(self) -> Iterator[Person]:
        """Yield all principals, by name."""
        for row in self._rows(PRINCIPAL):
            yield decode(row.body, Person, what="principal")

    def set_person(self, person: Person) -> None:
        """Make a principal known, or change what is known of it. Raises ContractError."""
        person = checked_person(person)
        self._try(lambda: self._put_person(person.name, person))

    def remove_person(self, name: str) -> None:
        """Forget a principal, and revoke nothing: a token of somebody unknown gives no verb. Raises NotFound.

        That it was removed is kept, until it is made known again: a name is worth nothing more by being forgotten.
        """
        self._try(lambda: self._put_person(name, None))

    def was_removed(self, name: str) -> bool:
        """Whether a principal was known here, was removed, and was not made known again."""
        return self._row(REMOVED, name) is not None

    def _put_person(self, name: str, person: Person | None) -> None:
        row = self._row(PRINCIPAL, name)
        if row is None and person is None:
            raise NotFound("principal", name)
        before = decode(row.body, Person, what="principal") if row else None
        puts = [_put(PRINCIPAL, name, row, encode(person) if person else None)]
        removed = self._row(REMOVED, name)
        if removed is None and _lost(before, person):
            puts.append(_put(SWEEP, name, self._row(SWEEP, name), b"{}"))
        if (person is None) != (removed is not None):
            puts.append(_put(REMOVED, name, removed, None if person else b"{}"))
        self._store.put(Records(records=puts))

    # -- whose grants shrank --------------------------------------------------------------------------------

    def sweeps(self) -> list[tuple[str, int]]:
        """Return the principals whose claims must be looked at, each with the version of that note."""
        return [(row.name, row.version) for row in self._rows(SWEEP)]

    def swept(self, name: str, version: int) -> None:
        """Note that the claims of a principal were looked at; without effect where its grants shrank again since."""
        try:
            self._store.put(Records(records=[RecordPut(kind=SWEEP, name=name, expected=version, body=None)]))
        except Conflict:
            return

    # -- tokens ---------------------------------------------------------------------------------------------

    def token(self, token_id: str) -> Token | None:
        """Return what is kept of a token."""
        row = self._row(TOKEN, token_id)
        return decode(row.body, Token, what="token") if row else None

    def tokens(self) -> Iterator[Token]:
        """Yield all tokens that were ever made, by id."""
        for row in self._rows(TOKEN):
            yield decode(row.body, Token, what="token")

    def has_tokens(self) -> bool:
        """Whether any token was ever made in this store: from then on one is needed, where the store is not embedded."""
        return bool(self._store.find(FindRecords(kind=TOKEN, limit=1)))

    def create_token(
        self,
        principal: str,
        by: str,
        *,
        scopes: list[Scope] | None = None,
        expires_s: float | None = None,
        label: str = "",
    ) -> tuple[str, Token]:
        """Make a token; returns it as its bearer gets it, which nobody can read again, and what is kept of it.

        `expires_s`: for how long it is good (seconds), None: for ever. Raises ContractError for what does not fit.
        """
        principal, by, label = require_principal(principal), require_principal(by), _text(label, "label")
        scopes = scopes if scopes is None else _checked_scopes(scopes)
        lasts_ms = _milliseconds(expires_s)
        text, brought = new_token()
        token = self._kept(brought, principal, by, scopes, lasts_ms, label)
        put = RecordPut(kind=TOKEN, name=token.id, expected=0, body=encode(token))
        self._store.put(Records(records=[put]))
        return text, token

    def _kept(
        self,
        brought: Brought,
        principal: str,
        by: str,
        scopes: list[Scope] | None,
        lasts_ms: int | None,
        label: str,
    ) -> Token:
        now = self.now()
        return Token(
            id=brought.id,
            hash=brought.hash,
            principal=principal,
            label=label[:_MOST_LETTERS],
            scopes=scopes,
            created_at=now,
            created_by=by,
            expires_at=None if lasts_ms is None else now + lasts_ms,
        )

    def revoke_token(self, token_id: str) -> Token:
        """End a token for good; once more changes nothing. Raises NotFound."""
        return self._try(lambda: self._revoke(token_id))

    def _revoke(self, token_id: str) -> Token:
        row = self._row(TOKEN, token_id)
        if row is None:
            raise NotFound("token", token_id)
        token = decode(row.body, Token, what="token")
        if token.revoked_at is not None:
            return token
        revoked = replace(token, revoked_at=self.now())
        self._store.put(Records(records=[_put(TOKEN, token_id, row, encode(revoked))]))
        return revoked

    def now(self) -> int:
        """Return the store's time (milliseconds), by which tokens expire."""
        return self._store.load("").now

    # -- records --------------------------------------------------------------------------------------------

    def _row(self, kind: str, name: str) -> RecordRow | None:
        return cast("RecordRow | None", self._store.find(FindRecord(kind=kind, name=_text(name, kind))))

    def _rows(self, kind: str) -> Iterator[RecordRow]:
        after = ""
        while rows := cast(
            "list[RecordRow]", self._store.find(FindRecords(kind=kind, after=after, limit=_PAGE))
        ):
            yield from rows
            after = rows[-1].name

    def _try(self, change: Callable[[], T]) -> T:
        """Make a change that somebody else's may cross; each try reads anew."""
        for _ in range(_TRIES):
            try:
                return change()
            except Conflict:
                continue
        raise Conflict("this principal or token was changed by others all the time", "", "try again")


def _put(kind: str, name: str, row: RecordRow | None, body: bytes | None) -> RecordPut:
    return RecordPut(kind=kind, name=name, expected=row.version if row else 0, body=body)


def _lost(before: Person | None, after: Person | None) -> bool:
    """Whether somebody may do less than before; whom a store does not know may have been its owner."""
    if after is None:
        return True
    if before is None:
        return "operator" not in after.roles
    return any(
        set(getattr(before, name)) - set(getattr(after, name)) for name in ("roles", "groups", "skills")
    )


def checked_person(person: Person) -> Person:
    """Return what is to be known of a principal, after checking its types and limits; raises ContractError."""
    person = convert(plain(person, what="principal"), Person, what="principal")
    require_principal(person.name)
    for what, names in (("groups", person.groups), ("skills", person.skills)):
        if len(names) > _MOST_NAMES:
            raise ContractError("principal", f"expected at most {_MOST_NAMES}, got {len(names)}", f"/{what}")
        bad = next((one for one in names if len(one) > _MOST_LETTERS or not _NAME.fullmatch(one)), None)
        if bad is not None:
            problem = f"expected lower-case words joined by - _ or ., got {bad[:_MOST_LETTERS]!r}"
            raise ContractError("principal", problem, f"/{what}")
    return person


def _checked_scopes(scopes: list[Scope]) -> list[Scope]:
    checked = convert(plain(scopes, what="scopes"), list[Scope], what="scopes")
    if len(checked) > _MOST_NAMES or any(len(str(one)) > 2 * _MOST_LETTERS for one in checked):
        raise ContractError(
            "scopes", f"expected at most {_MOST_NAMES}, of at most {2 * _MOST_LETTERS} letters each"
        )
    return checked


def _milliseconds(seconds: float | None) -> int | None:
    if seconds is None:
        return None
    if not 0 < convert(seconds, float, what="expires") <= _LONGEST_S:
        problem = f"expected seconds above 0 and at most {_LONGEST_S}, got {seconds!r}; None is for ever"
        raise ContractError("expires", problem)
    return max(1, int(seconds * 1000))


def _text(value: str, what: str) -> str:
    return convert(value, str, what=what)


def require_principal(name: str) -> str:
    """Return the name of somebody who is or may be known; raises ContractError for a group, and for what is no name."""
    if not re.match(PRINCIPAL_PATTERN, _text(name, "principal")):
        raise ContractError(
            "principal", f"expected kind:name, for example user:ann, got {name[:_MOST_LETTERS]!r}"
        )
    if name.startswith(GROUP):
        raise ContractError("principal", f"{name} is a group: its members are principals of their own")
    return name
