"""Who is known in a store: principals with their roles, groups and skills, and the tokens that they have.

Kept as records of the store, each changed against its version. Where somebody loses something, a record in the same
step says so, until the claims are ended that they may not hold any more (`passdown.broker.routing`).
"""

import re
from collections.abc import Callable, Iterator
from typing import TypeVar, cast

from msgspec.structs import replace

from passdown.broker.access.policy import ROLES, VERBS_OF, Role, Scope
from passdown.broker.access.tokens import Brought, Token, new_token
from passdown.broker.core.given import Who
from passdown.broker.stores.base import Store
from passdown.broker.stores.queries import FindRecord, FindRecords, RecordRow
from passdown.broker.stores.records import RecordPut, Records
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.commands import PRINCIPAL_PATTERN
from passdown.contracts.errors import Conflict, ContractError, NotFound

PRINCIPAL, TOKEN, SWEEP = "principal", "token", "sweep"
#: For how long whoever has read what is known of a principal and its token trusts it (seconds).
TRUSTED_S = 5.0
_NAME = re.compile(r"[a-z0-9]+([-_.][a-z0-9]+)*|\*")
_PAGE, _TRIES = 100, 20

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
        """Return what is known of a principal."""
        row = self._row(PRINCIPAL, name)
        return decode(row.body, Person, what="principal") if row else None

    def people(self) -> Iterator[Person]:
        """Yield all principals, by name."""
        for row in self._rows(PRINCIPAL):
            yield decode(row.body, Person, what="principal")

    def set_person(self, person: Person) -> None:
        """Make a principal known, or change what is known of it. Raises ContractError."""
        _require_person(person)
        self._try(lambda: self._put_person(person.name, person))

    def remove_person(self, name: str) -> None:
        """Forget a principal, and revoke nothing: a token of somebody unknown gives no verb. Raises NotFound."""
        self._try(lambda: self._put_person(name, None))

    def _put_person(self, name: str, person: Person | None) -> None:
        row = self._row(PRINCIPAL, name)
        if row is None and person is None:
            raise NotFound("principal", name)
        before = decode(row.body, Person, what="principal") if row else None
        puts = [_put(PRINCIPAL, name, row, encode(person) if person else None)]
        if before is not None and _lost(before, person):
            puts.append(_put(SWEEP, name, self._row(SWEEP, name), b"{}"))
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
        """Make a token; returns it as its bearer gets it, which nobody can read again, and what is kept of it."""
        _require_principal(principal)
        text, brought = new_token()
        token = self._kept(brought, principal, by, scopes, expires_s, label)
        put = RecordPut(kind=TOKEN, name=token.id, expected=0, body=encode(token))
        self._store.put(Records(records=[put]))
        return text, token

    def _kept(
        self,
        brought: Brought,
        principal: str,
        by: str,
        scopes: list[Scope] | None,
        expires_s: float | None,
        label: str,
    ) -> Token:
        now = self.now()
        return Token(
            id=brought.id,
            hash=brought.hash,
            principal=principal,
            label=label[:200],
            scopes=scopes,
            created_at=now,
            created_by=by,
            expires_at=None if expires_s is None else now + int(expires_s * 1000),
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
        return cast("RecordRow | None", self._store.find(FindRecord(kind=kind, name=name)))

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


def _lost(before: Person, after: Person | None) -> bool:
    """Whether somebody may do less than before."""
    if after is None:
        return True
    return any(
        set(getattr(before, name)) - set(getattr(after, name)) for name in ("roles", "groups", "skills")
    )


def _require_person(person: Person) -> None:
    _require_principal(person.name)
    unknown = [role for role in person.roles if role not in ROLES]
    if unknown:
        raise ContractError("principal", f"there is no role {unknown[0]!r}: {', '.join(ROLES)}", "/roles")
    for what, names in (("groups", person.groups), ("skills", person.skills)):
        bad = next((name for name in names if not _NAME.fullmatch(name)), None)
        if bad is not None:
            problem = f"expected lower-case words joined by - _ or ., got {bad!r}"
            raise ContractError("principal", problem, f"/{what}")


def _require_principal(name: str) -> None:
    if not re.match(PRINCIPAL_PATTERN, name):
        raise ContractError("principal", f"expected kind:name, for example user:ann, got {name!r}")
