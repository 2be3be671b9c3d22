#!/bin/sh
# soak.sh MINUTES: runs the tests marked `soak`, which go on for that long in all.
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
