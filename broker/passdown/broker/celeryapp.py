"""The Celery application of workers of ours, for teams that start theirs with Celery's own command.

::

    PASSDOWN_STORE=redis://… PASSDOWN_MODULES=ours.agents celery -A passdown.broker.celeryapp worker --pool threads

Settings come from the environment and ``passdown.toml``, but the kind of pool is Celery's ``--pool``; ``-Q
passdown.ROLE`` narrows the roles, those of merges included (``passdown.passdown.merge``).
`passdown.broker.guest` adds the same to an application that has tasks of its own.
"""

from typing import Any, cast

from celery import Celery
from celery.apps.worker import Worker
from celery.concurrency import get_implementation
from celery.concurrency.prefork import TaskPool as Prefork

from passdown.broker.guest import install, roles_of
from passdown.broker.logs import set_up_logs
from passdown.broker.pool import celery_app
from passdown.broker.settings import Settings, load
from passdown.broker.transports.addresses import transport_of


class _Worker(Worker):
    """Gives each child a pipe of its own: of one that they shared, a child that is killed could keep the lock."""

    def should_use_eventloop(self) -> bool:
        """Celery has such pipes with an event loop only."""
        return issubclass(cast("Any", get_implementation)(cast("Any", self).pool_cls), Prefork)


def make(settings: Settings) -> Celery:
    """Return the application for `settings`; raises ContractError where they will not do."""
    set_up_logs(settings.log_level, settings.log_format)
    transport = transport_of(settings.store, settings.transport)
    app: Any = celery_app(transport, roles_of(settings))
    app.conf.worker_concurrency = settings.concurrency
    app.Worker = app.subclass_with_self(_Worker)
    install(app, settings=settings, alone=True)
    return app


app = make(load().settings)
