# make demo       see it work (needs Python 3.11 with pip, nothing else)
# make test       all tests but the soak
# make check      style, types, import rules, generated schemas, size budgets
# make soak       the soak, about MINUTES long (10 at least); whole sizes from MINUTES=60 on, see scripts/soak.sh
# make bench      the benchmarks, in an environment of their own
# make setup      the environment for all of these but the benchmarks, in .venv
# make fix        let ruff mend and format what it can
# make lock       write requirements*.txt anew; UPGRADE=--upgrade takes the newest releases
# make clean      remove the environments and caches; never data

PYTHON ?= python3
MINUTES ?= 10
ARGS ?=
UPGRADE ?=

# Debian packages that tests use, `PACKAGE` or `PACKAGE=COMMAND` where the command has another name.
APT_PACKAGES = faketime redis-server rabbitmq-server

BIN = .venv/bin
PIP = .venv/bin/python -m pip install --quiet --disable-pip-version-check

export PYTHON
# Tests start hundreds of processes, and without bytecode each of them compiles the product again.
unexport PYTHONDONTWRITEBYTECODE
export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1 # it would ask the network for a newer release

.PHONY: demo test check soak bench setup fix lock clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

demo: .venv/.runtime
	$(BIN)/passdown demo

# Modules come in the order of their folders: by the number of their tests, the longest would run last, one by one.
test: .venv/.dev
	@sh scripts/need.sh $(APT_PACKAGES)
	$(BIN)/pytest tests -n 4 --dist loadfile --no-loadscope-reorder $(ARGS)

check: .venv/.dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/pyright
	$(BIN)/lint-imports --no-cache
	$(BIN)/passdown schema write --check
	$(BIN)/python scripts/sizes.py

soak: .venv/.dev
	@sh scripts/need.sh $(APT_PACKAGES)
	@sh scripts/soak.sh $(MINUTES)

bench: .venv-bench/.runtime
	.venv-bench/bin/python benchmarks/run.py $(ARGS)

setup: .venv/.dev

fix: .venv/.dev
	-$(BIN)/ruff check --fix
	$(BIN)/ruff format

lock:
	@sh scripts/lock.sh $(UPGRADE)

clean:
	rm -rf .venv .venv-bench dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find agents benchmarks broker contracts examples scripts tests -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

# The stamps say what is installed; each is older than the files that ask for more.
.venv/.runtime: pyproject.toml requirements.txt requirements-build.txt
	@sh scripts/venv.sh .venv requirements.txt
	@touch $@

.venv/.dev: .venv/.runtime requirements-dev.txt
	$(PIP) --require-hashes -r requirements-dev.txt
	@touch $@

.venv-bench/.runtime: pyproject.toml requirements-bench.txt requirements-build.txt
	@sh scripts/venv.sh .venv-bench requirements-bench.txt
	@touch $@
