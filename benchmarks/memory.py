"""Memory of one process that runs everything, after 1,000 and after 20,000 sessions."""

from pathlib import Path

from figures import at_most, folder
from site_ import Running, chain, running


def resident_mb() -> float:
    """Return the resident memory of this process in megabytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS: this needs Linux")


def sessions(site: Running, count: int) -> None:
    """Run so many sessions, 200 at once."""
    for _ in range(0, count, 200):
        made = [site.broker.submit("chain1", inputs={"x": 0}) for _ in range(200)]
        for session in made:
            session.result(120)


def run(quick: bool) -> list[str]:
    """Measure, print, and return what was missed."""
    few, many = (200, 2_000) if quick else (1_000, 20_000)
    with folder() as path, running(path) as site:
        site.broker.register(chain(1))
        sessions(site, few)
        before = resident_mb()
        sessions(site, many - few)
        after = resident_mb()
    print(f"resident: {before:.0f} MB after {few} sessions, {after:.0f} MB after {many}")
    return at_most(f"growth from {few} to {many} sessions, MB", after - before, 50)
