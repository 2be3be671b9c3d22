"""A store that asks for tokens must keep an operator who has one: else nobody could make another, or see to anything."""

from passdown.broker.access.directory import Directory, Person
from passdown.contracts.errors import Conflict, Denied

_AGAIN = "first give another operator a token that neither ends nor is narrowed"


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
    raise Denied(by, f"make a token for {bearer.name}", why)


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
