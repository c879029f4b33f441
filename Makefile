# Two commands need nothing prepared: `make demo` (the main job) and `make test` (every tier).
# Everything is installed into .venv from hashed requirement files; `make help` lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON      ?= python3
VENV        ?= .venv
BIN         := $(VENV)/bin
STAMP       := $(VENV)/.stamp-all
# The OpenMP threads of torch and vLLM; two are enough for the small verifier.
export OMP_NUM_THREADS ?= 2
# vLLM and huggingface_hub never look outside: tests and demo bring their own models.
export HF_HUB_OFFLINE ?= 1
export VLLM_NO_USAGE_STATS ?= 1

.PHONY: help setup demo test test-unit test-parity test-cluster test-chart test-serving lint format generate requirements bench-acceptance verifier clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(STAMP) ## the environment in .venv

$(STAMP): requirements/uv.txt requirements/all.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "mtp-operator needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Set PYTHON=/path/to/python3.11." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
# Compiled once here: where Python may not write bytecode, each of vLLM's processes would compile it all again.
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --require-hashes --compile-bytecode -r requirements/all.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --editable .
	$(BIN)/python -m mtp_trainer.engine.cpu_metadata
	touch $@

demo: setup ## the main job: fine-tune the quickstart verifier's head, serve it, show what was accepted
	$(BIN)/python tools/run_demo.py --output demo

test: lint test-unit test-parity test-cluster test-chart test-serving ## every tier

test-unit: setup ## pure functions, local processes, the trainer on tiny models
	$(BIN)/python -m pytest tests/unit

test-parity: setup ## the head and the recursion against transformers' and vLLM's own modules
	$(BIN)/python -m pytest tests/parity

test-cluster: setup ## the operator against a real kube-apiserver (built once into a cache)
	$(BIN)/python tools/cluster/build.py kubernetes
	$(BIN)/python -m pytest tests/cluster

test-chart: setup ## the Helm chart with a real helm, on a real kube-apiserver
	$(BIN)/python tools/cluster/build.py kubernetes
	$(BIN)/python tools/cluster/build.py helm
	$(BIN)/python -m pytest tests/chart

test-serving: setup ## one real fine-tune, measured in a real vLLM
	$(BIN)/python -m pytest tests/serving

lint: setup ## ruff, mypy --strict, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m mtp_operator.api.generate --check

format: setup ## mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: setup ## write crds/, the chart's copies and docs/api.md from the models
	$(BIN)/python -m mtp_operator.api.generate

bench-acceptance: setup ## recipes against each other, in vLLM: acceptance by position, and the ratio of gains
	$(BIN)/python benchmarks/acceptance.py --out build/bench-acceptance

verifier: setup ## make examples/quickstart/verifier again (about 40 minutes)
	$(BIN)/python tools/make_verifier.py --out examples/quickstart --seed 7 --compile

COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate \
          --custom-compile-command "make requirements"

requirements: setup ## pin again what pyproject.toml asks for
	$(COMPILE) pyproject.toml --extra operator -o requirements/operator.txt
	$(COMPILE) pyproject.toml --extra trainer -o requirements/trainer.txt
	$(COMPILE) pyproject.toml --all-extras --override requirements/overrides.txt -o requirements/all.txt
	echo 'uv==0.13.8' | $(COMPILE) - -o requirements/uv.txt

clean: ## remove what the targets made
	rm -rf $(VENV) demo build .mtp-local
