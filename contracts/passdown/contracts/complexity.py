"""How much work a JSON Schema can cause, told without running it.

Definitions that refer to each other twice over double the work at each level, and so does each nested
``unevaluated…``: a schema of a few hundred bytes can keep a validator busy for hours. What is counted
here is how many subschemas one value may meet, with every reference followed.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

from passdown.contracts.errors import ContractError
from passdown.contracts.pointers import clip, pointer

#: Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "default", "enum", "examples", "required", "type"})
_REFERENCES = ("$ref", "$dynamicRef")
_REPEATING = ("unevaluatedProperties", "unevaluatedItems")


class Bounds(NamedTuple):
    """``work``: subschemas that one value may meet; ``pattern_bytes``: of one pattern once it is compiled."""

    work: int
    patterns: int
    pattern_bytes: int
    recursive: bool


#: For schemas of those who write plans and tools.
TRUSTED = Bounds(work=50_000, patterns=1_000, pattern_bytes=4 * 1024 * 1024, recursive=True)
#: For schemas that an agent makes up while it runs, in a question.
FOREIGN = Bounds(work=2_000, patterns=50, pattern_bytes=128 * 1024, recursive=False)


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
        self.known: dict[int, int] = {}
        self.open: set[int] = set()
        self._walk(root, ())

    def _walk(self, node: Any, place: tuple[str | int, ...]) -> None:
        if isinstance(node, dict):
            self._look_at(cast("dict[str, Any]", node), place)
        for step, below in _children(node):
            self._walk(below, (*place, step))

    def _look_at(self, node: dict[str, Any], place: tuple[str | int, ...]) -> None:
        if place and isinstance(node.get("$id"), str):
            self._refuse("a schema within a schema has no $id of its own", (*place, "$id"))
        for name in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(name), str):
                self.anchors[node[name]] = node
        self.patterns += isinstance(node.get("pattern"), str)
        by_pattern = node.get("patternProperties")
        self.patterns += len(cast("dict[str, Any]", by_pattern)) if isinstance(by_pattern, dict) else 0

    def work(self, node: Any, place: tuple[str | int, ...]) -> int:
        """Return how many subschemas `node` amounts to, itself counted."""
        found = self.known.get(id(node))
        if found is not None:
            return found
        if id(node) in self.open:
            if not self.bounds.recursive:
                self._refuse("a reference leads back to where it stands", place)
            return 1
        self.open.add(id(node))
        total = 1 + sum(self.work(below, (*place, step)) for step, below in _children(node))
        if isinstance(node, dict):
            for name in _REFERENCES:
                reference = cast("dict[str, Any]", node).get(name)
                if isinstance(reference, str):
                    total += self.work(self._target(reference, (*place, name)), (*place, name))
            total *= 2 ** sum(name in node for name in _REPEATING)
        self.open.discard(id(node))
        self.known[id(node)] = total
        return total

    def _target(self, reference: str, place: tuple[str | int, ...]) -> Any:
        fragment = unquote(reference[1:])
        if not reference.startswith("#"):
            self._refuse(f"references stay within the schema (#…), not {clip(reference, 60)!r}", place)
        if fragment and not fragment.startswith("/"):
            return self.anchors.get(fragment, True)
        node = self.root
        for step in fragment.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            try:
                node = node[int(name)] if isinstance(node, list) else node[name]
            except (LookupError, TypeError, ValueError):
                return True  # whoever compiles the schema says that the reference leads nowhere
        return node

    def _refuse(self, problem: str, place: tuple[str | int, ...]) -> None:
        raise ContractError(self.what, problem, pointer=pointer(place))


def _children(node: Any) -> Iterator[tuple[str | int, Any]]:
    if isinstance(node, dict):
        for name, below in cast("dict[str, Any]", node).items():
            if name not in _DATA and isinstance(below, dict | list):
                yield name, below
    elif isinstance(node, list):
        for index, below in enumerate(cast("list[Any]", node)):
            if isinstance(below, dict | list):
                yield index, below
