# Every target sets up what it needs in .venv; Python 3.11+ and make are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CLI := $(BIN)/datumctl-compute
PYTEST := $(BIN)/python -m pytest
# Build requirements are pinned too: pip hands this file to the isolated build.
# As a URL, since pip takes a space in a path for the end of it.
SPACE := $(subst ,, )
export PIP_CONSTRAINT := file://$(subst $(SPACE),%20,$(CURDIR))/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Where images of containers set it, every process of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help up down test test-long test-cluster test-karmada test-containers test-clients test-browser test-campaign check bench generate record-rights plugin image artifact clean

help: ## Show what each target does
	@echo "Usage: make TARGET"
	@echo
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.product: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(VENV) ..." >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.development: $(VENV)/.product
	@echo "Adding the development tools ..." >&2
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.development
	@echo "Adding what the benchmarks compare with ..." >&2
	@$(BIN)/python -m pip install --quiet --editable '.[dev,bench]'
	@touch $@

$(VENV)/.clients: $(VENV)/.development
	@echo "Adding the clients of Kubernetes in Python ..." >&2
	@$(BIN)/python -m pip install --quiet --editable '.[dev,clients]'
	@touch $@

up: $(VENV)/.product ## Start the local platform with three cities and deploy a sample
	@$(CLI) local up --detach --cities DFW,IAD,LHR --sample
	@echo >&2
	@echo "Try:  $(CLI) instances" >&2
	@$(CLI) local status | grep -q '^Runtime *simulated' || echo "      $(CLI) open hello" >&2
	@echo "      $(CLI) scale hello --min 3" >&2
	@echo "      kubectl --kubeconfig $${XDG_STATE_HOME:-~/.local/state}/datum-compute/kubeconfig get workloads,instances" >&2
	@echo "      make down" >&2

down: $(VENV)/.product ## Stop the local platform; its state stays
	@$(CLI) local down

test: $(VENV)/.development ## Run the tests (a few minutes)
	$(PYTEST) -n auto -m "not long and not cluster and not containers and not clients" --ignore=tests/cluster --ignore=tests/containers --ignore=tests/clients --ignore=tests/browser $(ARGS)

test-long: $(VENV)/.development ## Run the simulations and whole-process tests that take longer
	$(PYTEST) -n auto -m "long and not campaign" --ignore=tests/cluster --ignore=tests/containers --ignore=tests/clients --ignore=tests/browser --timeout=900 $(ARGS)

test-cluster: $(VENV)/.development ## Run on real API servers, Karmada and kubelets, built by Go
	$(PYTEST) -m "cluster and not campaign" --timeout=1800 tests/cluster $(ARGS)

test-karmada: $(VENV)/.development ## Run a federation on a real Karmada with two cells, built by Go
	$(PYTEST) -m "cluster and not campaign" --timeout=1800 -p no:randomly tests/cluster/karmada $(ARGS)

test-containers: $(VENV)/.development ## Run instances as containers: ENGINE=podman (default) or docker
	$(PYTEST) -n 3 -m "containers and not campaign" --timeout=300 tests/containers --engine=$(or $(ENGINE),podman) $(ARGS)

test-clients: $(VENV)/.clients ## Run clients of Kubernetes, in Python and in Go, on the embedded server
	$(PYTEST) -m "clients and not campaign" --timeout=1800 tests/clients $(ARGS)

test-browser: $(VENV)/.development ## Run the console in Chromium; screenshots go to build/screenshots
	$(PYTEST) -m "browser and not campaign" --timeout=600 tests/browser $(ARGS)

test-campaign: $(VENV)/.clients ## Run what takes hours: all seeds of the simulation, a month of sleep, containers on podman and docker with kills, faults and scale on real Karmada
	$(PYTEST) -n auto -m "long and campaign" --timeout=3600 tests/simulation tests/federation $(ARGS)
	for engine in podman docker; do \
	  $(PYTEST) -m containers --timeout=600 -n 3 tests/containers --ignore=tests/containers/test_kills.py --engine=$$engine $(ARGS) && \
	  $(PYTEST) -m containers --timeout=3600 -s tests/containers/test_kills.py --engine=$$engine $(ARGS) || exit 1; \
	done
	$(PYTEST) -m "cluster and campaign" --timeout=3600 tests/cluster $(ARGS)
	$(PYTEST) -m "browser and campaign" --timeout=1800 tests/browser $(ARGS)
	$(PYTEST) -m "clients and campaign" --timeout=1800 tests/clients $(ARGS)

check: $(VENV)/.development ## Lint, format, types, layers, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/generate.py --check

bench: $(VENV)/.bench ## Measure against the budgets; ONLY=1,9 selects some
	$(BIN)/python -m bench $(if $(ONLY),--only $(ONLY))

generate: $(VENV)/.development ## Write the generated files: CRDs, roles, references
	$(BIN)/python scripts/generate.py

record-rights: $(VENV)/.development ## Record which rights each process needs, then write the roles
	$(BIN)/python scripts/record_rights.py
	$(BIN)/python scripts/generate.py

plugin: $(VENV)/.product ## Build the single-file datumctl plugin into dist/
	$(BIN)/python scripts/build_plugin.py

image: $(VENV)/.product ## Build the manager's image and its SBOM into dist/ (Debian with buildah)
	$(BIN)/python scripts/build_image.py

artifact: $(VENV)/.product ## Render the overlays into dist/, as files and as an OCI artifact
	$(BIN)/python scripts/build_artifact.py

clean: ## Remove the virtual environment and build results
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
