"""Doing something that may hang in a thread of its own, which nobody has to wait for."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(act: Callable[[], T], name: str) -> Future[T]:
    """Do `act` in a thread of that `name`, which ends with the process at the latest; returns its future."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
