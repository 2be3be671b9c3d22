"""A worker process: a pool for some roles, watched by a parent that starts it again when it ends by itself.

``python -m passdown.broker.worker SPEC`` is the child; `run_worker` is the parent. The child stops in
its own time on SIGTERM, and when its parent is gone.
"""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import msgspec
import structlog

from passdown.agents.limits import Stuck, nobody, unguarded
from passdown.agents.port import Hooks, no_hooks
from passdown.agents.registry import Registry
from passdown.agents.runtime import Runtime
from passdown.broker.access.acting import AccessMode
from passdown.broker.app import (
    App,
    Transport,
    compose,
    open_doorbell,
    open_store,
    shown_address,
    transport_of,
    when_there,
)
from passdown.broker.children import STUCK_STATUS, Children, Opened, guard, watch_parent
from passdown.broker.connected import require_worker
from passdown.broker.controller import PATIENCE_S
from passdown.broker.doorbell import Doorbell
from passdown.broker.draining import Hands
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.health import HealthFile, asking
from passdown.broker.junk import JunkKeeper
from passdown.broker.logs import set_up_logs
from passdown.broker.modules import registry_of
from passdown.broker.pool import Kind, Pool
from passdown.broker.signals import end_within, on_signals
from passdown.broker.stores.base import Quarantine, Store
from passdown.broker.transports import memory
from passdown.contracts.codec import Record, decode, encode
from passdown.contracts.errors import ContractError, Denied, PassdownError
from passdown.contracts.plans import MERGER

_log = structlog.get_logger("passdown.worker")

#: Waits before a child is started again (seconds); a child that lived long enough resets them.
_RESTART_FIRST, _RESTART_MOST, _LIVED = 0.2, 10.0, 30.0
#: Beyond its grace, how long a child may take to stop, and its threads to end after that (seconds).
_STOP_WITHIN, _LEAVE_WITHIN = 25.0, 2.0
#: In place of the specification: it comes on standard input, where no list of processes shows it.
_ON_STDIN = "-"
_COMMAND = [sys.executable, "-m", "passdown.broker.worker", _ON_STDIN]


class WorkerSpec(Record, frozen=True, kw_only=True):
    """All that a worker process needs to know. Seconds; ``grace_s``: how long running agents may finish at a stop.

    ``merge``: whether the roles of merges are served beside ``roles``.
    ``patience_s``: how long a command is tried again while the store does not answer. ``restarts``: how often
    it was started before. ``principal``, ``token`` and ``access`` say who takes the packs, as the settings do.
    """

    store: str
    transport: str = ""
    roles: list[str]
    merge: bool = True
    modules: list[str]
    concurrency: int = 8
    pool: Kind = "threads"
    limits: Limits = Limits()
    grace_s: float = 10.0
    patience_s: float = PATIENCE_S
    log_level: str = "info"
    log_format: str = "console"
    health_file: str = ""
    restarts: int = 0
    principal: str = ""
    token: str = ""
    access: AccessMode = "auto"


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
            if self._child is None:
                return
            if again and self._child.poll() is None:
                _kill_group(self._child.pid)
            else:
                self._child.send_signal(signal.SIGTERM)

    def run(self) -> int:
        wait = _RESTART_FIRST
        while True:
            began = time.monotonic()
            status = self._once()
            if status is None:
                return 0
            if self._stopping.is_set():
                return _exit_code(status)
            if status in (0, ContractError.exit_code, Denied.exit_code):
                return status  # what cannot work at all has said so, and would say so again
            wait = _RESTART_FIRST if time.monotonic() - began > _LIVED else min(wait * 2, _RESTART_MOST)
            _log.warning("worker.ended", how=_how(status), roles=self._spec.roles, again_s=wait)
            self._spec = msgspec.structs.replace(self._spec, restarts=self._spec.restarts + 1)
            self._stopping.wait(wait)

    def _once(self) -> int | None:
        """Run one child to its end; returns its status, None where none is to run any more."""
        with self._lock:
            if self._stopping.is_set():
                return None
            # A process group of its own: Ctrl-C in a terminal reaches this process, which passes it on once.
            command = [*_COMMAND, str(os.getpid())]
            child = self._child = subprocess.Popen(command, stdin=subprocess.PIPE, process_group=0)  # noqa: S603 - our own module
        child.communicate(encode(self._spec))
        return child.returncode


