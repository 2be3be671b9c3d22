"""What may be asked of a store, and kept beside sessions: the same for every store, whatever its own types can hold."""

from msgspec.structs import asdict

from passdown.broker.stores import queries
from passdown.broker.stores.base import Put
from passdown.broker.stores.records import Draft, Records
from passdown.contracts.codec import check, convert, plain
from passdown.contracts.errors import ContractError


def require_query(query: queries.Query) -> None:
    """Raise ContractError for a query that no store can answer: wrong types, no text, too large a number."""
    check(list(asdict(query).values()), what="query")  # `plain` would make text of bytes
    convert(plain(query, what="query"), type(query), what="query")


def require_put(what: Put) -> None:
    """Raise ContractError for a draft or records under names and numbers that no store can keep."""
    if isinstance(what, Draft):
        names = [what.session_id, what.ticket_no, what.by, what.expected]
        convert(names, tuple[str, int, str, int | None], what="draft")
        if what.ticket_no < 0 or (what.expected or 0) < 0:
            numbers = f"{what.ticket_no}, {what.expected}"
            raise ContractError("draft", f"expected a ticket and a version from 0 on, got {numbers}")
    elif isinstance(what, Records):
        for record in what.records:
            convert([record.kind, record.name, record.expected], tuple[str, str, int], what="record")
