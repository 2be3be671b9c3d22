"""Forking with stores open: no connection is open while it happens.

SQLite forbids using or even closing a connection in a child that its parent opened, and it keeps books
on the locks of each file per process, which a fork makes false: a child that opened a connection of its
own beside an inherited one would believe that it holds locks which it does not. So connections are closed
before a fork, which waits for whoever is using one, and both sides open new ones when they need them.
"""

import os
import threading
import weakref
from typing import Protocol


class Forkable(Protocol):
    """What wants to be told of forks."""

    def before_fork(self) -> None:
        """Let go of what must not be inherited."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...

    def after_fork_in_child(self) -> None:
        """Go on with nothing inherited."""
        ...


class _Forks:
    def __init__(self) -> None:
        self._watching: weakref.WeakSet[Forkable] = weakref.WeakSet()
        self._told: list[Forkable] = []
        self._one_at_a_time = threading.Lock()
        os.register_at_fork(
            before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child
        )

    def watch(self, store: Forkable) -> None:
        self._watching.add(store)

    def _before(self) -> None:
        self._one_at_a_time.acquire()
        self._told = list(self._watching)
        for store in self._told:
            store.before_fork()

    def _in_parent(self) -> None:
        for store in self._told:
            store.after_fork_in_parent()
        self._told = []
        self._one_at_a_time.release()

    def _in_child(self) -> None:
        self._one_at_a_time = threading.Lock()
        for store in self._told:
            store.after_fork_in_child()
        self._told = []


_FORKS = _Forks()


def watch(store: Forkable) -> None:
    """Tell `store` of forks for as long as it lives."""
    _FORKS.watch(store)
