"""A worker whose consumer never hears that it is to end: ``python -m tests.integration.unending SPEC``."""

import sys

from passdown.broker import pool, worker


def _nobody_tells_it(_pool: pool.Pool) -> None:
    return


def main() -> int:
    """Serve until told to stop, and beyond that."""
    pool._END_WITHIN = 0.2  # pyright: ignore[reportPrivateUsage]
    pool.Pool._end_consumer = _nobody_tells_it  # type: ignore[method-assign]
    return worker.main()


if __name__ == "__main__":
    sys.exit(main())
