# Everything a newcomer needs: `make demo` and `make test`. Both set up `.venv` first; neither needs root.
PYTHON ?= python3
BIN := .venv/bin
ENGINES := $(BIN)/gearshift engine
TESTS := $(BIN)/pytest --numprocesses auto --maxprocesses 4

.DEFAULT_GOAL := help
.PHONY: help setup engines demo test check unit bench lock clean

help: ## Say what there is
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: .venv/ready ## Make .venv with Gearshift and its tools

.venv/ready: requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Gearshift needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

engines: setup ## Get the engines that the tests run on: llama-server, and vLLM for the CPU
	$(ENGINES) install llama.cpp --cpu
	$(ENGINES) install vllm --cpu

demo: setup ## Swap between real variants of a small real model; KEEP=1 leaves the server running
	$(BIN)/gearshift demo $(if $(KEEP),--keep)

check: setup ## Lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --num-workers auto
	$(BIN)/lint-imports

unit: setup ## Every test that needs no real engine
	$(TESTS) -m "not real"

test: check engines ## Everything: checks, then all tests, on real engines too
	$(TESTS)

bench: setup ## What Gearshift adds, measured against a direct connection in the same run
	$(BIN)/python -m benchmarks

lock: setup ## Pin every dependency anew
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-header --generate-hashes --upgrade \
	  --group dev pyproject.toml -o requirements.lock

clean: ## Remove what setup made; engines and models stay
	rm -rf .venv
