"""Where the schema of a stage comes from: written in place, a .json file beside the plan, or a Python class.

A class (msgspec Struct, dataclass, TypedDict, pydantic model) becomes its JSON Schema, whole, with
references into its own ``$defs`` only. Of a pydantic model, what comes in is described by its
validation schema and what goes out by its serialization schema.
"""

from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from pydantic import BaseModel

from passdown.broker.plans.faults import closest, one_line, show
from passdown.contracts.codec import KIB, decode
from passdown.contracts.errors import ContractError
from passdown.contracts.schema import Schema

#: A schema, the path of a .json file relative to the plan's, or a class.
SchemaSource = dict[str, Any] | bool | str | type[Any]
Direction = Literal["in", "out"]

#: The most that one file of a plan, TOML or JSON, may have (bytes).
FILE_BUDGET = 256 * KIB


class SourceProblem(Exception):
    """A schema cannot be had; ``mend`` says what to do."""

    def __init__(self, problem: str, mend: str = "") -> None:
        super().__init__(problem, mend)
        self.problem = problem
        self.mend = mend


def schema_from(source: object, base_dir: Path | None, direction: Direction) -> Schema:
    """Return the schema that `source` names; raises SourceProblem where there is none."""
    if isinstance(source, bool):
        return source
    if isinstance(source, dict):
        return cast("dict[str, Any]", source)
    if isinstance(source, str):
        return _from_file(source, base_dir)
    return _from_class(source, direction)


def _from_file(written: str, base_dir: Path | None) -> Schema:
    if not written.endswith(".json") or "\0" in written:
        raise SourceProblem(
            f"{show(written)} is no path of a .json file", "write the schema as a table, or its path"
        )
    if base_dir is None:
        raise SourceProblem(f"{show(written)} is relative to nothing", "pass base_dir=, or the schema itself")
    if Path(written).is_absolute():
        raise SourceProblem(f"{show(written)} is an absolute path", "make it relative to the plan's folder")
    data = read_file(base_dir / written, "a schema")
    try:
        found = decode(data.removeprefix(b"\xef\xbb\xbf"), object, what=written)
    except ContractError as error:
        raise SourceProblem(f"{show(written)} is {one_line(error.problem)}") from error
    if isinstance(found, dict | bool):
        return cast("Schema", found)
    raise SourceProblem(f"{show(written)} holds {show(found)}, and a schema is an object, true or false")


def read_file(path: Path, what: str) -> bytes:
    """Return the bytes of a file; raises SourceProblem where it is gone, unreadable or over FILE_BUDGET."""
    try:
        if not path.is_file():
            raise SourceProblem(f"there is no file {show(str(path))}", _beside(path))
        with path.open("rb") as file:
            data = file.read(FILE_BUDGET + 1)
            size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise SourceProblem(f"{show(str(path))} cannot be read: {one_line(str(error))}") from error
    if len(data) > FILE_BUDGET:
        raise SourceProblem(
            f"{show(path.name)} has {size} bytes, and {what} may have {FILE_BUDGET}",
            "pass bulk as a resource of the session",
        )
    return data


def _beside(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {show(str(folder))} either"
    return closest(path.name, sorted(one.name for one in folder.glob(f"*{path.suffix}"))[:200])


def _from_class(source: object, direction: Direction) -> Schema:
    name = getattr(source, "__name__", type(source).__name__)
    try:
        if isinstance(source, type) and issubclass(source, BaseModel):
            return source.model_json_schema(mode="validation" if direction == "in" else "serialization")
        if isinstance(source, type) or hasattr(source, "__origin__") or hasattr(source, "__args__"):
            return msgspec.json.schema(source)
    except Exception as error:  # whatever a class of the user's raises while it is described
        raise SourceProblem(
            f"no schema can be made of {one_line(name)}: {one_line(str(error))}", _CLASSES
        ) from error
    raise SourceProblem(f"{show(source)} is no schema", _CLASSES)


_CLASSES = "pass a dict, a msgspec Struct, a dataclass or a pydantic model"
