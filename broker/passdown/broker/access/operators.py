"""A store that asks for tokens must keep an operator who has one: else nobody could make another, or see to anything."""

from passdown.broker.access.acting import log_refused
from passdown.broker.access.directory import Directory, Person, checked_person
from passdown.broker.access.policy import Scope
from passdown.broker.access.tokens import Token
from passdown.broker.stores.base import Store
from passdown.contracts.errors import Conflict, Denied

_AGAIN = "first give another operator a token that neither ends nor is narrowed"


class KeptDirectory(Directory):
    """Who is known in a store for several machines; whatever is changed, an operator keeps a token that lasts.

    Raises Denied for a first token that is another, and Conflict where the last one would be gone.
    """

    def set_person(self, person: Person) -> None:
        """Make a principal known, or change what is known of it. Raises ContractError."""
        person = checked_person(person)
        require_left(self, changed=person)
        super().set_person(person)

    def remove_person(self, name: str) -> None:
        """Forget a principal. Raises NotFound."""
        require_left(self, changed=Person(name=name))
        super().remove_person(name)

    def create_token(
        self,
        principal: str,
        by: str,
        *,
        scopes: list[Scope] | None = None,
        expires_s: float | None = None,
        label: str = "",
    ) -> tuple[str, Token]:
        """Make a token. Raises ContractError for what does not fit."""
        bearer = self.person(principal) or Person(name=principal)
        require_first(self, by, bearer, lasts=scopes is None and expires_s is None)
        return super().create_token(principal, by, scopes=scopes, expires_s=expires_s, label=label)

    def revoke_token(self, token_id: str) -> Token:
        """End a token for good; once more changes nothing. Raises NotFound."""
        require_left(self, without=token_id)
        return super().revoke_token(token_id)


def directory_of(store: Store, *, embedded: bool) -> Directory:
    """Return who is known in a store; one that only those have who can open its file needs no operator."""
    return Directory(store) if embedded else KeptDirectory(store)


def require_first(directory: Directory, by: str, bearer: Person, *, lasts: bool) -> None:
    """Raise Denied where the first token of a store that asks for one from then on would leave it without an operator.

    `lasts`: the token neither ends by itself nor is narrowed to scopes.
    """
    if directory.has_tokens():
        return
    why = "it is the first one here, and from then on this store asks everybody for one: "
    if "operator" not in bearer.roles:
        why += f"{bearer.name} must be an operator (`passdown principal set {bearer.name} --role operator`)"
    elif not lasts:
        why += "an operator's that neither ends nor has scopes, or nobody could make another"
    else:
        return
    error = Denied(by, f"make a token for {bearer.name}", why)
    log_refused(error, "token.manage", by)
    raise error


def require_left(directory: Directory, *, without: str = "", changed: Person | None = None) -> None:
    """Raise Conflict where an operator with a lasting token would be left no more.

    `without` is a token that is to be revoked; `changed` what is to be known of a principal. A store without tokens
    has nothing to lose.
    """
    lasting = {
        token.id: token.principal
        for token in directory.tokens()
        if token.revoked_at is None and token.expires_at is None and token.scopes is None
    }
    operators = {person.name for person in directory.people() if "operator" in person.roles}
    before = {token for token, principal in lasting.items() if principal in operators}
    if changed is not None and "operator" not in changed.roles:
        operators.discard(changed.name)
    after = {token for token in before if token != without and lasting[token] in operators}
    if before and not after:
        raise Conflict("it is the last token of an operator here", "", _AGAIN)
