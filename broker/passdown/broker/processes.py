"""The processes that people start: a worker, a tick, or everything in one (DESIGN §11)."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self, cast

import structlog

from passdown.agents.runtime import Runtime
from passdown.broker.access.acting import AccessMode, token_of, warn_of_no_tokens
from passdown.broker.app import App, compose, when_there
from passdown.broker.archivist import archivist_parts, retention_of
from passdown.broker.client import Broker
from passdown.broker.gateway import DirectGateway, Limits
from passdown.broker.health import HealthFile, asking
from passdown.broker.junk import JunkKeeper
from passdown.broker.modules import registry_of
from passdown.broker.outgoing import teller_parts
from passdown.broker.parts import Part, Parts
from passdown.broker.pool import Kind, Pool
from passdown.broker.push.parts import push_parts
from passdown.broker.settings import Settings
from passdown.broker.signals import end_within, stop_on_signals
from passdown.broker.tick import Tick
from passdown.broker.transports.carrier import Consumer
from passdown.broker.worker import WorkerSpec
from passdown.broker.worker import run_worker as watch_worker

_log = structlog.get_logger("passdown")

#: How long the threads of a process may take to end after its work has ended (seconds).
_LEAVE_WITHIN = 2.0


def run_worker(settings: Settings, roles: list[str]) -> int:
    """Run a watched worker until told to stop; returns its exit status."""
    return watch_worker(
        WorkerSpec(
            store=settings.store,
            transport=settings.transport,
            roles=roles,
            merge=settings.merge,
            modules=list(settings.modules),
            concurrency=settings.concurrency,
            pool=cast("Kind", settings.pool),
            grace_s=settings.worker_grace_s,
            limits=limits_of(settings),
            patience_s=settings.store_patience_s,
            log_level=settings.log_level,
            log_format=settings.log_format,
            health_file=settings.health_file,
            principal=settings.principal,
            token=token_of(settings),
            access=cast("AccessMode", settings.access),
        )
    )


def run_tick(settings: Settings) -> int:
    """Sweep until told to stop; where the store is away at the start, wait for it. Raises ContractError."""
    retention_of(settings)  # what cannot be meant is said before anybody waits for the store
    opened: list[App] = []
    with stop_on_signals() as stop:
        try:
            if when_there("tick", lambda: opened.append(_opened(settings)), stop):
                _log.info("tick.started")
                parts = parts_of(opened[0], settings)
                return _run_parts({**parts, **health_parts("tick", opened[0], settings, parts)}, stop)
        finally:
            for app in opened:
                app.close()
    return 0


def _run_parts(named: dict[str, Part], stop: threading.Event) -> int:
    """Run parts until told to stop; returns the exit status: 1 where one ended by itself."""
    parts = Parts(stop, on_fault=stop.set)
    parts.start_all(named)
    stop.wait()
    parts.join()
    return 1 if parts.faults else 0


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

    `on_fault` is called when a part ends by itself, from its thread.
    """

    def __init__(self, settings: Settings, on_fault: Callable[[], None] | None = None) -> None:
        self._settings = settings
        retention_of(settings)
        registry = registry_of(settings.modules)
        self.roles = sorted(registry.agents)
        self._served = registry.served(merge=settings.merge)
        self.app = _compose(settings)
        try:
            self.broker = Broker(self.app, settings.principal or None, itself=True)
            self._runtime = Runtime(
                DirectGateway(self.app.controller, limits_of(settings)),
                agents=registry.agents.values(),
                tools=registry.tools.values(),
                options=self.app.transport.drains(len(self._served)),
            )
        except BaseException:
            self.app.close()
            raise
        self._stop = threading.Event()
        self._parts = Parts(self._stop, on_fault)
        self._pool: Pool | None = None

    @property
    def faults(self) -> list[str]:
        """The parts that ended by themselves."""
        return self._parts.faults

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
        parts = parts_of(self.app, self._settings)
        self._parts.start_all(parts)
        if self._served:
            pool = self._pool = Pool(
                self._runtime,
                self.app.doorbell,
                self.app.transport,
                self._served,
                concurrency=self._settings.concurrency,
                on_junk=JunkKeeper(self.app.store.put).keep,
            )
            self._parts.start("pool", pool.run)
        self._parts.start_all(health_parts("up", self.app, self._settings, parts, self._pool))

    def __exit__(self, *_: object) -> None:
        if self._stop.is_set():
            return
        self._stop.set()
        if self._pool:
            self._pool.stop(self._settings.worker_grace_s)
        else:
            self._runtime.stop(0.0)
        self._parts.join()
        self.broker.close()


def _opened(settings: Settings) -> App:
    app = _compose(settings)
    try:
        warn_of_no_tokens(app.store, embedded=app.embedded)
    except BaseException:
        app.close()
        raise
    return app


def _compose(settings: Settings) -> App:
    return compose(
        settings.store,
        settings.transport,
        patience_s=settings.store_patience_s,
        events=settings.events,
        queue_limit=settings.queue_limit,
        accept_effect_loss=settings.accept_effect_loss,
    )


def parts_of(app: App, settings: Settings) -> dict[str, Part]:
    """Return what a tick process does, by name."""
    return {
        "tick": tick_of(app, settings),
        **push_parts(app.controller, app.transport, settings.push_limit),
        **teller_parts(
            app.store, app.transport, source=settings.events_source, most_wait_s=settings.tick_every_s
        ),
        **archivist_parts(app.store, settings),
    }


def health_parts(
    kind: str, app: App, settings: Settings, parts: dict[str, Part], pool: Pool | None = None
) -> dict[str, Part]:
    """Return what writes the health of a process with these parts, where the settings want it."""
    if not settings.health_file:
        return {}
    consumers = [part for part in parts.values() if isinstance(part, Consumer)]
    began = time.monotonic()

    def silent_s() -> float | None:
        heard = [time.monotonic() - (one.last_poll or began) for one in consumers]
        return max([*heard, pool.watch.silent_s] if pool else heard, default=None)

    health = HealthFile(
        settings.health_file,
        kind,
        asking(app.store),
        roles=pool.roles if pool else [],
        poll_s=silent_s,
        restarts=lambda: pool.restarts if pool else 0,
    )
    return {"health": health}


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
