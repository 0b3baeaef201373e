# Everything runs inside .venv. `make install` fills it, and does so again only when pyproject.toml has changed.

VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help install wheel java demo demo-kafka check test test-all test-versions fuzz fuzz-steps bench bench-spark soak prepared kernels lint format hooks clean

help: ## show this list
	@echo "Midstream: continuous multi-way windowed joins"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

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
	@echo "==> installing Midstream and its tools into $(VENV); the first time Spark, some 400 MB, comes with them"
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

wheel: $(STAMP) ## build dist/midstream-*.whl, to install into another project
	@rm -f dist/midstream-*.whl
	@$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .
	@ls dist/midstream-*.whl

# Spark runs on Java. It is looked for where Spark looks, before the long work; what to do is said in one line.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1); \
	if test "$${version:-0}" -lt 17; then \
	    if command -v apt-get >/dev/null 2>&1; then how="sudo apt-get install openjdk-17-jre-headless"; \
	    elif command -v dnf >/dev/null 2>&1; then how="sudo dnf install java-17-openjdk-headless"; \
	    elif command -v brew >/dev/null 2>&1; then how="brew install openjdk@17, then export JAVA_HOME=\$$(brew --prefix openjdk@17)"; \
	    else how="from https://adoptium.net, then set JAVA_HOME"; fi; \
	    echo "Spark needs Java 17 or newer, but '$$java' is $${version:-missing}. Install it: $$how" >&2; exit 1; \
	fi

demo: java $(STAMP) ## install, then join four streams on Spark, change the plan, compare with Spark SQL
	@$(BIN)/midstream demo

demo-kafka: java $(STAMP) ## the same between Kafka topics, with a broker that Maven fetches and the demo starts
	@$(BIN)/midstream demo --kafka

check: prepared ## while working: style, types, import order, and the tests of the engine and of what is below it
	@echo "==> tests of the engine and of what is below it"
	@$(PYTEST) -n $(JOBS) -m 'not slow' $(addprefix tests/,kernels state plan cql expressions engine)

test: java prepared ## install, then style, types, import order and all quick tests
	@echo "==> tests"
	@$(PYTEST) -n $(JOBS) --dist loadgroup -m 'not slow'

test-all: java prepared ## the same with the slow tests
	@echo "==> all tests"
	@$(PYTEST) -n $(JOBS) --dist loadgroup

test-versions: java $(STAMP) ## joins on Spark with PySpark 4.1, 4.2 and 4.3, each in its environment; VERSIONS=4.1
	@$(BIN)/python -m tests.spark.versions $(VERSIONS)

fuzz: $(STAMP) ## random queries, plans and batches against the oracle
	@$(BIN)/python -m tests.oracle.fuzz

fuzz-steps: $(STAMP) ## the same for queries with DISTINCT, groups or TUMBLE windows
	@$(BIN)/python -m tests.temporal.fuzz

bench: $(STAMP) ## how fast the engine is on this machine
	@$(BIN)/midstream bench engine

bench-spark: java $(STAMP) ## how fast joins on Spark are on this machine
	@$(BIN)/midstream bench spark

soak: java $(STAMP) ## a join on Spark under migrations and kills; MINUTES=20
	@$(BIN)/midstream soak --minutes $(or $(MINUTES),20)

# Linters leave a processor idle, on which kernels are compiled that all tests need.
prepared: $(STAMP)
	@$(MAKE) --no-print-directory -j 2 lint kernels

kernels: $(STAMP)
	@$(BIN)/python -c "import midstream; midstream.get_ready()"

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

clean: ## take away .venv, those of test-versions, and everything that runs leave behind
	rm -rf $(VENV) .venv-pyspark-* build dist out .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find midstream tests -name __pycache__ -type d -prune -exec rm -rf {} +
