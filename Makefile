# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint types unit test-slow clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[cli,vine,test]"
	@touch $@

demo: $(VENV)/.installed  ## explain scikit-learn's diabetes data and print the table
	$(BIN)/python -m dfi.datasets.demo

test: lint types unit  ## lint, types and all fast tests

lint: $(VENV)/.installed  ## ruff, both linter and formatter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed  ## mypy --strict on src
	$(BIN)/mypy

unit: $(VENV)/.installed  ## the fast tests
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow"

test-slow: $(VENV)/.installed  ## coverage and size by simulation (hours)
	$(BIN)/python -m pytest -n $(JOBS) -m slow --timeout 14400

clean:  ## remove what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
