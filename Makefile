# Two commands from a fresh clone: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
DATA := $(wildcard ../shared/data)
# With these options a test that crashes its process fails alone: the worker is replaced.
# (Under `--dist loadgroup` such a crash hangs the suite or ends it.)
PYTEST := $(BIN)/python -m pytest -q -n 2 --dist worksteal --max-worker-restart 1000

# Tests of equal bits: they compare two runs on one machine, whatever its CPU.
EXACT := tests/checkpoint/test_resume.py tests/checkpoint/test_same_run.py tests/test_equivalences.py tests/torch/test_resume.py
# Of other CPUs; all but the first need AVX2.
KERNELS := Nehalem Haswell Zen
LOWEST := 'pytest>=8' 'pytest-xdist>=3.6' 'pytest-doctestplus>=1.4' 'hypothesis>=6.100' 'skops>=0.11' 'ppi-python>=0.2.3' 'expecttest>=0.1'
.PHONY: demo test test_dask test_integrations test_kernel test_kernels test_slow test_lowest scheduled build docs figure1 figure2 labels other_data arm lint format bench records clean help

help:            ## list the commands
	@grep -E '^[a-z0-9_]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(VENV)/.demo    ## install the package and run the demonstration (no network needed once installed)
	$(BIN)/proxyprox demo --output runs/demo

test: $(VENV)/.test    ## install what the tests need and run them
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(PYTEST) -m "not slow"

test_dask: $(VENV)/.dask   ## install Dask too, and run the tests of tables on it
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -q tests/dask src/proxyprox/dask

test_integrations: $(VENV)/.integrations   ## install MLflow and transformers too, and run the tests of their examples
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -q -rs tests/test_examples.py tests/torch/test_frameworks.py

test_kernel: $(VENV)/.test   ## doctests and tests of equal bits on another CPU's kernels, whose last digits differ
	OPENBLAS_CORETYPE=Nehalem OMP_NUM_THREADS=1 $(PYTEST) src experiments $(EXACT)

scheduled: test_slow test_kernels test_lowest docs build   ## what takes hours, as .github/workflows/scheduled.yml runs it every week

test_slow: $(VENV)/.dask   ## statistics of theorems, random kills, every method with every solver
	OMP_NUM_THREADS=1 PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(PYTEST) -m slow

test_kernels: $(VENV)/.test   ## as test_kernel, with several CPUs' kernels
	for kernel in $(KERNELS); do OPENBLAS_CORETYPE=$$kernel OMP_NUM_THREADS=1 $(PYTEST) src experiments $(EXACT) || exit 1; done

test_lowest: $(BIN)/python   ## the tests with the lowest versions that pyproject.toml names, without torch
	rm -rf $(VENV)/lowest && $(BIN)/python -m venv $(VENV)/lowest && $(PIP) install uv
	$(BIN)/uv pip install -q --python $(VENV)/lowest/bin/python --resolution lowest-direct -e '.[app]' $(LOWEST)
	OMP_NUM_THREADS=1 $(VENV)/lowest/bin/python -m pytest -q -n 2 --dist worksteal --max-worker-restart 1000 -m "not slow"

build: $(BIN)/python   ## wheel and sdist into dist/, checked
	rm -rf dist && $(PIP) install build twine && $(BIN)/python -m build -q
	$(BIN)/python -m twine check --strict dist/*
	@ls -l dist

figure1: $(VENV)/.experiments  ## reproduce Figure 1 (mushrooms): seven minutes on two cores; OPTIONS="--seeds 3"
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python -m experiments.mushrooms $(OPTIONS)

figure2: $(VENV)/.torch        ## reproduce Figure 2 (CIFAR-10): on a GPU; OPTIONS=--tiny for a minute on a CPU
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python -m experiments.cifar10 $(OPTIONS)

labels: $(VENV)/.experiments   ## our estimators against scikit-learn's on the same labels: five minutes
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python -m experiments.labels $(OPTIONS)

other_data: $(VENV)/.experiments  ## little right data and much other data, rivals tuned alike: ten minutes
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python -m experiments.other_data $(OPTIONS)

docs: $(VENV)/.docs    ## build the site into docs/_build/html, run its examples, check its links
	rm -rf docs/api docs/_build   # pages of names that have gone would stay
	$(BIN)/python docs/pictures.py
	$(BIN)/python -m sphinx -W --keep-going -q -j 2 -b html docs docs/_build/html
	$(BIN)/python docs/check.py docs/_build/html

arm: $(VENV)/.test             ## few rollouts of a two-link arm beside tuned rivals: five minutes of processor time
	OMP_NUM_THREADS=1 $(BIN)/python -m experiments.arm $(OPTIONS)

lint: $(VENV)/.lint    ## check style and types, changing nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/prose.py

format: $(VENV)/.lint  ## rewrite the code in the house's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.test   ## measure speed; prints a table and writes benchmarks/results/
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python benchmarks/run.py

records: $(VENV)/.test   ## records older than what they measure, tables without one; OPTIONS=--write makes the tables again
	PROXYPROX_DATA="$${PROXYPROX_DATA:-$(DATA)}" $(BIN)/python -m experiments.records $(OPTIONS)

clean:                 ## remove the virtual environment and everything generated
	rm -rf $(VENV) runs benchmarks/results docs/_build docs/api docs/auto_examples .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "proxyprox needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); .ci/install-venv && $(PYTHON) -m venv $(VENV); }

$(VENV)/.demo: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[app]'
	@touch $@

$(VENV)/.experiments: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[app]'
	@touch $@ $(VENV)/.demo

$(VENV)/.torch: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[app,torch]'
	@touch $@ $(VENV)/.demo $(VENV)/.experiments

$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[test]'
	@touch $@ $(VENV)/.demo $(VENV)/.experiments $(VENV)/.torch

$(VENV)/.dask: $(VENV)/.test
	$(PIP) install -c constraints.txt -e '.[test,dask]'
	@touch $@

$(VENV)/.integrations: $(VENV)/.test
	$(PIP) install -c constraints.txt -e '.[test,integrations]'
	@touch $@

$(VENV)/.docs: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[docs]'
	@touch $@ $(VENV)/.demo $(VENV)/.experiments $(VENV)/.torch

$(VENV)/.lint: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) install -c constraints.txt -e '.[app,lint]'
	@touch $@
