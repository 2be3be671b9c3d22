"""The processes that people start: a worker, a tick, or everything in one (DESIGN §11)."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

import structlog

from passdown.agents.options import Options
from passdown.agents.runtime import Runtime
from passdown.broker.app import App, compose, when_there
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.modules import registry_of
from passdown.broker.pool import Pool
from passdown.broker.settings import Settings
from passdown.broker.signals import end_within, stop_on_signals
from passdown.broker.tick import Tick
from passdown.broker.worker import WorkerSpec
from passdown.broker.worker import run_worker as watch_worker

_log = structlog.get_logger("passdown")

#: How long the threads of a process may take to end after its work has ended (seconds).
_LEAVE_WITHIN = 2.0
_JOIN_WITHIN = 5.0


def run_worker(settings: Settings, roles: list[str], modules: list[str], concurrency: int) -> int:
    """Run a watched worker until told to stop; returns its exit status."""
    return watch_worker(
        WorkerSpec(
            store=settings.store,
            transport=settings.transport,
            roles=roles,
            modules=modules,
            concurrency=concurrency,
            limits=limits_of(settings),
            patience_s=settings.store_patience_s,
            log_level=settings.log_level,
            log_format=settings.log_format,
        )
    )


def run_tick(settings: Settings) -> int:
    """Sweep until told to stop; where the store is away at the start, wait for it. Raises ContractError."""
    opened: list[App] = []
    with stop_on_signals() as stop:
        try:
            if when_there("tick", lambda: opened.append(_compose(settings)), stop):
                _log.info("tick.started")
                tick_of(opened[0], settings).run(stop)
        finally:
            for app in opened:
                app.close()
    return 0


def run_up(settings: Settings, ready: Callable[[Broker, list[str]], None] | None = None) -> int:
    """Run a pool for every agent of the modules, and a tick, in this process, until told to stop.

    `ready` is told once all is up. Returns the exit status: 1 where a part of it died. Raises ContractError,
    PlanError, Unavailable.
    """
    with stop_on_signals() as stop:
        with Up(settings, on_fault=stop.set) as up:
            if ready:
                ready(up.broker, up.roles)
            stop.wait()
        status = 1 if up.faults else 0
    end_within(_LEAVE_WITHIN, status)
    return status


class Up:
    """Everything in one process, from `__enter__` to `__exit__`.

    ``faults`` names the parts that ended by themselves; `on_fault` is called when one does, from its thread.
    """

    def __init__(self, settings: Settings, on_fault: Callable[[], None] | None = None) -> None:
        self._settings = settings
        self._on_fault = on_fault
        self.faults: list[str] = []
        registry = registry_of(settings.modules)
        self.roles = sorted(registry.agents)
        self.app = _compose(settings)
        try:
            self.broker = Broker(self.app, settings.principal or None)
            self._runtime = Runtime(
                DirectGateway(self.app.controller, limits_of(settings)),
                agents=registry.agents.values(),
                tools=registry.tools.values(),
                options=Options(linger_seconds=self.app.transport.linger_s),
            )
        except BaseException:
            self.app.close()
            raise
        self._stop = threading.Event()
        self._pool: Pool | None = None
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self._runtime.start()
        for plan in self._settings.plans:
            ref = self.broker.register(Path(plan))
            _log.info("plan.registered", plan=str(ref))
        tick = tick_of(self.app, self._settings)
        self._run("tick", lambda: tick.run(self._stop))
        if self.roles:
            pool = self._pool = Pool(
                self._runtime,
                self.app.doorbell,
                self.app.transport,
                self.roles,
                concurrency=self._settings.concurrency,
            )
            self._run("pool", pool.run)

    def _run(self, name: str, act: Callable[[], None]) -> None:
        thread = threading.Thread(
            target=self._watched, args=(name, act), name=f"passdown-{name}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _watched(self, name: str, act: Callable[[], None]) -> None:
        """A part that ends before it was told to must not go unnoticed: the rest looks alive and does nothing."""
        try:
            act()
        except BaseException:  # noqa: BLE001 - there is nobody above
            _log.exception("up.part_broken", part=name)
        if not self._stop.is_set():
            _log.critical("up.part_ended", part=name)
            self.faults.append(name)
            if self._on_fault:
                self._on_fault()

    def __exit__(self, *_: object) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        if self._pool:
            self._pool.stop()
        else:
            self._runtime.stop(0.0)
        for thread in self._threads:
            thread.join(timeout=_JOIN_WITHIN)
            if thread.is_alive():
                _log.warning("up.part_stuck", part=thread.name)
        self.broker.close()


def _compose(settings: Settings) -> App:
    return compose(
        settings.store,
        settings.transport,
        patience_s=settings.store_patience_s,
        events=settings.events,
        accept_effect_loss=settings.accept_effect_loss,
    )


def tick_of(app: App, settings: Settings) -> Tick:
    """Return a tick as the settings say."""
    return Tick(app.controller, most_wait_ms=settings.tick_every_ms)


def limits_of(settings: Settings) -> Limits:
    """Return what may run at once, as the settings say."""
    return Limits(
        claim_by_ms=settings.claim_by_ms,
        roles=dict(settings.role_limits),
        task=settings.task_limit,
    )
