"""An archivist that archives all that ended, and may kill itself on the way.

``python -m tests.integration.archiving STORE FOLDER BATCH [POINT COUNT]``: it dies as a power cut would when it
passes the point for the COUNTth time.
"""

import os
import signal
import sys
from pathlib import Path

from passdown.broker.app import open_store
from passdown.broker.archivist import Archivist, Pass, Retention

KEEP_KEYS_MS = 3_600_000


def main() -> None:
    """Make passes until nothing is left."""
    store, folder, batch = sys.argv[1:4]
    doomed, count = (sys.argv[4], int(sys.argv[5])) if len(sys.argv) > 4 else ("", 0)
    passed: list[str] = []

    def hook(point: str) -> None:
        passed.append(point)
        if passed.count(doomed) == count and count:
            os.kill(os.getpid(), signal.SIGKILL)

    retention = Retention(0, KEEP_KEYS_MS, Path(folder))
    archivist = Archivist(open_store(store), retention, batch=int(batch), hook=hook)
    while archivist.once() != Pass():
        continue


if __name__ == "__main__":
    main()
