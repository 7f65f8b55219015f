# Two commands from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
DATA := $(wildcard ../shared/data)

.PHONY: demo test lint bench clean help

help:            ## list the commands
	@grep -E '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo    ## install the package and run the demonstration (no network needed once installed)
	$(BIN)/proxyprox demo --output runs/demo

test: $(VENV)/.dev     ## install what the tests need, lint, type-check and run them
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" \
	  $(BIN)/python -m pytest -q -n 2 --dist loadgroup

bench: $(VENV)/.dev    ## measure speed; prints a table and writes benchmarks/results/
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python benchmarks/run.py

lint: $(VENV)/.dev     ## format and lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:                 ## remove the virtual environment and everything generated
	rm -rf $(VENV) runs benchmarks/results .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "proxyprox needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); .ci/install-venv && $(PYTHON) -m venv $(VENV); }

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[report]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@ $(VENV)/.demo
