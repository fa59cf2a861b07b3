SHELL := /bin/bash
.DEFAULT_GOAL := help
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
STEP := scripts/step
WORKERS ?= 3
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist loadgroup --durations 25 --durations-min 5

# An environment that was copied or moved points at another tree: make it again.
ifneq ($(shell cat $(STAMP) 2>/dev/null),$(CURDIR))
.PHONY: $(STAMP)
endif

.PHONY: help setup java demo test verify sim fuzz storms lint format types imports bench docs pins clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything in it, and look for Java
	@scripts/check_java || echo "==> everything but Spark works without Java"

$(STAMP): pyproject.toml bench/pyproject.toml constraints.txt
	@if [ "$$(cat $@ 2>/dev/null)" != '$(CURDIR)' ]; then \
		python=$$(scripts/find_python) && $(STEP) "making $(VENV)" "$$python" -m venv --clear $(VENV); \
	fi
	@$(STEP) "updating pip" $(BIN)/python -m pip install -c constraints.txt --upgrade pip
	@$(STEP) "installing holons and its dependencies (Spark alone is 450 MB)" \
		$(BIN)/python -m pip install -c constraints.txt --build-constraint constraints.txt --editable '.[cli,spark,report,dev]' --editable ./bench
	@printf '%s\n' '$(CURDIR)' >$@

java:
	@scripts/check_java

demo: $(STAMP) java ## run the main job end to end
	@$(BIN)/holons demo

test: lint types imports java ## lint, types, import contracts, tests and doctests
	@echo "==> tests"
	@$(PYTEST)

verify: lint types imports java ## as test, but long: more examples, slow tests too
	@echo "==> tests, the long way"
	@HOLONS_VERIFY=1 HYPOTHESIS_PROFILE=thorough $(PYTEST)

sim: $(STAMP) ## nodes under faults in virtual time: a swarm of 2,000 seeds, and as many of each scenario
	@$(BIN)/holons sim --swarm --coverage --seeds 0:2000 --workers $(WORKERS)
	@$(BIN)/holons sim --seeds 0:2000 --workers $(WORKERS)

fuzz: $(STAMP) ## 200,000 wrong messages and files for everything that reads any
	@HOLONS_VERIFY=1 HOLONS_FUZZ_CASES=200000 $(PYTEST) tests/fuzz tests/unit/streams/test_segment_fuzz.py

storms: $(STAMP) ## real processes under every kind of fault: five storms of ten minutes
	@$(BIN)/python -m tests.storms.storm --seeds 5 --minutes 10

lint: $(STAMP) ## ruff: rules and formatting
	@$(STEP) "lint" $(BIN)/ruff check .
	@$(STEP) "format" $(BIN)/ruff format --check --diff .

format: $(STAMP) ## let ruff format the code and fix what it can
	@$(BIN)/ruff check --fix-only -q .
	@$(BIN)/ruff format .

types: $(STAMP) ## mypy, strictly
	@$(STEP) "types" $(BIN)/mypy

imports: $(STAMP) ## the rooms: who may import whom
	@$(STEP) "imports" $(BIN)/lint-imports

bench: setup ## how fast the kernels fold
	@$(BIN)/holons bench kernels

docs: $(STAMP) java ## run the code in README.md and docs/
	@$(BIN)/pytest -q tests/docs

pins: ## resolve all dependencies anew and write constraints.txt
	@$(STEP) "resolving" scripts/pin_constraints

clean: ## remove .venv, caches and what builds and runs left behind
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache metastore_db spark-warehouse
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
