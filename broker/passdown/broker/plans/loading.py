"""Plans from TOML files."""

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

from passdown.broker.plans.authored import Plan as Authored
from passdown.broker.plans.compiling import compile_plan, compile_whole
from passdown.broker.plans.faults import Fault, one_line, refuse
from passdown.broker.plans.lines import lines_of, with_line
from passdown.broker.plans.schema_source import SourceProblem, read_file
from passdown.contracts.errors import PlanError
from passdown.contracts.plans import Plan

#: The most dotted parts that one key may have: tomllib's time grows with their square.
_KEY_PARTS = 64
_KEY = r"""(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY}(?:[ \t]*+\.[ \t]*+{_KEY}){{{_KEY_PARTS}}}")


def load_plan(path: Path | str) -> Plan:
    """Return the plan in a TOML file, or the one `Plan` that a Python file defines.

    Paths of schemas in it are relative to the file's folder.

    Raises PlanError, which names the file, with every fault, its place, and its line where that is known.
    """
    path = Path(path)
    if path.suffix == ".py":
        return _from_python(path)
    text = _read(path)
    plan, faults = compile_whole(_parse(path, text), path.parent)
    if plan is None:
        lines = lines_of(text)
        faults = [with_line(fault, lines) for fault in faults]
    refuse(str(path), faults)
    assert plan is not None  # noqa: S101 - a plan of which nothing could be made has faults
    return plan


def _from_python(path: Path) -> Plan:
    _read(path)
    try:
        values = runpy.run_path(str(path))
    except PlanError:
        raise
    except Exception as error:
        problem = f"it cannot be run: {type(error).__name__}: {one_line(str(error))}"
        raise _error(path, problem, "run it with python to see where") from error
    found = {id(value): value for value in values.values() if isinstance(value, Authored)}
    if len(found) != 1:
        raise _error(path, f"it defines {len(found)} plans", "define one `Plan` in each file")
    return compile_plan(next(iter(found.values())), path.parent, source=str(path))


def _read(path: Path) -> str:
    try:
        return _text(read_file(path, "a plan"))
    except SourceProblem as problem:
        raise _error(path, problem.problem, problem.mend) from problem


def _parse(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(path, f"not TOML: {one_line(str(error))}") from error
    except RecursionError as error:
        raise _error(path, "nested too deeply", "move schemas to .json files") from error
    except ValueError as error:
        raise _error(path, f"a number is too large: {one_line(str(error))}") from error


def _error(path: Path, problem: str, mend: str = "") -> PlanError:
    return PlanError(one_line(str(path)), [str(Fault("file", problem, mend))])


def _text(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceProblem(
            f"line {line} is not UTF-8 (byte {error.start})", "save the file as UTF-8"
        ) from error
    long = _LONG_KEY.search(text)
    if long:
        line = text.count("\n", 0, long.start()) + 1
        raise SourceProblem(f"line {line}: a key of more than {_KEY_PARTS} dotted parts")
    return text
