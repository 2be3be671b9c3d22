"""Lists that are too long for a session's inputs: kept beside it, page by page, and read as its branches are opened."""

import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from passdown.broker.core.items import ItemChecks, look_up
from passdown.broker.core.state import State
from passdown.broker.stores.base import Store
from passdown.broker.stores.joining import Page
from passdown.broker.stores.queries import FindPage
from passdown.contracts.codec import decode_any, digest, encode, plain
from passdown.contracts.errors import BudgetExceeded, ContractError, NotFound
from passdown.contracts.pack import PAGE_ITEMS, ListRef
from passdown.contracts.plans import MOST_BRANCHES

#: What a list may have in all (bytes).
LIST_BUDGET = 256 * 1024 * 1024


class Paged(NamedTuple):
    """A list as it is kept: what names it, and its pages."""

    ref: ListRef
    pages: list[bytes]


def paged(name: str, items: Iterable[Any], *, keys: Iterable[str] = ()) -> Paged:
    """Return a list as it is kept beside a session.

    `keys` are fields by which plans name branches: names must differ over the whole list. Raises ContractError
    for an item that is no JSON data, is over its budget, or has no name of its own, and for too many items;
    BudgetExceeded for a list that is too large. Nothing is read after what is refused.
    """
    where = f"/lists/{name}"
    checks = ItemChecks(keys, where)
    pages: list[bytes] = []
    page: list[bytes] = []
    size = count = 0
    # Item by item, each kept as bytes only: a list is refused at its first item that will not do.
    for place, item in enumerate(items):
        if place >= MOST_BRANCHES:
            raise ContractError(
                "submit",
                f"the list has more than {MOST_BRANCHES} items, the most there may be",
                pointer=where,
            )
        given = plain(item, what=f"item {place} of list {name!r}")
        raw = encode(given)
        checks.check(place, given, len(raw))
        page.append(raw)
        count += 1
        # With what stands around it: brackets at its page's ends, else a comma.
        size += len(raw) + (2 if len(page) == 1 else 1)
        if size > LIST_BUDGET:
            raise BudgetExceeded(f"list {name!r}", size, LIST_BUDGET)
        if len(page) == PAGE_ITEMS:
            pages.append(_array(page))
            page.clear()
    if page:
        pages.append(_array(page))
    whole = hashlib.sha256()
    for body in pages:
        whole.update(digest(body).encode())
    return Paged(ListRef(items=count, bytes=size, digest=whole.hexdigest()), pages)


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def keep_list(store: Store, session_id: str, name: str, listed: Paged) -> None:
    """Keep a list beside a session that is about to be opened; the same list again changes nothing.

    Nor does another list under the same name, which a submit of the same key may bring at the same time: the
    session reads the pages of the list that it was opened with.
    """
    for number, body in enumerate(listed.pages):
        store.put(Page(session_id=session_id, name=kept_as(name, listed.ref), number=number, body=body))


def kept_as(name: str, ref: ListRef) -> str:
    """Return the name under which the pages of a list lie beside its session."""
    return f"{name}@{ref.digest[:24]}"


def items_of(store: Store, state: State, path: str, stored: ListRef | None) -> Callable[[int], Any]:
    """Return what gives the item at a place: of the session's data, or of a list beside it, a page at a time."""
    if stored is None:
        inline = cast("list[Any]", look_up(state.data, path))
        return lambda place: inline[place]
    pages_name = kept_as(path, stored)
    pages: dict[int, list[Any]] = {}

    def item(place: int) -> Any:
        number, at = divmod(place, PAGE_ITEMS)
        if number not in pages:
            pages.clear()
            pages[number] = _page(store, state.session_id, pages_name, number)
        return pages[number][at]

    return item


def _page(store: Store, session_id: str, name: str, number: int) -> list[Any]:
    body = store.find(FindPage(session_id=session_id, name=name, number=number))
    if not isinstance(body, bytes):
        raise NotFound("page of a list", f"{session_id}/{name}/{number}")
    found = decode_any(body, list[Any], what="page of a list")
    if not isinstance(found, list):
        raise ContractError("page of a list", "it is no list")
    return cast("list[Any]", found)