def _kill_group(leader: int) -> None:
    """A worker's own children are in its group; they must not outlive it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _how(status: int) -> str:
    return f"killed by {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"


def _exit_code(status: int) -> int:
    """A child that was told to stop before it could hear held nothing: that is a clean end."""
    if status == -signal.SIGTERM:
        return 0
    return 128 - status if status < 0 else status


def serve(
    spec: WorkerSpec,
    stop: threading.Event,
    *,
    hooks: Hooks = no_hooks,
    app: App | None = None,
    guarded: bool = False,
) -> int:
    """Run the pool in this process until `stop` is set; where the store is away at the start, wait for it.

    Returns the exit status: `STUCK_STATUS` where agents that go on beyond their limits held all its slots.
    `hooks` are called at the named points of each handoff, and `app` takes the place of the one that
    `spec` names: both are for trying faults. `guarded` says that this process is only there for its pool,
    and may be ended where an agent never lets go of the interpreter. Raises ContractError where modules,
    roles or addresses will not do, or the store is of a newer version.
    """
    registry = registry_for(spec.modules, spec.roles)
    spec = msgspec.structs.replace(spec, roles=registry.served(spec.roles, merge=spec.merge))
    serving = _Serving(spec, registry, hooks, stop, guarded=guarded)
    if spec.pool == "prefork":
        return serving.in_children()
    opened = [app] if app else []
    if not app and not when_there("worker", lambda: opened.append(_allowed(spec, registry)), stop):
        return 0
    try:
        return serving.in_threads(opened[0])
    finally:
        opened[0].close()


def registry_for(modules: list[str], roles: list[str]) -> Registry:
    """Return the agents and tools of some modules; raises ContractError where one of the roles has no agent there."""
    registry = registry_of(modules)
    missing = [role for role in roles if role not in registry.agents and role != MERGER]
    if missing or not roles:
        known = ", ".join(sorted(registry.agents)) or "none"
        raise ContractError(
            "worker", f"no agent for {', '.join(missing) or 'no role'} in its modules; they define {known}"
        )
    return registry


def _compose(spec: WorkerSpec) -> App:
    return compose(spec.store, spec.transport, patience_s=spec.patience_s, access=spec.access)


def _allowed(spec: WorkerSpec, registry: Registry) -> App:
    """Open the store for a worker that may take the packs of its roles; raises Denied."""
    app = _compose(spec)
    try:
        registers = bool(registry.tools)
        require_worker(app, spec.roles, registers=registers, principal=spec.principal, token=spec.token)
    except BaseException:
        app.close()
        raise
    return app


class _Serving:
    """One run of a pool in this process."""

    def __init__(
        self, spec: WorkerSpec, registry: Registry, hooks: Hooks, stop: threading.Event, *, guarded: bool
    ) -> None:
        self._spec = spec
        self._registry = registry
        self._hooks = hooks
        self._stop = stop
        self._guarded = guarded
        self._stuck = False

    def in_threads(self, app: App) -> int:
        """Run agents in this process; `solo`: in the consumer's thread."""
        runtime = self._runtime(app, self._on_stuck)
        if not when_there("worker", runtime.start, self._stop):
            return 0
        self._run(self._pool(runtime, app.doorbell, app.transport, app.store.put), asking(app.store))
        return STUCK_STATUS if self._stuck else 0

    def in_children(self) -> int:
        """Run agents in children of this process, which opens nothing itself that they would inherit."""
        transport = transport_of(self._spec.store, self._spec.transport)
        require_between_processes(self._spec.store, transport)
        if not when_there("worker", self._publish_tools, self._stop):
            return 0
        children = Children(self._open, grace_s=self._spec.grace_s)
        self._run(
            self._pool(children, open_doorbell(transport), transport, self._put),
            lambda: self._with_store(lambda store: asking(store)()),
        )
        return 0

    def _put(self, what: Quarantine) -> None:
        self._with_store(lambda store: store.put(what))

    def _with_store(self, act: Callable[[Store], None]) -> None:
        """Open the store for a moment: children would inherit one that is open."""
        store = open_store(self._spec.store)
        try:
            act(store)
        finally:
            store.close()

    def _publish_tools(self) -> None:
        app = _allowed(self._spec, self._registry)
        try:
            self._runtime(app, nobody).start()
        finally:
            app.close()

    def _open(self, on_stuck: Callable[[Stuck], None]) -> Opened:
        app = _compose(self._spec)
        return Opened(self._runtime(app, on_stuck), app.close)

    def _runtime(self, app: App, on_stuck: Callable[[Stuck], None]) -> Runtime:
        return Runtime(
            DirectGateway(app.controller, self._spec.limits),
            agents=self._registry.agents.values(),
            tools=self._registry.tools.values(),
            hooks=self._hooks,
            options=app.transport.drains(len(self._spec.roles)),
            on_stuck=on_stuck,
            guard=guard if self._guarded else unguarded,
        )

    def _pool(
        self, hands: Hands, doorbell: Doorbell, transport: Transport, put: Callable[[Quarantine], None]
    ) -> Pool:
        spec = self._spec
        return Pool(
            hands,
            doorbell,
            transport,
            spec.roles,
            concurrency=spec.concurrency,
            kind=spec.pool,
            on_junk=JunkKeeper(put).keep,
        )

    def _on_stuck(self, stuck: Stuck) -> None:
        """Slots that are held for good are lost; a process that has no other is of no use."""
        slots = 1 if self._spec.pool == "solo" else self._spec.concurrency
        if stuck.loop or stuck.threads >= slots:
            _log.error("worker.stuck", roles=self._spec.roles, **stuck._asdict())
            self._stuck = True
            self._stop.set()

    def _run(self, pool: Pool, ask_store: Callable[[], None]) -> None:
        spec = self._spec
        if spec.health_file:
            health = HealthFile(
                spec.health_file,
                "worker",
                ask_store,
                roles=spec.roles,
                poll_s=lambda: pool.watch.silent_s,
                restarts=lambda: spec.restarts + pool.restarts,
            )
            threading.Thread(
                target=health.run, args=(self._stop,), name="passdown-health", daemon=True
            ).start()
        # The consumer of a solo pool is where its agent runs: it may never come back.
        consumer = threading.Thread(target=pool.run, name="passdown-consumer", daemon=True)
        ending = threading.Thread(target=self._end, args=(pool,), name="passdown-stop", daemon=True)
        ending.start()
        _log.info(
            "worker.started",
            roles=spec.roles,
            pool=spec.pool,
            concurrency=spec.concurrency,
            store=shown_address(spec.store),
        )
        if spec.pool == "solo":
            consumer.start()
        else:
            pool.run()
        ending.join()
        _log.info("worker.stopped", roles=spec.roles)

    def _end(self, pool: Pool) -> None:
        self._stop.wait()
        pool.stop(0.0 if self._stuck else self._spec.grace_s)
        if self._stuck and self._guarded:
            # Nothing is held any more. Where the consumer does not end, it would swallow doorbells meanwhile.
            end_within(_LEAVE_WITHIN, STUCK_STATUS)


