#!/bin/sh
# venv.sh FOLDER REQUIREMENTS: makes the environment FOLDER if there is none that works, installs the pinned and
# hashed REQUIREMENTS into it, then Passdown itself, editable, with nothing beside it.
set -eu
cd "$(dirname "$0")/.."

venv=$1 requirements=$2
python=${PYTHON:-python3}

if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "Passdown needs Python 3.11 or newer, and '$python' is not: say which one to use with PYTHON=…" >&2
    exit 1
fi
if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    # Debian keeps in a package of its own what `python3 -m venv` needs.
    "$python" -c 'import ensurepip' 2>/dev/null || sh scripts/need.sh python3-venv
    "$python" -m venv --clear "$venv"
fi

install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
echo "Installing $requirements into $venv"
install --require-hashes -r requirements-build.txt
install --require-hashes -r "$requirements"
install --no-deps --no-build-isolation --editable .
