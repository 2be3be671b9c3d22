"""Agents and tools out of the modules that a user names."""

import importlib
import importlib.util
import sys
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from passdown.agents.registry import Registry, collect
from passdown.contracts.errors import ContractError


def registry_of(modules: list[str]) -> Registry:
    """Return the agents and tools of some modules: dotted names, or paths of ``.py`` files.

    What lies in the working directory can be imported, as with ``python -m``. Raises ContractError.
    """
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    return collect(*(load_module(name) for name in modules))


def load_module(name: str) -> ModuleType:
    """Import a module by its dotted name or from a ``.py`` file; raises ContractError where that fails."""
    try:
        return _from_file(Path(name).resolve()) if name.endswith(".py") else importlib.import_module(name)
    except (Exception, SystemExit) as error:  # a module may do anything when it is imported
        raise ContractError(
            "module", f"{name} cannot be imported: {type(error).__name__}: {error}"
        ) from error


def _from_file(path: Path) -> ModuleType:
    name = _name_for(path)
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _name_for(path: Path) -> str:
    """Return the file's own name, so that others may import it, unless that means something else already.

    A file may be called ``agents.py``, and ``import agents`` still mean the package of that name.
    """
    name = path.stem
    present = sys.modules.get(name)
    if present is None and name.isidentifier() and name not in sys.stdlib_module_names:
        found = importlib.util.find_spec(name)
        if found is None or _same(found.origin, path):
            return name
    elif _same(getattr(present, "__file__", None), path):
        return name
    return f"_passdown_{sha256(str(path).encode(errors='surrogateescape')).hexdigest()[:16]}_{name}"


def _same(origin: str | None, path: Path) -> bool:
    return origin is not None and Path(origin).resolve() == path
