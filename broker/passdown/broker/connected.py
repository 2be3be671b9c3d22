"""A connection to a store as somebody: who acts, and what the store knows of them."""

import getpass
import os
import re
import time
from collections.abc import Iterable

from passdown.broker.access.acting import Acting, acting_on, the_broker, warn_of_no_tokens
from passdown.broker.access.directory import TRUSTED_S, Directory
from passdown.broker.access.operators import directory_of
from passdown.broker.app import App
from passdown.broker.inbox import Inbox
from passdown.contracts import commands as cmd
from passdown.contracts.codec import convert
from passdown.contracts.errors import ContractError


def me() -> str:
    """Return the principal of whoever runs this process: ``user:`` and the operating system's name for it.

    Where it has none (a container under a number) ``user:uid-1000``.
    """
    try:
        name = getpass.getuser()
    except (KeyError, OSError, ImportError):
        name = f"uid-{os.getuid()}"
    # A principal has neither spaces nor colons.
    return "user:" + re.sub(r"[\s:]", "-", name)[:120]


class Connected:
    """A store with its controller, and the principal that acts on it. Thread-safe."""

    def __init__(self, app: App, by: str | None = None, *, token: str = "", itself: bool = False) -> None:
        """Act on `app` as the principal `by`, or as that of a `token`; raises ContractError for what is none.

        A token is looked at when something is asked first, and from time to time: `acting` says what it may raise.
        `itself`: this is the broker's own process (`up`), which needs no token and may do everything.
        """
        self.app = app
        self._named = principal_of(me() if by is None else by)
        self._by_name = by is not None
        self._token = convert(token, str, what="token")
        self._itself = itself
        self._acting: tuple[Acting, float] | None = None

    @property
    def acting(self) -> Acting:
        """Who acts, with what the store said of them in the last seconds (`TRUSTED_S`).

        Raises Unauthenticated where a token is needed and none is there, or it is not, or no longer, good.
        """
        if self._itself:
            return the_broker(self.app.store, self._named)
        known = self._acting
        if known is None or time.monotonic() - known[1] > TRUSTED_S:
            acting = acting_on(
                self.app.store,
                principal=self._named,
                named=self._by_name,
                token=self._token,
                embedded=self.app.embedded,
                mode=self.app.access,
            )
            known = self._acting = (acting, time.monotonic())
        return known[0]

    @property
    def by(self) -> str:
        """The principal that acts."""
        return self.acting.by if self._token else self._named

    @property
    def inbox(self) -> Inbox:
        """The tickets that this principal may see and take."""
        return Inbox(self.app.controller, lambda: self.acting)

    @property
    def directory(self) -> Directory:
        """Who is known in the store, and their tokens. Raises Denied where this principal may not see to that."""
        self.acting.require("principal.manage")
        return directory_of(self.app.store, embedded=self.app.embedded)


def require_worker(
    app: App, roles: Iterable[str], *, registers: bool, principal: str = "", token: str = ""
) -> None:
    """Raise Denied unless whoever runs a pool may take the packs of these roles, and publish tools where it `registers` any.

    Asked when the pool starts; so is where it is logged that a shared store is open to everybody.
    """
    acting = Connected(app, principal or None, token=token).acting
    for role in roles:
        acting.require("pack.take", f"role:{role}")
    if registers:
        acting.require("tool.register")
    warn_of_no_tokens(app.store, embedded=app.embedded)


def principal_of(name: str) -> str:
    """Return the name of a principal; raises ContractError where it is none."""
    if not re.match(cmd.PRINCIPAL_PATTERN, convert(name, str, what="principal")):
        raise ContractError("principal", f"expected kind:name, for example user:ann, got {name!r}")
    return name
