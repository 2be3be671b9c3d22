"""Passdown in a Celery worker of others: its one task and its doorbell queues, added to their application.

::

    from celery import Celery
    from passdown.broker.guest import install

    app = Celery("ours", broker="redis://…")
    install(app, modules=["ours.agents"])

Packs, leases and returns do not pass through Celery: a doorbell only says that packs wait, and what it starts
takes them from the store. In a pool of threads, or solo, agents run in the worker's process; in a pool of
processes each child opens the store for itself.
"""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import kombu
import structlog
from celery import Celery, bootsteps, signals
from celery.concurrency.prefork import TaskPool as Prefork
from celery.concurrency.solo import TaskPool as Solo
from celery.concurrency.thread import TaskPool as Threads

from passdown.agents.limits import Stuck, unguarded
from passdown.agents.registry import Registry
from passdown.agents.runtime import Runtime
from passdown.broker.access.acting import AccessMode, token_of
from passdown.broker.app import App, Transport, compose, open_doorbell, transport_of, when_there
from passdown.broker.children import Children, Opened, guard
from passdown.broker.connected import require_worker
from passdown.broker.doorbell import queue_name
from passdown.broker.draining import Answers, Hands, ProcessSlots, ThreadSlots, answer_with
from passdown.broker.gateway import DirectGateway
from passdown.broker.modules import registry_of
from passdown.broker.processes import limits_of
from passdown.broker.settings import Settings, load
from passdown.broker.signals import end_within
from passdown.broker.transports import queues
from passdown.broker.worker import registry_for, require_between_processes
from passdown.contracts.errors import ContractError

_log = structlog.get_logger("passdown.guest")

#: How long the threads of a worker that has handed back all may take to end, where it runs nothing else (seconds).
_LEAVE_WITHIN = 5.0


def install(
    app: Celery,
    *,
    roles: Sequence[str] = (),
    modules: Sequence[str] = (),
    settings: Settings | None = None,
    alone: bool = False,
) -> None:
    """Have the workers of `app` serve `roles` with the agents of `modules`, beside their own tasks.

    `settings` are read from the environment and ``passdown.toml`` where none are given; `roles` and `modules`
    go before theirs, and without any role all that the modules have agents for are served. A worker that is
    told its queues (``-Q``) serves those of ``passdown.ROLE`` among them.

    `alone` says that the workers run nothing else: then a child process hears SIGTERM for itself, and a worker
    ends even where an agent does not.

    The doorbells must come in where the application consumes: its broker, and on Redis its
    ``global_keyprefix``, are those of the transport (``PASSDOWN_TRANSPORT``).

    Raises ContractError where settings, modules or roles will not do.
    """
    found = settings or load().settings
    said = {name: list(value) for name, value in (("modules", modules), ("roles", roles)) if value}
    found = found.model_copy(update=said)
    wanted = roles_of(found)
    team = _Team(app, found, registry_for(list(found.modules), wanted), wanted, alone=alone)
    cast("Any", app).steps["worker"].add(type("PassdownStep", (_Step,), {"team": team}))
    if cast("Any", app).finalized:
        team.add_queues()
    else:
        cast("Any", app).on_after_finalize.connect(team.add_queues, weak=False)


def roles_of(settings: Settings) -> list[str]:
    """Return the roles that are served: those that are named, else all that the modules have agents for; and merges."""
    if not settings.modules:
        raise ContractError("celery worker", "it needs its agents: `modules`, or PASSDOWN_MODULES")
    return registry_of(list(settings.modules)).served(settings.roles, merge=settings.merge)


