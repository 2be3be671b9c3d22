"""The figures: ``make bench``, or ``make bench ARGS=store`` for some of them.

Ratios against a peer or a limit in the same run, medians of interleaved rounds. Absolute numbers are of
the machine that ran them.
"""

import argparse
import platform
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import briefs
import handoff
import joins
import memory
import peers
import people
import pools
import store

BENCHMARKS: dict[str, Callable[[bool], list[str]]] = {
    "store": store.run,
    "peers": peers.run,
    "handoff": handoff.run,
    "memory": memory.run,
    "pools": pools.run,
    "joins": joins.run,
    "briefs": briefs.run,
    "people": people.run,
}


def main() -> int:
    """Run what was asked for; exit status 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they run")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}")
    missed: list[str] = []
    for name in options.names or BENCHMARKS:
        print(f"\n== {name}")
        missed += BENCHMARKS[name](options.quick)
    for miss in missed:
        print(f"MISSED: {miss}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
