"""How much work a JSON Schema can cause, told without running it.

Definitions that refer to each other twice over double the work at each level, and so does each nested
``unevaluated…``: a schema of a few hundred bytes can keep a validator busy for hours. What is counted
here is how many subschemas one value may meet, with every reference followed.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, cast
from urllib.parse import unquote

from passdown.contracts.errors import ContractError
from passdown.contracts.pointers import clip, pointer

#: Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "default", "enum", "examples"})
_DEFINITIONS = frozenset({"$defs", "definitions"})
#: Keywords whose values are schemas by name, so that these names are not keywords.
_NAMED = _DEFINITIONS | {"dependentSchemas", "patternProperties", "properties"}
_REFERENCES = ("$ref", "$dynamicRef")
_REPEATING = ("unevaluatedProperties", "unevaluatedItems")
#: The one reference to outside that needs no fetching: for a parameter that is itself a schema.
META_SCHEMA = "https://json-schema.org/draft/2020-12/schema"
_META_WORK = 100
#: Steps from the root, through references, that are followed.
_DEEPEST = 200

Place = tuple[str | int, ...]


class Bounds(NamedTuple):
    """``work``: subschemas that one value may meet; ``pattern_bytes``: of one pattern once it is compiled."""

    work: int
    patterns: int
    pattern_bytes: int
    recursive: bool


#: For schemas of those who write plans and tools.
TRUSTED = Bounds(work=50_000, patterns=1_000, pattern_bytes=4 * 1024 * 1024, recursive=True)
#: For schemas that an agent makes up while it runs, in a question.
FOREIGN = Bounds(work=2_000, patterns=50, pattern_bytes=1024 * 1024, recursive=False)


def check_bounds(schema: Any, bounds: Bounds, *, what: str) -> None:
    """Raise ContractError where `schema`, which is plain JSON data of bounded depth, may cause too much work."""
    survey = _Survey(schema, bounds, what)
    if survey.patterns > bounds.patterns:
        raise ContractError(
            what, f"{survey.patterns} patterns, at most {bounds.patterns} may stand in a schema"
        )
    work = survey.work(schema, ())
    if work > bounds.work:
        raise ContractError(what, f"too complex: one value may meet more than {bounds.work} subschemas")


class _Survey:
    def __init__(self, root: Any, bounds: Bounds, what: str) -> None:
        self.root = root
        self.bounds = bounds
        self.what = what
        self.patterns = 0
        self.anchors: dict[str, Any] = {}
        self.known: dict[tuple[int, bool], int] = {}
        self.open: set[tuple[int, bool]] = set()
        self._walk(root, (), named=False)

    def _walk(self, node: Any, place: Place, *, named: bool) -> None:
        if isinstance(node, dict) and not named:
            self._look_at(cast("dict[str, Any]", node), place)
        for step, below, below_named in _children(node, named=named):
            self._walk(below, (*place, step), named=below_named)

    def _look_at(self, schema: dict[str, Any], place: Place) -> None:
        if place and isinstance(schema.get("$id"), str):
            self._refuse("a schema within a schema has no $id of its own", (*place, "$id"))
        for name in ("$anchor", "$dynamicAnchor"):
            anchor = schema.get(name)
            if isinstance(anchor, str) and self.anchors.setdefault(anchor, schema) is not schema:
                self._refuse("another subschema has this anchor", (*place, name))
        self.patterns += isinstance(schema.get("pattern"), str)
        by_pattern = schema.get("patternProperties")
        self.patterns += len(cast("dict[str, Any]", by_pattern)) if isinstance(by_pattern, dict) else 0

    def work(self, node: Any, place: Place, *, named: bool = False) -> int:
        """Return how many subschemas `node` amounts to, itself counted."""
        key = (id(node), named)
        found = self.known.get(key)
        if found is not None:
            return found
        if len(place) > _DEEPEST:
            self._refuse(f"nested and referred deeper than {_DEEPEST}", place)
        if key in self.open:
            if not self.bounds.recursive:
                self._refuse("a reference leads back to where it stands", place)
            return 1
        self.open.add(key)
        total = 1
        for step, below, below_named in _children(node, named=named):
            if named or step not in _DEFINITIONS:  # those count where they are referred to
                total += self.work(below, (*place, step), named=below_named)
        if isinstance(node, dict) and not named:
            total = self._referred(cast("dict[str, Any]", node), place, total)
        self.open.discard(key)
        self.known[key] = total
        return total

    def _referred(self, schema: dict[str, Any], place: Place, total: int) -> int:
        for name in _REFERENCES:
            reference = schema.get(name)
            if reference == META_SCHEMA and self.bounds.recursive:
                total += _META_WORK
            elif isinstance(reference, str):
                total += self.work(self._target(reference, (*place, name)), (*place, name))
        return total * 2 ** sum(name in schema for name in _REPEATING)

    def _target(self, reference: str, place: Place) -> Any:
        if not reference.startswith("#"):
            self._refuse(f"references stay within the schema (#…), not {clip(reference, 60)!r}", place)
        fragment = unquote(reference[1:])
        node = self.root
        try:
            if fragment and not fragment.startswith("/"):
                return self.anchors[fragment]
            for step in fragment.split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                node = cast("Any", node[int(name)] if isinstance(node, list) else node[name])
        except (LookupError, TypeError, ValueError):
            self._refuse(f"the reference {clip(reference, 60)!r} leads nowhere", place)
        return node

    def _refuse(self, problem: str, place: Place) -> NoReturn:
        raise ContractError(self.what, problem, pointer=pointer(place))


def _children(node: Any, *, named: bool) -> Iterator[tuple[str | int, Any, bool]]:
    """Yield what stands below a schema, or below a `named` set of schemas; and whether that is such a set."""
    if isinstance(node, dict):
        for name, below in cast("dict[str, Any]", node).items():
            if isinstance(below, dict | list) and (named or name not in _DATA):
                yield name, below, not named and name in _NAMED
    elif isinstance(node, list):
        for index, below in enumerate(cast("list[Any]", node)):
            if isinstance(below, dict | list):
                yield index, below, False
