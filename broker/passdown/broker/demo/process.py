"""A worker or a tick of a demo: ``python -m passdown.broker.demo.process SPECIFICATION STARTS``.

Works until it is told to stop (SIGTERM, or the end of its standard input). On Linux it does not outlive
whoever started it even while it is frozen.
"""

import ctypes
import os
import signal
import sys
import threading
from types import FrameType

from passdown.agents.port import no_hooks
from passdown.broker.app import compose
from passdown.broker.demo.chaos import Chaos, Faults
from passdown.broker.logs import set_up_logs
from passdown.broker.tick import Tick
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import Record, decode
from passdown.contracts.errors import PassdownError

MODULE = "passdown.broker.demo.process"
#: See prctl(2).
_PR_SET_PDEATHSIG = 1


class Child(Record, frozen=True, kw_only=True):
    """What a process of a demo needs to know: a worker where ``worker`` has roles, else a tick."""

    name: str
    worker: WorkerSpec
    chaos: Chaos | None = None
    tick_every_ms: int = 100


def main() -> int:
    """Run one process."""
    _die_with_parent()
    child = decode(sys.argv[1].encode(), Child, what="process")
    set_up_logs(child.worker.log_level, child.worker.log_format)
    stop = threading.Event()

    def end(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    threading.Thread(target=_watch_input, args=(stop,), daemon=True).start()
    try:
        _work(child, sys.argv[2], stop)
    except PassdownError as error:
        sys.stderr.write(f"passdown: {error}\n")
        return error.exit_code
    return 0


def _work(child: Child, starts: str, stop: threading.Event) -> None:
    app = compose(child.worker.store, child.worker.transport)
    faults = Faults(child.chaos, f"{child.name}:{starts}") if child.chaos else None
    if faults:
        app = faults.around(app)
    if child.worker.roles:
        serve(child.worker, stop, hooks=faults.hook if faults else no_hooks, app=app)
    else:
        Tick(app.controller, most_wait_ms=child.tick_every_ms).run(stop)
        app.close()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _watch_input(stop: threading.Event) -> None:
    """Whoever started this process holds the other end of its standard input until it is gone."""
    while os.read(0, 1):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
