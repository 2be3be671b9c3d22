"""A worker that kills itself once at a named point of a merge: ``python -m tests.integration.killing_merges SPEC POINT MARKER``."""

import sys
import threading
from pathlib import Path

from passdown.broker.app import compose
from passdown.broker.worker import WorkerSpec, serve
from passdown.contracts.codec import decode
from tests.integration.killing import die_once


def main() -> None:
    """Serve until killed or told to stop."""
    spec = decode(sys.argv[1].encode(), WorkerSpec)
    point, marker = sys.argv[2], Path(sys.argv[3])

    def hook(reached: str, pack: object) -> None:
        if reached == point and getattr(pack, "join", None) is not None:
            die_once(marker)

    serve(spec, threading.Event(), hooks=hook, app=compose(spec.store, spec.transport))


if __name__ == "__main__":
    main()
