"""API tokens: opaque, prefixed, hashed at rest, scoped, expiring, revocable (DESIGN §9).

    pdt_<id>_<secret><check>

The id names the token's record and may be logged; the secret is 32 random bytes, of which the store has the SHA-256
only. A slow hash would add nothing: it protects what people choose, and nobody can search 2^256 secrets. The last six
letters are a check of the rest, so that a token that was cut off or mistyped is told apart from one that is not good.
"""

import hashlib
import hmac
import re
import secrets
from typing import NamedTuple

from passdown.broker.access.policy import Scope
from passdown.contracts.codec import Record
from passdown.contracts.errors import Unauthenticated

PREFIX = "pdt_"
_FORM = re.compile(r"pdt_([a-z0-9]{12})_([A-Za-z0-9_-]{43})([a-f0-9]{6})")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


class Token(Record, frozen=True, kw_only=True):
    """What the store keeps of a token. Times are store milliseconds; ``scopes`` None: all that its principal may do."""

    id: str
    hash: str
    principal: str
    label: str = ""
    scopes: list[Scope] | None = None
    created_at: int
    created_by: str
    expires_at: int | None = None
    revoked_at: int | None = None

    def state(self, now: int) -> str:
        """Return ``good``, ``expired`` or ``revoked``, as of `now`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "good"


class Brought(NamedTuple):
    """A token that is well formed: its id, and the hash of its secret."""

    id: str
    hash: str


def new_token() -> tuple[str, Brought]:
    """Return a new token as it is given to its bearer, once, and what is kept of it."""
    token_id = "".join(secrets.choice(_ALPHABET) for _ in range(12))
    body = f"{PREFIX}{token_id}_{secrets.token_urlsafe(32)}"
    text = body + _check(body)
    return text, read_token(text)


def read_token(text: str) -> Brought:
    """Return what a token says; raises Unauthenticated where it is none."""
    found = _FORM.fullmatch(text.strip())
    if found is None or _check(text.strip()[:-6]) != found[3]:
        why = "what was brought is no token, or not all of one: it begins with pdt_ and has 66 letters"
        raise Unauthenticated("tell who you are", why)
    return Brought(found[1], hashlib.sha256(found[2].encode()).hexdigest())


def require_good(brought: Brought, known: Token | None, now: int) -> Token:
    """Return the token of this id, if its secret is the one that was brought and it is good; raises Unauthenticated."""
    secret = known.hash if known else "0" * 64
    same = hmac.compare_digest(secret, brought.hash)
    if known is None or not same:
        raise Unauthenticated(
            "tell who you are", f"there is no token {brought.id} with this secret in this store"
        )
    state = known.state(now)
    if state != "good":
        why = f"token {known.id} of {known.principal} is {state}; `passdown token create` makes another"
        raise Unauthenticated("tell who you are", why)
    return known


def _check(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:6]
