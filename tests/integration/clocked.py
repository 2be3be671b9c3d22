"""A worker or a tick under a wall clock that a file sets while it runs.

``python -m tests.integration.clocked FILE worker SPEC`` or ``… FILE tick STORE``. The file holds the seconds
that the clock is ahead. libfaketime can do that as well, but it reads its file anew in all threads at once,
and then sleeps fail now and then.
"""

import sys
import time
from pathlib import Path

from passdown.broker import worker
from passdown.broker.processes import run_tick
from passdown.broker.settings import Settings


def main() -> int:
    """Set the clock, and do what was asked."""
    file, what, given = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    real = time.time_ns

    def time_ns() -> int:
        return real() + int(file.read_text() or "0") * 1_000_000_000

    time.time_ns = time_ns
    time.time = lambda: time_ns() / 1_000_000_000
    if what == "tick":
        return run_tick(Settings.model_validate({"store": given}))
    sys.argv = ["worker", given]
    return worker.main()


if __name__ == "__main__":
    sys.exit(main())
