"""A worker process: a pool for some roles, watched by a parent that starts it again when it ends by itself.

``python -m passdown.broker.worker SPEC`` is the child; `run_worker` is the parent. The child stops in
its own time on SIGTERM, and when its parent is gone.
"""

import os
import signal
import subprocess
import sys
import threading
import time

import structlog

from passdown.agents.options import Options
from passdown.agents.port import Hooks, no_hooks
from passdown.agents.registry import Registry
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, compose, shown_address, when_there
from passdown.broker.controller import PATIENCE_S
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.logs import set_up_logs
from passdown.broker.modules import registry_of
from passdown.broker.pool import Pool
from passdown.broker.signals import end_within, on_signals
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.errors import ContractError, PassdownError

_log = structlog.get_logger("passdown.worker")

#: Waits before a child is started again (seconds); a child that lived long enough resets them.
_RESTART_FIRST, _RESTART_MOST, _LIVED = 0.2, 10.0, 30.0
#: Beyond its grace, how long a child may take to stop, and its threads to end after that (seconds).
_STOP_WITHIN, _LEAVE_WITHIN = 25.0, 2.0
#: How often a child looks whether its parent is still there (seconds).
_WATCH_EVERY = 1.0
#: In place of the specification: it comes on standard input, where no list of processes shows it.
_ON_STDIN = "-"
_COMMAND = [sys.executable, "-m", "passdown.broker.worker", _ON_STDIN]


class WorkerSpec(Record, frozen=True, kw_only=True):
    """All that a worker process needs to know. Seconds; ``grace_s``: how long running agents may finish at a stop.

    ``patience_s``: how long a command is tried again while the store does not answer.
    """

    store: str
    transport: str = ""
    roles: list[str]
    modules: list[str]
    concurrency: int = 8
    limits: Limits = Limits()
    grace_s: float = 10.0
    patience_s: float = PATIENCE_S
    log_level: str = "info"
    log_format: str = "console"


def run_worker(spec: WorkerSpec) -> int:
    """Watch a worker process until told to stop by SIGTERM or SIGINT; a second one kills it. Returns its exit status."""
    watcher = _Watcher(spec)
    with on_signals(watcher.heard):
        return watcher.run()


class _Watcher:
    """Starts a worker process, and starts it again when it ends by itself."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()

    def heard(self, _number: int) -> None:
        """Tell the child to stop, the second time for good."""
        with self._lock:
            again = self._stopping.is_set()
            self._stopping.set()
            if self._child is not None:
                self._child.send_signal(signal.SIGKILL if again else signal.SIGTERM)

    def run(self) -> int:
        wait = _RESTART_FIRST
        while True:
            began = time.monotonic()
            status = self._once()
            if status is None:
                return 0
            if self._stopping.is_set():
                return _exit_code(status)
            if status in (0, ContractError.exit_code):
                return status  # what cannot work at all has said so, and would say so again
            wait = _RESTART_FIRST if time.monotonic() - began > _LIVED else min(wait * 2, _RESTART_MOST)
            _log.warning("worker.ended", how=_how(status), roles=self._spec.roles, again_s=wait)
            self._stopping.wait(wait)

    def _once(self) -> int | None:
        """Run one child to its end; returns its status, None where none is to run any more."""
        with self._lock:
            if self._stopping.is_set():
                return None
            # A process group of its own: Ctrl-C in a terminal reaches this process, which passes it on once.
            child = self._child = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, process_group=0)  # noqa: S603 - our own module
        child.communicate(encode(self._spec))
        return child.returncode


def _how(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _exit_code(status: int) -> int:
    """A child that was told to stop before it could hear held nothing: that is a clean end."""
    if status == -signal.SIGTERM:
        return 0
    return 128 - status if status < 0 else status


def serve(
    spec: WorkerSpec, stop: threading.Event, *, hooks: Hooks = no_hooks, app: App | None = None
) -> None:
    """Run the pool in this process until `stop` is set; where the store is away at the start, wait for it.

    `hooks` are called at the named points of each handoff, and `app` takes the place of the one that
    `spec` names: both are for trying faults. Raises ContractError where modules, roles or addresses will
    not do, or the store is of a newer version.
    """
    registry = _registry(spec)
    opened = [app] if app else []
    if not app and not when_there("worker", lambda: opened.append(_compose(spec)), stop):
        return
    try:
        _serve(spec, registry, opened[0], hooks, stop)
    finally:
        opened[0].close()


def _registry(spec: WorkerSpec) -> Registry:
    registry = registry_of(spec.modules)
    missing = [role for role in spec.roles if role not in registry.agents]
    if missing or not spec.roles:
        known = ", ".join(sorted(registry.agents)) or "none"
        raise ContractError(
            "worker", f"no agent for {', '.join(missing) or 'no role'} in its modules; they define {known}"
        )
    return registry


def _compose(spec: WorkerSpec) -> App:
    return compose(spec.store, spec.transport, patience_s=spec.patience_s)


def _serve(spec: WorkerSpec, registry: Registry, app: App, hooks: Hooks, stop: threading.Event) -> None:
    runtime = Runtime(
        DirectGateway(app.controller, spec.limits),
        agents=registry.agents.values(),
        tools=registry.tools.values(),
        hooks=hooks,
        options=Options(linger_seconds=app.transport.linger_s),
    )
    if not when_there("worker", runtime.start, stop):
        return
    pool = Pool(runtime, app.doorbell, app.transport, spec.roles, concurrency=spec.concurrency)

    def end() -> None:
        stop.wait()
        pool.stop(spec.grace_s)

    ending = threading.Thread(target=end, name="passdown-stop", daemon=True)
    ending.start()
    _log.info(
        "worker.started", roles=spec.roles, concurrency=spec.concurrency, store=shown_address(spec.store)
    )
    pool.run()
    ending.join()
    _log.info("worker.stopped", roles=spec.roles)


def main() -> int:
    """Run the child process that `run_worker` starts; returns its exit status."""
    given = sys.stdin.buffer.read() if sys.argv[1] == _ON_STDIN else sys.argv[1].encode()
    spec = decode(given, WorkerSpec, what="worker specification")
    set_up_logs(spec.log_level, spec.log_format)
    stop = threading.Event()
    for act in (_watch_parent, _end_in_time):
        threading.Thread(target=act, args=(spec, stop), daemon=True).start()
    # Once told is enough, for a supervisor of everything may tell this process and its parent, which passes it on.
    with on_signals(lambda _: stop.set(), (signal.SIGTERM,)):
        status = _attempt(spec, stop)
    end_within(_LEAVE_WITHIN, status)
    return status


def _attempt(spec: WorkerSpec, stop: threading.Event) -> int:
    try:
        serve(spec, stop)
    except PassdownError as error:
        sys.stderr.write(f"passdown: {error}\n")
        return error.exit_code
    return 0


def _watch_parent(_spec: WorkerSpec, stop: threading.Event) -> None:
    """An orphan would go on unseen after its parent was killed."""
    parent = os.getppid()
    while not stop.wait(_WATCH_EVERY):
        if os.getppid() != parent:
            _log.warning("worker.orphaned")
            stop.set()


def _end_in_time(spec: WorkerSpec, stop: threading.Event) -> None:
    stop.wait()
    end_within(spec.grace_s + _STOP_WITHIN, 1, "it was told to stop, and did not get to its end")


if __name__ == "__main__":
    sys.exit(main())
