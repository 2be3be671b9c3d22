"""A worker that is slow to commit: ``python -m tests.integration.slow_giving SPEC FOLDER``.

Its agent has returned, and what it returned is not committed before the file ``commit`` is there.
"""

import sys
import threading
import time
from pathlib import Path

from passdown.agents.port import HookPoint
from passdown.broker.signals import stop_on_signals
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import decode
from passdown.contracts.pack import Pack


def main() -> int:
    """Serve until told to stop."""
    spec = decode(sys.argv[1].encode(), WorkerSpec)
    folder = Path(sys.argv[2])
    quiet = threading.Event()

    def hook(point: HookPoint, pack: Pack | None) -> None:
        if point == "before_give" and pack is not None:
            (folder / f"returned-{pack.attempt}").touch()
            ends = time.monotonic() + 20
            while not (folder / "commit").exists() and time.monotonic() < ends:
                quiet.wait(0.02)

    with stop_on_signals() as stop:
        return serve(spec, stop, hooks=hook)


if __name__ == "__main__":
    sys.exit(main())
