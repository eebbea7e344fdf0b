# Two commands for a new user: `make demo` and `make test`. Each makes its own .venv and installs what it needs.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first of these that is Python 3.11 or newer is used; name another with `make PYTHON=...`.
PYTHON_CANDIDATES := python3 python3.14 python3.13 python3.12 python3.11
PYTHON ?= $(shell for p in $(PYTHON_CANDIDATES); do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null && echo "$$p" && break; done)

VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 4

.PHONY: help demo test lint types bench soak wheel-test clean

help:
	@echo "make demo        broker an example grid on the embedded database"
	@echo "make test        run the tests"
	@echo "make lint        ruff check and ruff format --check"
	@echo "make types       mypy --strict"
	@echo "make bench       run the benchmarks"
	@echo "make soak        run the long tests"
	@echo "make wheel-test  build the wheel and run the demo from it in an empty directory"
	@echo "make clean       remove $(VENV) and what was built"

demo: $(VENV)/.installed-embedded
	$(BIN)/broker demo

test: $(VENV)/.installed-test
	$(PYTEST) -n $(WORKERS) -m "not soak"

soak: $(VENV)/.installed-test
	$(PYTEST) -m soak

bench: $(VENV)/.installed-test
	@for file in benchmarks/bench_*.py; do echo "$$file"; $(BIN)/python "$$file" || exit 1; done

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy --strict broker agents

wheel-test: $(VENV)/.installed-test
	.ci/wheel-test $(BIN)/python

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .hypothesis

# The stamps depend on pyproject.toml, so a change of the dependencies installs again and nothing else does.
$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[$*]"
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "error: Python 3.11 to 3.14 is needed; none of: $(PYTHON_CANDIDATES); install one, or name it: make PYTHON=/path/to/python" >&2; \
		exit 1; \
	fi
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' || { \
		echo "error: $(PYTHON) is not Python 3.11 to 3.14 (`"$(PYTHON)" --version 2>&1`); name another: make PYTHON=/path/to/python" >&2; \
		exit 1; }
	"$(PYTHON)" -m venv $(VENV)
