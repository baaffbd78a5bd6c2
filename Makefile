# `make help` lists everything. `make up` and `make test` do all their own set-up.
PYTHON ?= $(shell sh tools/find-python)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SPARK_STAMP := $(VENV)/.installed-spark
ARGS ?=

# The busiest modules as C (docs/adr/0010), where there is a C compiler: what brokers run, unless COMPILED=0. Tests are in the source, and start such brokers.
# A profile can name the functions of the source only.
COMPILED ?= $(if $(PROFILE),0)
COPY := $(if $(filter 0,$(COMPILED)),,"$$($(BIN)/python tools/compile.py)")
BUSY := $(if $(COPY),PYTHONPATH=$(COPY))
TESTED := $(if $(COPY),BARNABAS_COPY=$(COPY))
NEEDED := $(if $(COPY),compiled)

# Whatever the environment says: with their byte code kept, tests are collected in a third of the time, by every worker.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help up test quick unit-compiled collected peers check lint types unit sim fuzz compat chaos demo bench compiled generate lock clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

# Python >= 3.11, one virtual environment, exact versions with hashes.
$(STAMP): requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Barnabas needs Python 3.11 or newer; try make PYTHON=python3.12")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) ..."
	@sh tools/install requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q src/barnabas
	@touch $@

# Spark is 900 MB: only what runs it brings it in.
$(SPARK_STAMP): requirements-spark.lock $(STAMP)
	@echo "installing Spark into $(VENV) ..."
	@sh tools/install requirements-spark.lock
	@touch $@

up: $(STAMP) ## Start a broker on 127.0.0.1:9092 (ARGS="--listen ... --data-dir ...")
	@exec env $(BUSY) $(BIN)/barnabas up $(ARGS)

# Beside each other, since each keeps one core busy: the unit tests, and all that must be there before the others.
test: ## Run everything that CI runs
	@$(MAKE) --no-print-directory $(if $(filter output-sync,$(.FEATURES)),--output-sync=line) -j 2 $(if $(ARGS),,quick $(if $(COPY),unit-compiled)) check collected $(NEEDED)
	$(CACHED) $(TESTED) $(BIN)/pytest -n 6 --dist loadfile --max-worker-restart 0 $(or $(ARGS),--ignore tests/unit)

quick: $(STAMP)
	$(BIN)/pytest -q tests/unit

# What brokers run is the compiled copy: it must hold what the source holds. Where nothing could be compiled there is no copy.
unit-compiled: compiled
	@copy=$$($(BIN)/python tools/compile.py 2>/dev/null) && { [ -z "$$copy" ] || { \
	  export PYTHONPATH="$$copy" && $(BIN)/python -c 'from barnabas.broker import replicas as r; assert r.__file__.endswith(".so"), r.__file__' && \
	  $(BIN)/pytest -q -m "not source" tests/unit/broker tests/unit/core tests/unit/runtime tests/unit/storage; }; }

# What tests need from elsewhere; Spark's classes as the JVM maps them (each of the tests' Sparks starts with half the CPU); the tests' byte code.
CACHED := XDG_CACHE_HOME="$(CURDIR)/$(VENV)/cache"
collected: $(SPARK_STAMP) peers
	@$(CACHED) $(BIN)/python -m barnabas.pipelines.archive_training >/dev/null 2>&1 || true
	@$(BIN)/pytest --collect-only -q $(ARGS) >/dev/null || true

peers: $(STAMP)
	@sh tools/fetch-peers

check: lint types ## Formatting, lint, types, import contracts, dependencies that are known to be bad

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache

types: $(SPARK_STAMP)
	$(BIN)/mypy
	$(BIN)/python tools/audit_dependencies.py requirements.lock requirements-spark.lock

unit: $(STAMP) ## Only the quick tests: no Java, no other process
	$(BIN)/pytest tests/unit tests/property $(ARGS)

sim: $(STAMP) ## Simulate: SEED=123 replays one, SEEDS=0:1000 runs a range
	$(BIN)/python -m barnabas.sim $(if $(SEED),--seed $(SEED) --trace,--seeds $(or $(SEEDS),0:1000)) $(ARGS)

fuzz: $(STAMP) ## Fuzz every API and version, for SECONDS=600 a lone broker, then a member of a cluster
	$(BIN)/python tools/fuzz.py --seconds $(or $(SECONDS),600) $(ARGS)
	$(BIN)/python tools/fuzz.py --cluster --seconds $(or $(SECONDS),120) $(ARGS)

compat: $(SPARK_STAMP) peers $(NEEDED) ## Real clients against a real broker
	$(TESTED) $(BIN)/pytest tests/compat $(ARGS)

chaos: $(SPARK_STAMP) $(NEEDED) ## kill -9, full disks, hostile clients, broken clusters: CHAOS_ROUNDS=20, CHAOS_SEED=N again; ORACLE_SECONDS=3600
	CHAOS_ROUNDS=$(or $(CHAOS_ROUNDS),20) $(TESTED) $(BIN)/pytest tests/chaos tests/oracle tests/pipelines/test_pipeline_process.py tests/pipelines/templates/test_once.py tests/pipelines/templates/test_standalone.py -o log_cli=true -o log_cli_level=WARNING $(ARGS)

demo: $(SPARK_STAMP) $(NEEDED) ## A broker, generators and two pipelines, live, in two minutes: SECONDS=60
	@$(BUSY) $(BIN)/python tools/demo.py $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

bench: $(SPARK_STAMP) $(NEEDED) ## Against Apache Kafka, 10 minutes: FULL=1, ONLY=w4,w3, QUIET=30, PROFILE=1
	$(BUSY) $(BIN)/python -m bench $(if $(FULL),--full) $(if $(ONLY),--only $(ONLY)) $(if $(QUIET),--quiet $(QUIET)) $(if $(PROFILE),--profile) $(ARGS)

compiled: $(STAMP) ## Compile the busiest modules: brokers run them, unless COMPILED=0
	@$(BIN)/python tools/compile.py >/dev/null

generate: $(STAMP) ## Write the generated code and documentation again
	$(BIN)/python tools/generate_messages.py
	$(BIN)/python tools/generate_config_docs.py
	$(BIN)/python tools/generate_protocol_docs.py

COMPILE := $(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --allow-unsafe \
  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-header

lock: ## Resolve the dependencies again and write both locks
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet pip-tools
	$(COMPILE) $(foreach each,cli cluster security test dev,--extra $(each)) -o requirements.lock pyproject.toml
	echo uv | $(COMPILE) --no-annotate -o requirements-uv.lock -
	$(COMPILE) --extra spark --extra pipelines -c requirements.lock -o requirements-spark.lock pyproject.toml

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
