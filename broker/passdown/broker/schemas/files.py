"""Writes the generated documents into a folder, and says where a folder differs from them."""

import json
from itertools import zip_longest
from pathlib import Path
from typing import Any

from passdown.broker.schemas.generate import URN, documents


def write(folder: str | Path) -> list[str]:
    """Write all documents into `folder`, remove those that are no longer generated; return what was changed."""
    root = Path(folder)
    changed: list[str] = []
    for name, text in documents().items():
        path = root / name
        if _text(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            changed.append(name)
    for name in _stale(root):
        (root / name).unlink()
        changed.append(name)
    return changed


def check(folder: str | Path) -> list[str]:
    """Return where `folder` differs from what the code says, a line for each file; empty where it does not."""
    root = Path(folder)
    found: list[str] = []
    for name, text in documents().items():
        there = _text(root / name)
        if there is None:
            found.append(f"{name}: missing")
        elif there != text:
            found.append(f"{name}: {_difference(text, there)}")
    return found + [f"{name}: no longer generated" for name in _stale(root)]


def _text(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return None


def _difference(expected: str, there: str) -> str:
    lines = enumerate(zip_longest(expected.splitlines(), there.splitlines(), fillvalue="nothing"), 1)
    for number, (want, got) in lines:
        if want != got:
            return f"line {number}: expected {want.strip()}, got {got.strip()}"
    return "the line ends differ"


def _stale(root: Path) -> list[str]:
    """Return the files below `root` that bear an id of ours and are not generated; other files are let be."""
    known = documents()
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.json"))
    return [name for name in names if name not in known and _is_ours(root / name)]


def _is_ours(path: Path) -> bool:
    try:
        document: Any = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("$id", "")).startswith(URN)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
