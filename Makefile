# Two commands on a fresh machine: make demo, make test. Everything lands in .venv and var.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -qq install
# Many tests wait for processes that were killed or for a deadline; two cores are busy with three.
WORKERS ?= 3
SOAK_S ?= 3600

.DEFAULT_GOAL := help
.PHONY: help demo serve test test-slow watch format vendor smoke-gemini smoke-model upgrade-test soak fuzz transcript clients containers bench profile house screenshots lint stop clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

demo: .venv/runtime  ## fill a demo store with the shipped documents and ask three questions
	@$(BIN)/python manage.py rag_demo

serve: .venv/runtime  ## web server on http://127.0.0.1:8000 and a queue worker, until Ctrl+C
	@$(BIN)/python manage.py rag_serve

test: .venv/tools  ## the suite, but for what test-slow runs
	@$(BIN)/python -m pytest -rfEs -n $(WORKERS) --dist worksteal -m "not slow"

test-slow: .venv/tools  ## tests that kill servers, drive a browser or load the models of extras
	@$(BIN)/python -m pytest -rfEs -n $(WORKERS) --dist worksteal -m slow

watch: .venv/tools  ## after each saved file the tests that it changes; the first call runs all of them
	@TESTMON_DATAFILE=$${CITABLE_VAR:-var}/testmon $(BIN)/watchfiles --filter python \
	  '$(BIN)/python -m pytest -x --testmon' project rag agents tests

format: .venv/tools  ## sort imports, mend what ruff can, lay out the lines
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

vendor:  ## bundle the libraries of the flow editor (CodeMirror, React Flow, yaml) anew; needs Node.js
	@cd vendor && npm ci --silent && npm run --silent build

smoke-gemini: .venv/tools  ## ask the real Gemini, if GEMINI_API_KEY is set
	@$(BIN)/python -m tests.smoke_gemini

smoke-model: .venv/runtime  ## ask the configured chat model 60 questions about the demo's documents
	@$(BIN)/python manage.py rag_smoke_model

upgrade-test: .venv/tools  ## data of the oldest release in today's code; backup, restore, point in time
	@$(BIN)/python -m tests.upgrades.upgrade

soak: .venv/tools  ## an hour of work, kills and full disks (SOAK_S=3600); nothing may be lost
	@$(BIN)/python -m tests.soak.soak --seconds $(SOAK_S)

fuzz: .venv/tools  ## 10,000 generated requests of the OpenAPI document, with real ids; some minutes
	@$(BIN)/python -m pytest -q -s -n0 tests/fuzz/published_schema.py

transcript: .venv/tools  ## ten questions over every path that answers, of models that invent, contradict and cite nothing
	@$(BIN)/python -m pytest -q -s -n0 tests/clients/transcript.py

clients: .venv/tools  ## programs on clients of other people, against our server
	@$(PYTHON) -m venv $${CITABLE_VAR:-var}/clients
	@$${CITABLE_VAR:-var}/clients/bin/python -m pip -qq install -r tests/clients/requirements.txt
	@CLIENTS_VENV=$$(cd $${CITABLE_VAR:-var}/clients && pwd) \
	  $(BIN)/python -m pytest -q -s -n0 tests/clients/generated.py

containers: .venv/tools  ## the image and compose.yaml run with podman, two of each, and killed; needs the superuser
	@$(BIN)/python -m tests.containers.run_compose

bench: .venv/tools  ## measure everything; each writes a row of docs/benchmarks.md
	@for name in quality smart_retrieval multi_hop answerability analysis conversation citations grounding tables extractive search cache ingest documents ocr flows agents lifecycle swap admin_pages flow_editor connectors; do \
	  $(BIN)/python -m benchmarks.$$name || exit 1; done

profile: .venv/tools  ## milliseconds and statements of one search over HTTP, part by part with budgets
	@$(BIN)/python -m benchmarks.http_profile

house: .venv/tools  ## how many files, names and lines there are, and how many a request passes
	@$(BIN)/python -m benchmarks.house

screenshots: .venv/tools  ## take the pictures of docs/screenshots; needs Chromium
	@$(BIN)/python -m tests.browser.screenshots

lint: .venv/tools  ## style, types, layers, migrations
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python manage.py makemigrations --check --dry-run
	@$(BIN)/python manage.py check

stop: .venv/runtime  ## stop the embedded PostgreSQL; the next command starts it again
	@$(BIN)/python -m project.db stop

clean: stop  ## stop the embedded PostgreSQL and remove .venv; var with your data stays
	rm -rf .venv

# Empty files record what is installed, so that a second call costs nothing.
.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	    "Install one and name it: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "Creating .venv"
	@$(PYTHON) -m venv .venv || { \
	  echo "The module venv failed; on Debian and Ubuntu: apt-get install python3-venv" >&2; \
	  rm -rf .venv; exit 1; }
	@touch $@

.venv/runtime: .venv/python requirements.txt
	@echo "Installing requirements.txt (about 400 MB, once)"
	@$(PIP) -r requirements.txt
	@touch $@

.venv/tools: .venv/runtime requirements-dev.txt
	@echo "Installing requirements-dev.txt"
	@$(PIP) -r requirements-dev.txt
	@touch $@
