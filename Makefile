# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit browser test-slow bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The demo needs the package alone; what tests need is a stamp of its own in the same environment.
# The interpreter is no ordinary prerequisite: it is a link, as old as what it points to.
$(VENV)/.installed-cli: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[cli]"
	@touch $@

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[cli,vine,test]"
	@touch $@ $(VENV)/.installed-cli

demo: $(VENV)/.installed-cli  ## explain scikit-learn's diabetes data: the table and a report
	$(BIN)/python -m dfi.datasets.demo

test: lint types unit  ## lint, types and all fast tests

lint: $(VENV)/.installed  ## ruff, both linter and formatter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed  ## mypy --strict on src
	$(BIN)/mypy

unit: $(VENV)/.installed browser  ## the fast tests
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

browser:  ## Debian's chromium for the report's tests, where apt can install it
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium and chromium-driver for the browser tests of the report"; \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null \
		|| echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "no chromium, and no right to install it: the browser tests will be skipped"; fi

test-slow: $(VENV)/.installed  ## coverage and size by simulation (hours)
	$(BIN)/python -m pytest -n $(JOBS) -m slow --timeout 14400

bench: $(VENV)/.installed  ## CPU-time ratios against peers; writes docs/benchmarks.md
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python benchmarks/bench.py

clean:  ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