class _Team:
    """What serves the roles in one Celery worker."""

    def __init__(
        self, app: Celery, settings: Settings, registry: Registry, roles: list[str], *, alone: bool
    ) -> None:
        self._app = app
        self._settings = settings
        self._registry = registry
        self._roles = roles
        self._alone = alone
        self._transport = transport_of(settings.store, settings.transport)
        self._doorbell = open_doorbell(self._transport)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._hands: Hands | None = None
        self._opened: App | None = None
        self._served: list[str] = []
        self._slots = 0

    def add_queues(self, **_: object) -> None:
        """Add the queues of the doorbells to those that the application knows."""
        known = cast("Any", self._app).amqp.queues
        for role in self._roles:
            known.select_add(queues.hints(queue_name(role)))

    def enter(self, worker: Any) -> None:
        """In the worker's process, before it has children. Raises ContractError for a pool that will not do."""
        self._compare(worker)
        if issubclass(worker.pool_cls, Prefork):
            require_between_processes(self._settings.store, self._transport)
            self._hands = Children(self._open, grace_s=self._settings.worker_grace_s, alone=self._alone)
            slots = ProcessSlots(worker.concurrency)
            answer_with(self._app, Answers(self._hands, self._doorbell, self._roles, slots).drain)
        elif not issubclass(worker.pool_cls, Threads | Solo):
            name = worker.pool_cls.__module__
            raise ContractError("celery worker", f"expected --pool prefork, threads or solo, got {name}")

    def start(self, worker: Any) -> None:
        """Open the store, publish the tools, ring for what waits."""
        signals.worker_shutting_down.connect(self._told, weak=False)
        if not when_there("worker", lambda: self._begin(worker), self._stop):
            return
        consumed = cast("Any", self._app).amqp.queues.consume_from
        self._served = [role for role in self._roles if queue_name(role) in consumed]
        _log.info("guest.started", roles=self._served, concurrency=worker.concurrency)
        self._ring()

    def _ring(self) -> None:
        """Ring for what waited, or for bells that were heard and not answered."""
        for role in self._served:
            self._doorbell.ring(role)

    def _begin(self, worker: Any) -> None:
        app = self._compose()
        self._slots = worker.concurrency
        runtime = self._runtime(app, self._on_stuck)
        settings, registers = self._settings, bool(self._registry.tools)
        try:
            token = token_of(settings)
            require_worker(app, self._roles, registers=registers, principal=settings.principal, token=token)
            runtime.start()
        except BaseException:
            app.close()
            raise
        if self._hands is not None:
            app.close()  # the children, those too that are still to be forked, open their own
            return
        self._opened, self._hands = app, runtime
        slots = ThreadSlots(worker.concurrency)
        answer_with(self._app, Answers(runtime, self._doorbell, self._roles, slots).drain)

    def _told(self, **_: object) -> None:
        """Celery is told to stop: what runs begins to wind up at once, for Celery waits for it without end."""
        threading.Thread(target=self.stop, name="passdown-stop", daemon=True).start()

    def stop(self) -> None:
        """Take nothing any more, let what runs finish within the grace, hand back the rest."""
        self._stop.set()
        with self._lock:
            hands, self._hands = self._hands, None
            if hands is None:
                return
            hands.stop(self._settings.worker_grace_s)
            self._ring()
            # What still runs gives its return when it ends, and is told that it is too late.
            if self._opened and isinstance(hands, Runtime) and hands.idle:
                self._opened.close()
        if self._alone:
            end_within(_LEAVE_WITHIN, 0)

    def _on_stuck(self, stuck: Stuck) -> None:
        """A worker whose slots are all held for good is of no use; another is started by whoever started this one."""
        if self._alone and (stuck.loop or stuck.threads >= self._slots):
            _log.error("guest.stuck", roles=self._served, **stuck._asdict())
            os.kill(os.getpid(), signal.SIGTERM)

    def _compose(self) -> App:
        settings = self._settings
        access = cast("AccessMode", settings.access)
        return compose(
            settings.store, settings.transport, patience_s=settings.store_patience_s, access=access
        )

    def _open(self, on_stuck: Callable[[Stuck], None]) -> Opened:
        app = self._compose()
        return Opened(self._runtime(app, on_stuck), app.close)

    def _runtime(self, app: App, on_stuck: Callable[[Stuck], None]) -> Runtime:
        return Runtime(
            DirectGateway(app.controller, limits_of(self._settings)),
            agents=self._registry.agents.values(),
            tools=self._registry.tools.values(),
            options=app.transport.drains(len(self._roles)),
            on_stuck=on_stuck,
            guard=guard if self._alone else unguarded,
        )

    def _compare(self, worker: Any) -> None:
        """Say so where doorbells come in elsewhere than this application consumes."""
        ours, theirs = _place(self._transport), _place_of(self._app)
        if ours != theirs:
            _log.warning("guest.other_broker", doorbells=ours, consumes=theirs, worker=worker.hostname)


class _Step(bootsteps.StartStopStep):
    """Begins after the pool, and ends before it."""

    requires = ("celery.worker.components:Pool",)
    team: _Team

    def __init__(self, parent: Any, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        self.team.enter(parent)

    def start(self, parent: Any) -> None:
        """Begin."""
        self.team.start(parent)

    def stop(self, parent: Any) -> None:  # noqa: ARG002 - Celery's signature
        """End."""
        self.team.stop()

    terminate = stop


def _place(transport: Transport) -> str:
    prefix = transport.options.get("global_keyprefix", "")
    return _shown(kombu.Connection(transport.url), prefix)


def _place_of(app: Celery) -> str:
    theirs: Any = app
    options: dict[str, Any] = theirs.conf.broker_transport_options or {}
    return _shown(theirs.connection_for_read(), options.get("global_keyprefix", ""))


def _shown(connection: Any, prefix: str) -> str:
    host = "localhost" if connection.hostname == "127.0.0.1" else connection.hostname
    port = connection.port or connection.transport.default_port
    where = str(connection.virtual_host or "").strip("/") or "0"
    return f"{host}:{port}/{where} {prefix}".strip()
