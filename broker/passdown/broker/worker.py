"""A worker process: a pool for some roles, watched by a parent that starts it again when it ends by itself.

``python -m passdown.broker.worker SPEC`` is the child; `run_worker` is the parent. The child stops in
its own time on SIGTERM or SIGINT, and when its parent is gone.
"""

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType, ModuleType

import structlog

from passdown.agents.options import Options
from passdown.agents.port import Hooks, no_hooks
from passdown.agents.registry import Registry, collect
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, compose
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.logs import set_up_logs
from passdown.broker.pool import Pool
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.errors import ContractError

_log = structlog.get_logger("passdown.worker")

#: Waits before a child is started again (seconds); a child that lived long enough resets them.
_RESTART_FIRST, _RESTART_MOST, _LIVED_S = 0.2, 10.0, 30.0


class WorkerSpec(Record, frozen=True, kw_only=True):
    """All that a worker process needs to know. ``grace_s``: how long running agents may finish at a stop."""

    store: str
    transport: str = ""
    roles: list[str]
    modules: list[str]
    concurrency: int = 8
    limits: Limits = Limits()
    grace_s: float = 10.0
    log_level: str = "info"
    log_format: str = "console"


def load_module(name: str) -> ModuleType:
    """Import a module by its dotted name or from a ``.py`` file; raises ContractError where that fails."""
    try:
        return _from_file(Path(name).resolve()) if name.endswith(".py") else importlib.import_module(name)
    except (ImportError, OSError, SyntaxError) as error:
        raise ContractError("module", f"{name} cannot be imported: {error}") from error


def _from_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def registry_of(modules: list[str]) -> Registry:
    """Return the agents and tools of some modules."""
    # What lies beside the user can be imported, as with `python -m`.
    here = str(Path.cwd())
    if "" not in sys.path and here not in sys.path:
        sys.path.insert(0, here)
    return collect(*(load_module(name) for name in modules))


def run_worker(spec: WorkerSpec) -> int:
    """Watch a worker process until told to stop; returns its exit status."""
    stopping = threading.Event()
    child: list[subprocess.Popen[bytes]] = []

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()
        for process in child:
            process.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    wait = _RESTART_FIRST
    while True:
        started = time.monotonic()
        command = [sys.executable, "-m", "passdown.broker.worker", encode(spec).decode()]
        process = subprocess.Popen(command)  # noqa: S603 - our own module
        child[:] = [process]
        if stopping.is_set():
            process.terminate()
        status = process.wait()
        if stopping.is_set() or status in (0, ContractError.exit_code):
            return status
        wait = _RESTART_FIRST if time.monotonic() - started > _LIVED_S else min(wait * 2, _RESTART_MOST)
        _log.warning("worker.ended", status=status, roles=spec.roles, again_s=wait)
        stopping.wait(wait)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set."""
    stop = threading.Event()

    def heard(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, heard)
    return stop


def serve(
    spec: WorkerSpec, stop: threading.Event, *, hooks: Hooks = no_hooks, app: App | None = None
) -> None:
    """Run the pool in this process until `stop` is set.

    `hooks` are called at the named points of each handoff, and `app` takes the place of the one that
    `spec` names: both are for trying faults.
    """
    registry = registry_of(spec.modules)
    missing = [role for role in spec.roles if role not in registry.agents]
    if missing:
        known = ", ".join(sorted(registry.agents)) or "none"
        raise ContractError(
            "worker", f"no agent for {', '.join(missing)} in its modules; they define {known}"
        )
    app = app or compose(spec.store, spec.transport)
    gateway = DirectGateway(app.controller, spec.limits)
    runtime = Runtime(
        gateway,
        agents=registry.agents.values(),
        tools=registry.tools.values(),
        hooks=hooks,
        options=Options(linger_seconds=app.transport.linger_s),
    )
    runtime.start()
    pool = Pool(runtime, app.doorbell, app.transport, spec.roles, concurrency=spec.concurrency)

    def end() -> None:
        stop.wait()
        pool.stop(spec.grace_s)

    threading.Thread(target=end, name="passdown-stop", daemon=True).start()
    _log.info("worker.started", roles=spec.roles, concurrency=spec.concurrency, store=spec.store)
    try:
        pool.run()
    finally:
        app.close()


def main() -> int:
    """Run the child process that `run_worker` starts."""
    spec = decode(sys.argv[1].encode(), WorkerSpec, what="worker specification")
    set_up_logs(spec.log_level, spec.log_format)
    stop = stop_on_signals()
    threading.Thread(target=_watch_parent, args=(os.getppid(), stop), daemon=True).start()
    try:
        serve(spec, stop)
    except ContractError as error:
        sys.stderr.write(f"passdown: {error}\n")
        return error.exit_code
    return 0


def _watch_parent(parent: int, stop: threading.Event) -> None:
    """An orphan would go on unseen after its parent was killed."""
    while not stop.wait(1.0):
        if os.getppid() != parent:
            _log.warning("worker.orphaned")
            stop.set()


if __name__ == "__main__":
    sys.exit(main())
