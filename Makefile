# The programs of a checkout. `make help` lists them; README explains the first two.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
BUS ?= memory
PYTEST_ARGS ?=
# Most tests wait for processes and servers; two at once keep two cores busy. A file stays in one process.
PYTEST_PARALLEL ?= -n 2 --dist loadfile

# A checkout without its history (an archive, a shallow clone) has no version of its own.
ifneq ($(shell git rev-parse --is-shallow-repository 2>/dev/null),false)
export PBR_VERSION ?= 0.1.0
endif

SHELL_SCRIPTS = $(wildcard devstack/*.sh) devstack/settings $(wildcard tools/*.sh) .ci/run
GENERATOR_CONFIG := etc/nova-sched/nova-sched-config-generator.conf
SAMPLE_CONFIG := etc/nova-sched/nova-sched.conf.sample

.DEFAULT_GOAL := help
.PHONY: help demo test servers lint format docs genconfig faults bench bench-quick clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One stamp per requirements file: the environment is touched again only when one of them changes.
$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "$(PYTHON) is older than 3.11; name another: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) cannot make environments; install python3-venv" >&2; \
	    [ "$$(id -u)" -eq 0 ] && command -v apt-get >/dev/null || exit 1; \
	    apt-get update -q && apt-get install -y -q --no-install-recommends python3-venv; }
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/run: requirements.txt setup.cfg setup.py pyproject.toml | $(STAMPS)/venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMPS)/test: test-requirements.txt $(STAMPS)/run
	$(BIN)/pip install --quiet --disable-pip-version-check -r test-requirements.txt
	@touch $@

$(STAMPS)/docs: doc/requirements.txt $(STAMPS)/run
	$(BIN)/pip install --quiet --disable-pip-version-check -r doc/requirements.txt
	@touch $@

demo: $(STAMPS)/run ## the main job on embedded parts; BUS=rabbitmq: separate processes over a private broker
	@[ "$(BUS)" != rabbitmq ] || tools/install-servers.sh
	$(BIN)/python -m nova_sched.cmd.demo --bus $(BUS)

servers: ## install the servers the tests start privately
	tools/install-servers.sh

test: $(STAMPS)/test servers ## every test, on private servers
	$(BIN)/python -m pytest tests $(PYTEST_PARALLEL) $(PYTEST_ARGS)

lint: $(STAMPS)/test ## ruff, mypy, import contracts, bandit, sample file, shell scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --severity-level medium --recursive nova_sched --configfile pyproject.toml
	@$(BIN)/oslo-config-generator --config-file $(GENERATOR_CONFIG) --output-file $(STAMPS)/sample.conf
	@diff -u $(SAMPLE_CONFIG) $(STAMPS)/sample.conf || { echo "$(SAMPLE_CONFIG) is out of date: make genconfig" >&2; exit 1; }
	@command -v shellcheck >/dev/null || tools/install-servers.sh
	shellcheck $(SHELL_SCRIPTS)

format: $(STAMPS)/test ## let ruff lay out the code and sort imports
	$(BIN)/ruff check --fix-only --select I .
	$(BIN)/ruff format .

docs: $(STAMPS)/docs ## HTML pages and man pages in doc/build
	$(BIN)/sphinx-build -W --keep-going -b html doc/source doc/build/html
	$(BIN)/sphinx-build -W --keep-going -b man doc/source doc/build/man

genconfig: $(STAMPS)/run ## write the sample configuration anew
	$(BIN)/oslo-config-generator --config-file $(GENERATOR_CONFIG) --output-file $(SAMPLE_CONFIG)

faults: $(STAMPS)/test servers ## the long form of the fault programme (hours)
	NOVA_SCHED_FAULTS=long $(BIN)/python -m pytest tests/faults --timeout 0 $(PYTEST_ARGS)

bench: $(STAMPS)/test servers ## every workload against its goals; results in benchmarks/out
	$(BIN)/python -m benchmarks

bench-quick: $(STAMPS)/test servers ## a short form of it, under three minutes
	$(BIN)/python -m benchmarks --quick

clean: ## remove what the targets made, the environment included
	rm -rf $(VENV) .tox build dist doc/build releasenotes/build benchmarks/out tests/out *.egg-info .eggs AUTHORS ChangeLog
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find nova_sched tests -name __pycache__ -prune -exec rm -rf {} +
