"""A worker that kills itself, once, at a named point: ``python -m tests.integration.killing SPEC POINT MARKER``."""

import os
import signal
import sys
import threading
from pathlib import Path

from passdown.broker.app import App, compose
from passdown.broker.doorbell import Doorbell
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import decode


def die_once(marker: Path) -> None:
    """End this process as a power cut would; the marker says that it has happened."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


class KillingDoorbell:
    """Kills around a ring."""

    def __init__(self, inner: Doorbell, point: str, marker: Path) -> None:
        self._inner, self._point, self._marker = inner, point, marker

    def ring(self, role: str) -> None:
        """Ring, and die before or after it."""
        if self._point == "before_ring" and role != "searcher":
            die_once(self._marker)
        self._inner.ring(role)
        if self._point == "after_ring" and role != "searcher":
            die_once(self._marker)


def main() -> None:
    """Serve until killed or told to stop."""
    spec = decode(sys.argv[1].encode(), WorkerSpec)
    point, marker = sys.argv[2], Path(sys.argv[3])
    app = compose(spec.store, spec.transport)
    if point.endswith("_ring"):
        bell = KillingDoorbell(app.doorbell, point, marker)
        app = App(app.store, app.transport, bell, type(app.controller)(app.store, bell))

    def hook(reached: str, pack: object) -> None:
        # The first stage only reads; the writing one has every point.
        if reached == point and (pack is None or getattr(pack, "stage", "") == "write"):
            die_once(marker)

    serve(spec, threading.Event(), hooks=hook, app=app)


if __name__ == "__main__":
    main()
