"""What the store, and what modules know of tools."""

from collections.abc import Sequence

from passdown.broker.client import Broker
from passdown.broker.stores.queries import Catalog, FindCatalog, FindDocument
from passdown.broker.worker import registry_of
from passdown.contracts.codec import decode
from passdown.contracts.errors import ContractError, PassdownError
from passdown.contracts.tools import ToolSpec


def tools_of(modules: Sequence[str]) -> list[ToolSpec]:
    """Return the tools that modules define, by name; raises ContractError where one cannot be imported."""
    try:
        tools = registry_of(list(modules)).tools.values()
    except PassdownError:
        raise
    except Exception as error:  # a module may raise anything when it is imported
        said = f"{', '.join(modules)} cannot be imported: {type(error).__name__}: {error}"
        raise ContractError("module", said) from error
    return sorted((tool.spec for tool in tools), key=lambda spec: spec.name)


def registered_tools(broker: Broker) -> list[tuple[str, ToolSpec]]:
    """Return the tools that are registered, each with its digest, by name."""
    store = broker.app.store
    catalog = store.find(FindCatalog())
    found: list[tuple[str, ToolSpec]] = []
    for _, digest in sorted(catalog.tools.items()) if isinstance(catalog, Catalog) else []:
        raw = store.find(FindDocument(digest=digest))
        if isinstance(raw, bytes):
            found.append((digest, decode(raw, ToolSpec, what="tool")))
    return found
