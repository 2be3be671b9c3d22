"""`queues`: what waits, and for how long."""

import json

from tests.unit.cli.conftest import Cli
from tests.unit.cli.desk import Desk


def test_what_waits_and_what_runs(at_desk: Cli, desk: Desk) -> None:
    assert at_desk("queues").out == ""
    for n in range(3):
        desk.submit(f"q{n}", orderId="1")
    heading, line = at_desk("queues").out.splitlines()
    assert heading.split("  ")[0] == "role"
    role, waiting, taken, running, _ = line.split(maxsplit=4)
    assert (waiting, taken, running) == ("3", "0", "0")
    (row,) = json.loads(at_desk("queues", "--json").out)["queues"]
    assert (row["role"], row["ready"]) == (role, 3)
