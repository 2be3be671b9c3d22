"""A Celery application of others that serves Passdown's roles as well: ``celery -A tests.integration.guest_app worker``."""

import os
from pathlib import Path
from typing import Any

from celery import Celery

from passdown.broker.guest import install

app: Any = Celery("theirs", broker=os.environ["THEIR_BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True, task_ignore_result=True, worker_hijack_root_logger=False
)
install(app, roles=["searcher", "writer", "notifier", "stubborn"])


@app.task(name="theirs.touch", ignore_result=True)
def touch(path: str) -> None:
    """A task of their own."""
    Path(path).touch()