def require_between_processes(store: str, transport: Transport) -> None:
    """Raise ContractError where a store or a transport serves one process only."""
    if store.endswith(":memory:") or transport.url.startswith(memory.SCHEME):
        raise ContractError(
            "worker", "a pool of processes needs a store and a transport that its children reach, not memory"
        )


def main() -> int:
    """Run the child process that `run_worker` starts; returns its exit status."""
    given = sys.stdin.buffer.read() if sys.argv[1] == _ON_STDIN else sys.argv[1].encode()
    spec = decode(given, WorkerSpec, what="worker specification")
    set_up_logs(spec.log_level, spec.log_format)
    _collect_less()
    stop = threading.Event()
    # The watcher says who it is: it may be gone before this process gets to look.
    watch_parent(stop.set, stop, parent=next(map(int, sys.argv[2:]), None))
    threading.Thread(target=_end_in_time, args=(spec, stop), daemon=True).start()
    # Once told is enough, for a supervisor of everything may tell this process and its parent, which passes it on.
    with on_signals(lambda _: stop.set(), (signal.SIGTERM,)):
        status = _attempt(spec, stop)
    end_within(_LEAVE_WITHIN, status)
    return status


def _collect_less() -> None:
    """Leave what was imported out of garbage collections, and have fewer: a handoff makes much that is gone at once."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


def _attempt(spec: WorkerSpec, stop: threading.Event) -> int:
    try:
        return serve(spec, stop, guarded=True)
    except PassdownError as error:
        sys.stderr.write(f"passdown: {error}\n")
        return error.exit_code


def _end_in_time(spec: WorkerSpec, stop: threading.Event) -> None:
    stop.wait()
    end_within(spec.grace_s + _STOP_WITHIN, 1, "it was told to stop, and did not get to its end")


if __name__ == "__main__":
    sys.exit(main())
