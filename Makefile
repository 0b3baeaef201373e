# Everything runs inside .venv. `make install` fills it, and does so again only when pyproject.toml has changed.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help install demo test test-all fuzz bench lint format hooks clean

help: ## show this list
	@echo "Midstream: continuous multi-way windowed joins"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

install: $(STAMP) ## make .venv with everything in it

$(STAMP): pyproject.toml
	@set -e; python=; \
	if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
	        if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; then python=$$candidate; break; fi; \
	    done; \
	    test -n "$$python" || { echo "Midstream needs Python 3.10 or newer: install it, for example as the package python3, and try again." >&2; exit 1; }; \
	    echo "==> new environment $(VENV) with $$($$python --version)"; \
	    "$$python" -m venv --clear $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	        echo "$$python cannot make virtual environments: install its venv module, for example as the package python3-venv, and try again." >&2; exit 1; }; \
	fi
	@echo "==> installing Midstream and its tools into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## install, then join four live streams and check the result
	@$(BIN)/midstream demo

test: lint ## install, then style, types, import order and all quick tests
	@echo "==> tests"
	@$(PYTEST) -n $(JOBS) -m 'not slow'

test-all: lint ## the same with the slow tests
	@echo "==> all tests"
	@$(PYTEST) -n $(JOBS)

fuzz: $(STAMP) ## random queries, plans and batches against the oracle
	@$(BIN)/python -m tests.oracle.fuzz

bench: $(STAMP) ## how fast the engine is on this machine
	@$(BIN)/midstream bench engine

lint: $(STAMP) ## style, types and import order
	@echo "==> style"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "==> types"
	@$(BIN)/mypy
	@echo "==> import order"
	@$(BIN)/lint-imports --no-logo

format: $(STAMP) ## bring the code into its standard form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

hooks: $(STAMP) ## run the linters before every commit
	@$(BIN)/pre-commit install

clean: ## take away .venv and everything that runs leave behind
	rm -rf $(VENV) build dist out .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find midstream tests -name __pycache__ -type d -prune -exec rm -rf {} +
