# Everything a user or a contributor runs. `make` alone lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODEL ?=
BENCH ?=
MINUTES ?= 20

.DEFAULT_GOAL := help
.PHONY: help install demo serve test test-fast test-slow fuzz faults soak bench bench-short image-check lint types tests format docs proto proto-check lock release perf-analyzer clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The stamp makes the environment new when the lock file changes. The lock file is whole, so nothing else is resolved:
# tensorflow-text asks for a second build of TensorFlow, which must not come.
$(VENV)/.installed: requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@touch $@

install: $(VENV)/.installed ## Make .venv with the server and everything for development

demo: install ## Train a small model on real pictures, serve it, call every signature
	$(BIN)/python -m clients.demo

serve: install ## Serve a model: make serve MODEL=path
	@test -n "$(MODEL)" || { echo "say which model: make serve MODEL=path" >&2; exit 2; }
	$(BIN)/signet serve "$(MODEL)"

test: lint types tests ## Check everything: lint, types, tests

lint: install ## Check style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install ## Check types
	$(BIN)/mypy

tests: install ## Run the tests; what this machine lacks is skipped and named
	$(BIN)/pytest -m "not slow" --numprocesses 2 --dist loadgroup

test-fast: install ## Run the tests that need no server process
	$(BIN)/pytest -m "not end_to_end and not slow"

test-slow: install ## Run the long ones: a million tasks, 20,000 requests, memory over many loads
	$(BIN)/pytest -m slow

fuzz: install ## Send 100,000 odd requests, other ones each time, to a server (10 minutes)
	$(BIN)/pytest -m slow tests/end_to_end/test_fuzz.py

faults: install ## Break what can break around a server, and show what was promised and seen (10 minutes; Debian, root)
	@ls /usr/lib/*/faketime >/dev/null 2>&1 || { apt-get update -qq && apt-get install -y -qq libfaketime >/dev/null; }
	$(BIN)/pytest -m "slow or not slow" tests/end_to_end/faults

soak: install ## Serve a load whose every answer is known, for MINUTES (20), and see that nothing drifts
	$(BIN)/python -m tests.end_to_end.soak --minutes $(MINUTES)

bench: install perf-analyzer ## Measure beside Triton (PEERS=its set-up) and beside the bare model (more than an hour)
	$(BIN)/python -m clients.benchmarks $(BENCH)

bench-short: install perf-analyzer ## The same, under 3 minutes
	$(BIN)/python -m clients.benchmarks --short $(BENCH)

image-check: install ## Build the container image without an engine and try it (minutes; Debian, root)
	@command -v debootstrap >/dev/null || { apt-get update -qq && apt-get install -y -qq debootstrap >/dev/null; }
	$(BIN)/python -m tools.image_check

format: install ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: install ## Build the documentation, build/docs/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

proto: install ## Make the stubs from protos/*.proto
	$(BIN)/python tools/generate_protos.py

proto-check: install ## Check that the stubs are those of protos/*.proto
	$(BIN)/python tools/generate_protos.py --check

lock: install ## Resolve the dependencies anew into requirements/
	tools/lock.sh $(BIN)/uv

release: install ## Build dist/, install the wheel in a fresh environment, run the demo from it; publishes nothing
	tools/release.sh $(BIN)/python

perf-analyzer: ## Install the stock perf_analyzer into .venv-perf, for tests and benchmark (Debian, root)
	tools/install_perf_analyzer.sh

clean: ## Remove what was made here
	rm -rf $(VENV) .venv-perf .mypy_cache .ruff_cache .pytest_cache .hypothesis dist build
