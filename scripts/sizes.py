"""Hold every module, test module and function to its size budget.

    python scripts/sizes.py [ROOT]

Exceptions stand in scripts/sizes.toml, each with the size it may have and its reason:

    [[exception]]
    what = "broker/passdown/broker/example.py"             # or "…/example.py::Class.method"
    lines = 420
    reason = "One table that reads worse in two halves."

The list only shrinks: an exception that grew past its `lines` fails, and so does one that is no longer needed.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TREES = ("agents", "benchmarks", "broker", "contracts", "examples", "scripts", "tests")
MODULE_LINES = 400
TEST_MODULE_LINES = 500
FUNCTION_LINES = 60

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Measured(NamedTuple):
    what: str
    lines: int
    budget: int


class Allowed(NamedTuple):
    what: str
    lines: int
    reason: str


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield the dotted name and the length of each function below `node`, decorators not counted."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Scope):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, (child.end_lineno or child.lineno) - child.lineno + 1
            yield from functions(child, f"{name}.")
        else:
            yield from functions(child, prefix)


def measure(root: Path) -> Iterator[Measured]:
    """Yield the size of everything under `root` that has a budget."""
    for tree in TREES:
        for path in sorted((root / tree).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            source = path.read_text(encoding="utf-8")
            budget = TEST_MODULE_LINES if tree == "tests" else MODULE_LINES
            yield Measured(name, len(source.splitlines()), budget)
            for function, lines in functions(ast.parse(source, filename=str(path))):
                yield Measured(f"{name}::{function}", lines, FUNCTION_LINES)


def read_exceptions(path: Path) -> list[Allowed]:
    """Return the exceptions that `path` lists, in its order."""
    if not path.exists():
        return []
    return [
        Allowed(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("exception", [])
    ]


def problems(sizes: list[Measured], exceptions: list[Allowed]) -> Iterator[str]:
    """Yield one line for each size over its budget and each exception that should not be there."""
    allowed = {entry.what: entry for entry in exceptions}
    over = {size.what: size for size in sizes if size.lines > size.budget}
    for size in over.values():
        limit = allowed[size.what].lines if size.what in allowed else size.budget
        if size.lines > limit:
            yield f"{size.what}: {size.lines} lines, and {limit} is the limit; split it along a real seam"
    for entry in exceptions:
        if not entry.reason.strip():
            yield f"{entry.what}: an exception needs a reason"
        if entry.what not in over:
            yield f"{entry.what}: within its budget or gone; remove the exception"


def main(root: Path) -> int:
    """Print what is wrong under `root` and return the exit code."""
    sizes = list(measure(root))
    found = list(problems(sizes, read_exceptions(root / "scripts" / "sizes.toml")))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"sizes: {len(sizes)} modules and functions within their budgets")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
