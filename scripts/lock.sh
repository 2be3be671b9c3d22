#!/bin/sh
# Writes requirements*.txt anew from pyproject.toml: the newest releases that fit, for every platform, each file's
# hash. Pins that stand already are kept unless `--upgrade` is given: `make lock UPGRADE=--upgrade`.
# The files name no index: where packages come from is for the machine that installs to say.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check uv

lock() { # lock FILE WHAT ARGUMENTS…: compiles into FILE, headed by WHAT
    file=$1 what=$2
    shift 2
    if [ -f "$file" ]; then cp "$file" "$work/$file"; fi
    "$work/venv/bin/uv" pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
        --no-header --no-emit-index-url --no-emit-find-links $upgrade "$@" --output-file "$work/$file"
    { printf '# %s\n# Written by scripts/lock.sh from pyproject.toml; not edited by hand.\n' "$what"; cat "$work/$file"; } >"$work/headed"
    cmp -s "$work/headed" "$file" || cat "$work/headed" >"$file" # an unchanged file stays as old as it is
}

upgrade=${1-}
lock requirements.txt "What Passdown needs to run." pyproject.toml
lock requirements-dev.txt "What Passdown needs to run, to be tested and to be checked." \
    pyproject.toml --group dev --constraints requirements.txt
lock requirements-bench.txt "What Passdown needs to run, and what it is measured against." \
    pyproject.toml --group bench --constraints requirements.txt
lock requirements-build.txt "What builds Passdown and installs it." --group build --constraints requirements-dev.txt
