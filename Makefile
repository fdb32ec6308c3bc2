# cpugpu-tui: `make run` opens the app, `make test` the tests, `make thorough` the slow ones too, `make gpu` those of a GPU.
# All set up .venv by themselves.
PYTHON ?= $(firstword $(foreach p,python3 python3.13 python3.12 python3.11 python3.14,$(if $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print(1)' 2>/dev/null),$(p))))
VENV := .venv
BIN := $(VENV)/bin
# Of 6,300 files a start compiles the 1,400 that it imports. pip would compile all: 11 s and 120 MB.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --no-compile --constraint constraints.txt
ONLY ?=
PART ?=
comma := ,

.PHONY: run test thorough gpu lint bench size snapshots golden readme wheel clean
.DEFAULT_GOAL := run

run: $(VENV)/.for-run
	@$(BIN)/cpugpu-tui

test: $(VENV)/.for-test
	@$(BIN)/python -m pytest -n 4 --dist worksteal

thorough: $(VENV)/.for-test
	@$(BIN)/python -m pytest -n 6 --dist worksteal -m 'not gpu'

lint: $(VENV)/.for-lint
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

gpu: $(VENV)/.for-test
	@PART='$(or $(PART),1/1)' $(BIN)/python -m tests.gpu

bench: $(VENV)/.for-test
	@$(BIN)/python -m tests.bench $(ONLY)

size:
	@$(PYTHON) -m tests.helpers.bench.size

snapshots: $(VENV)/.for-test
	@$(BIN)/python -m pytest tests/snapshots --snapshot-update

golden: $(VENV)/.for-test
	@RENEW_GOLDEN=1 $(BIN)/python -m pytest -n 4 -m 'not gpu' $$(grep -rlE 'golden|words\(' tests --include='test_*.py')

readme: $(VENV)/.for-test
	@$(BIN)/python -m tests.readme

wheel: $(VENV)/.for-run
	@rm -rf dist
	@$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .
	@$(BIN)/python -c 'import tomllib; print(*(n for n in tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"] if not n.startswith("torch")), sep="\n")' >dist/requirements.txt
	@$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --constraint constraints.txt --wheel-dir dist --requirement dist/requirements.txt
	@echo "dist holds the wheels of cpugpu-tui and of what it needs, without torch; see docs/quickstart.md, 'Without a network'." >&2

clean:
	rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Missing: Python 3.11 or later. Install it, or name one: make run PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Missing: the venv module of $(PYTHON). On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# Each stamp holds one set of extras, and the smaller sets; a change of pyproject.toml or constraints.txt renews it.
define install
	@echo "Installing cpugpu-tui into $(VENV) (torch is large: the first time takes a while)" >&2
	@$(PIP) --editable '.$(1)' || { echo "Missing: a package index that pip can reach (see the lines above)." >&2; exit 1; }
	@touch $(2)
endef

$(VENV)/.for-run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,,$@)

$(VENV)/.for-test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,[test],$(VENV)/.for-run $@)

$(VENV)/.for-lint: $(VENV)/bin/python pyproject.toml constraints.txt
	$(call install,[test$(comma)lint],$(VENV)/.for-run $(VENV)/.for-test $@)
