# Everything a checkout can do. Needs make, Python >= 3.11 and Java >= 17; the rest is fetched.
.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV  := .venv
ifeq ($(OS),Windows_NT)
BIN   := $(VENV)/Scripts
else
BIN   := $(VENV)/bin
endif
STAMP := $(VENV)/.penstock-installed
PY    := $(BIN)/python

# The first Python that is new enough; asked only when a target needs it.
FIND_PYTHON = for p in $(PYTHON) python3 python python3.14 python3.13 python3.12 python3.11; do \
	command -v "$$p" >/dev/null 2>&1 || continue; \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo "$$p"; break; }; done

define NO_PYTHON
error: Python 3.11 or newer is needed
install one with
  Debian, Ubuntu:  sudo apt-get install python3 python3-venv
  Fedora:          sudo dnf install python3
  macOS:           brew install python@3.12
  Windows:         winget install Python.Python.3.12
or name one: make PYTHON=/path/to/python3 ...
endef
export NO_PYTHON

.PHONY: help check-machine setup docs lint house format test test-fast fast-sql fast-connector fast-others test-all faults sim demo bench wheel native native-check sbom clean lock

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

check-machine: # Python and Java before anything else happens; both messages say how to install one
	@python=$$($(FIND_PYTHON)); \
	if [ -z "$$python" ]; then echo "$$NO_PYTHON" >&2; exit 2; fi; \
	PYTHONDONTWRITEBYTECODE=1 "$$python" -m penstock.connector.jvm.java

setup: check-machine $(STAMP) ## make .venv with the locked dependencies and this project in it

$(STAMP): requirements.lock pyproject.toml | check-machine
	@python=$$($(FIND_PYTHON)); \
	if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  echo "making $(VENV) with $$($$python --version)"; \
	  "$$python" -m venv --clear $(VENV) || { \
	    echo "error: this Python cannot make virtual environments" >&2; \
	    echo "  Debian, Ubuntu:  sudo apt-get install python3-venv" >&2; rm -rf $(VENV); exit 2; }; \
	fi
	@echo "installing locked dependencies (a few minutes the first time: Spark is large)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lint: setup ## ruff, ruff format, mypy strict, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

house: setup ## figures of the house rules, before and now; LIST=1 names what was counted
	@$(PY) -m tests.house $(if $(LIST),--list)

format: setup ## let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup ## write the pages that are made from tables: docs/flink-compatibility.md, options.md, errors.md, openapi.json
	$(PY) -m penstock.sql.compatibility
	$(BIN)/penstock errors --markdown > docs/errors.md
	$(PY) -c 'from penstock.sql.ui.documents.openapi import openapi_text; print(openapi_text(), end="")' > docs/openapi.json

# Runs side by side: pytest-xdist would collect all tests in each of its workers, and be at work itself for each result.
FAST = $(BIN)/pytest --hypothesis-profile=few -p no:cacheprovider \
	-m "not broker and not spark and not simulation and not faults and not nightly and not slow"
test-fast: setup ## tests that need neither a broker nor a JVM, nor seconds each
	@$(MAKE) --no-print-directory -k -j 3 fast-sql fast-connector fast-others

# Folders so that the parts take the same time; those of the second wait for threads half of it.
WITH_OTHERS := tests/sql/serve
WAITING := tests/connector tests/contract tests/security
fast-sql: # the first part of test-fast
	@$(FAST) tests/sql $(addprefix --ignore=,$(WITH_OTHERS))

# The output of the other parts is shown when they are done.
SAID = >"$$said" 2>&1; status=$$?; cat "$$said"; rm -f "$$said"; exit $$status
fast-connector:
	@said=$$(mktemp); $(FAST) $(WAITING) $(SAID)

fast-others:
	@said=$$(mktemp); \
	$(FAST) $(addprefix --ignore=,$(WAITING)) $(addprefix --ignore=,$(filter-out $(WITH_OTHERS),$(wildcard tests/sql/*))) $(SAID)

# Each worker has a broker and a Spark of its own, 3 GB in all, and waits for them a third of its time: three keep two
# cores busy.
WORKERS ?= 3
SUITE = $(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --durations=40 --durations-min=10
test: setup ## every subject on a real broker, Spark and Delta; what CI runs, 30 to 45 minutes on two cores
	$(SUITE) -m "not faults and not nightly"

test-all: setup ## all tests but those of make faults: seeds and process-level runs too, about an hour
	PENSTOCK_TESTS_AS_PEOPLE_DO=1 $(SUITE) -m "not faults"

faults: setup ## the long fault tests: kill -9, SIGSTOP, full disks; PENSTOCK_FAULT_SEED=n replays one
	PENSTOCK_TESTS_AS_PEOPLE_DO=1 $(BIN)/pytest -v -m faults

SEEDS ?= 10000
sim: setup ## SEEDS=100000 runs of the split runtime in a simulated world, faults at every step
	@$(PY) -m tests.simulation --seeds $(SEEDS)

demo: setup ## a million skewed orders: Kafka to Delta, and what Spark's own watermark loses
	@$(PY) -m examples.demo

bench: setup ## throughput beside Spark's own Kafka source, Flink SQL and raw librdkafka; ARGS="--rows 200000 --rounds 1"
	@$(PY) -m benchmarks.source $(ARGS)

wheel: setup ## dist/penstock-*.whl, to install Penstock into an environment of your own
	@rm -rf build && $(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist .
	@rm -rf build && ls dist/penstock-*.whl

define NO_CARGO
error: cargo is not there, and penstock-native is built with it
Penstock reads Kafka without it too, with more CPU time a record.
install Rust 1.81 or newer from https://rustup.rs
endef
export NO_CARGO

native: setup ## dist/penstock_native-*.whl, installed: Kafka records without a Python object each (needs Rust)
	@command -v cargo >/dev/null || { echo "$$NO_CARGO" >&2; exit 2; }
	@rm -rf native/build dist/penstock_native-*.whl
	@$(PY) -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w dist ./native
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall dist/penstock_native-*.whl
	@ls dist/penstock_native-*.whl

native-check: # what `make lint` and `make test` are to Python, for the crate
	cd native && cargo fmt --check
	cd native && cargo clippy --all-targets --locked --offline -- -D warnings
	cd native && cargo test --quiet --locked --offline

sbom: setup ## dist/penstock.cdx.json, what Penstock is made of: CycloneDX, from the lock file and the jars
	@$(PY) -m tests.sbom dist/penstock.cdx.json

lock: setup ## resolve the dependencies again (needs uv)
	uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --extra dev --upgrade pyproject.toml -o requirements.lock

clean: ## remove what was made here: .venv, caches, run state
	rm -rf $(VENV) .penstock build dist native/build native/target native/python/*.egg-info *.egg-info spark-warehouse metastore_db derby.log
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
