"""The processes that people start: a worker, a tick, or everything in one (DESIGN §11)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog

from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, compose
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.pool import Pool
from passdown.broker.settings import Settings
from passdown.broker.tick import Tick
from passdown.broker.worker import WorkerSpec, registry_of, stop_on_signals
from passdown.broker.worker import run_worker as watch_worker

_log = structlog.get_logger("passdown")


def run_worker(settings: Settings, roles: list[str], modules: list[str], concurrency: int) -> int:
    """Run a watched worker until told to stop; returns its exit status."""
    registry_of(modules)  # what cannot be imported is said here, not by a child again and again
    return watch_worker(
        WorkerSpec(
            store=settings.store,
            transport=settings.transport,
            roles=roles,
            modules=modules,
            concurrency=concurrency,
            limits=limits_of(settings),
            log_level=settings.log_level,
            log_format=settings.log_format,
        )
    )


def run_tick(settings: Settings) -> int:
    """Sweep until told to stop."""
    app = compose(settings.store, settings.transport)
    try:
        tick_of(app, settings).run(stop_on_signals())
    finally:
        app.close()
    return 0


def run_up(settings: Settings, ready: Callable[[Broker, list[str]], None] | None = None) -> int:
    """Run a pool for every agent of the modules, and a tick, in this process. `ready` is told once all is up."""
    stop = stop_on_signals()
    with Up(settings) as up:
        if ready:
            ready(up.broker, up.roles)
        stop.wait()
    return 0


class Up:
    """Everything in one process, from `__enter__` to `__exit__`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        registry = registry_of(settings.modules)
        self.roles = sorted(registry.agents)
        self.app = compose(settings.store, settings.transport)
        self.broker = Broker(self.app, settings.principal or None)
        gateway = DirectGateway(self.app.controller, limits_of(settings))
        self._runtime = Runtime(
            gateway,
            agents=registry.agents.values(),
            tools=registry.tools.values(),
            options=Options(linger_seconds=self.app.transport.linger_s),
        )
        self._stop = threading.Event()
        self._pool: Pool | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._runtime.start()
        for plan in self._settings.plans:
            ref = self.broker.register(Path(plan))
            _log.info("plan.registered", plan=str(ref))
        self._start("passdown-tick", lambda: tick_of(self.app, self._settings).run(self._stop))
        if self.roles:
            concurrency = self._settings.concurrency
            self._pool = Pool(
                self._runtime, self.app.doorbell, self.app.transport, self.roles, concurrency=concurrency
            )
            self._start("passdown-pool", self._pool.run)
        return self

    def _start(self, name: str, run: Callable[[], None]) -> None:
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._pool:
            self._pool.stop()
        else:
            self._runtime.stop(0.0)
        for thread in self._threads:
            thread.join(timeout=10)
        self.broker.close()


def tick_of(app: App, settings: Settings) -> Tick:
    """Return a tick as the settings say."""
    return Tick(app.controller, most_wait_ms=int(settings.tick_every_s * 1000))


def limits_of(settings: Settings) -> Limits:
    """Return what may run at once, as the settings say."""
    return Limits(
        claim_by_ms=int(settings.claim_by_s * 1000),
        roles=dict(settings.role_limits),
        task=settings.task_limit,
    )
