#!/bin/sh
# soak.sh MINUTES: runs the tests marked `soak`, which go on for about that long in all (10 at least: some have a least size).
#
# Sizes follow from MINUTES (`tests/soaking.py`): whole from 60 on, in proportion below. On two cores, at 10 and at 60:
#   recorded runs on a file, calm and under chaos: tests/acceptance/test_demo.py                   3 min    3 min
#   recorded runs on Redis, doorbells over Redis and over RabbitMQ: …/test_demo_on_redis.py        2 min    9 min
#   generated histories, a share of 0.15 for each store: tests/conformance/test_histories.py       3 min   18 min
#   trees of fan-outs, a share of 0.03 for each of three stores: tests/conformance/test_trees.py   1 min    6 min
#   groups of 2,000 and 20,000 branches at 60: tests/integration/test_joins_scale.py               40 s     5 min
#   branches and merges whose processes are killed: tests/integration/test_joins_dying.py          2 min    4 min
#   a hundred people race for a thousand tickets, processes killed: tests/integration/test_shifts.py 30 s     30 s
#   much at once, much that waits, much that goes through: tests/integration/test_scale*.py        2 min   12 min
#   eight processes on one file: tests/conformance/test_sqlite_processes.py                         10 s     60 s
#   harm to all servers, a share of 0.1 for each combination: tests/integration/test_dying_soak.py
set -eu
cd "$(dirname "$0")/.."

SOAK_MINUTES=$1
export SOAK_MINUTES

status=0
.venv/bin/pytest tests -m soak --collect-only --quiet >/dev/null 2>&1 || status=$?
if [ "$status" = 5 ]; then
    echo "soak: no test is marked soak, so nothing ran" >&2
    exit 0
fi
# No time limit per test: a soak is as long as it was asked to be, and its tests bound their own waits.
exec .venv/bin/pytest tests -m soak --timeout 0 --verbose
