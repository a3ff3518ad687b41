# Two commands do everything: `make run` and `make test`. `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
OUT := out
# Threads of one process are in the way of the others, and what is compiled once need not be compiled again.
QUICK := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
PORT ?= 8377

.DEFAULT_GOAL := help
.PHONY: help run tour test torch lint docs bench prove clean

help:  ## List the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 10

run: $(VENV)/.base  ## Set up, then start Presage on this machine; it prints a first command for another terminal
	$(BIN)/presage up --port $(PORT)

tour: $(VENV)/.base  ## Set up, then see what becomes of a log: generate, read back, measure, draw, schedule, forecast
	@mkdir -p $(OUT)
	$(BIN)/presage trace generate lublin $(OUT)/workload.swf.gz --jobs 20000 --processors 256 --load 0.8 --seed 1 \
	  --set users=60 --set estimate=modal
	$(BIN)/presage trace convert $(OUT)/workload.swf.gz $(OUT)/workload.parquet
	$(BIN)/presage trace stats $(OUT)/workload.parquet
	$(BIN)/presage trace plot $(OUT)/workload.parquet $(OUT)/workload.png
	$(BIN)/presage simulate $(OUT)/workload.parquet --policy sjf+easy --out $(OUT)/schedule.parquet --gantt $(OUT)/schedule.png
	$(BIN)/presage model forecast $(OUT)/schedule.parquet --now 20d --json > $(OUT)/forecast.json
	@echo "Next: $(BIN)/presage --help"

test: $(VENV)/.dev lint  ## Set up, then lint, type-check and run all tests
	$(QUICK) $(BIN)/python -m pytest -n 3 --dist loadfile  # one more than cores: many tests wait for clusters and processes

torch: $(VENV)/.torch  ## Add torch and what stands on it, for the tests of training and of estimates

lint: $(VENV)/.dev  ## Check format, style, types and the order of the rooms
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

docs: $(VENV)/.dev  ## Build the documentation into docs/_build
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build
	@echo "Open docs/_build/index.html"

bench: $(VENV)/.dev  ## Run the benchmarks; each prints one JSON object
	$(BIN)/python benchmarks/trace_read.py
	$(BIN)/python benchmarks/simulate.py

prove: $(VENV)/.dev  ## Run the long experiments as resumable cells; results go to docs/results/data
	$(BIN)/python benchmarks/prove.py

clean:  ## Remove everything that the other commands made
	rm -rf $(VENV) $(OUT) presage-demo docs/_build build dist .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Presage needs Python 3.11 or newer; name one with: make PYTHON=python3.12 …"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing. Install it with: sudo apt-get install -y python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[plot,simulate,forecast,serve]'
	@touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(PIP) --editable '.[dev,rl,private,onnx,hf,lightning,keras]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.base
