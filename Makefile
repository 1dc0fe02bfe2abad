# make help        this list
# make setup       make .venv and install everything into it
# make lint        ruff; make types: mypy; make test-fast, make test-slow: only those tests
# make test        set up .venv, then lint, type-check and test, JOBS (2) files at a time
# make test-all    the same and what takes long: torch.compile, clusters, four processes, killed
#                  commands, and five times as many examples of every property
# make reproduce   set up .venv and draw the paper's Figure 1 (results/figure1.png), a minute or two
# make demo        train one network with every method
# make compare     methods beside their rivals on all tasks, into docs/results/compare: what is in
#                  runs.csv there is not run again, all of it takes hours; COMPARE=--quick a minute
# make bench       what a step, a simulation, a training step and processes cost, as ratios
# make pages       draw the pictures of docs/, write docs/methods.md, docs/theory.md and the README's table
# make docs        build the site into site/, strictly: a warning is an error; its search works when it
#                  is served: python -m http.server -d site
# make examples    run every example in its quick mode
# make mutants     break the mathematics on purpose and see that a test notices
# make fuzz        bad batches, interruptions and damaged states, some minutes; SEED=1 for others
# make clean       remove .venv, the site and caches

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/installed
JOBS ?= 2
# Processes with a thread a core each would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1
# For a look: make compare COMPARED=/tmp/compared COMPARE='--quick'
COMPARED ?= docs/results
COMPARE ?=
SEED ?= 0

.PHONY: help setup lint types test-fast test test-slow test-all reproduce demo compare bench pages docs examples mutants fuzz clean

setup: $(SETUP)

help:
	@sed -n '/^$$/q; s/^# \{0,1\}//p' Makefile

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("heavystep needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

lint: $(SETUP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(SETUP)
	$(BIN)/mypy

test-fast: $(SETUP)
	$(ONE_THREAD) HEAVYSTEP_EXAMPLES=0.2 $(BIN)/pytest -m 'not slow' -n $(JOBS) --dist loadfile

# Types are checked while tests wait for processes that they start.
test: lint
	+$(MAKE) --no-print-directory -j 2 types test-fast

test-slow: $(SETUP)
	$(ONE_THREAD) $(BIN)/pytest -m 'slow or hypothesis' -n $(JOBS) --dist loadfile

test-all: test test-slow

reproduce: $(SETUP)
	$(BIN)/heavystep reproduce figure1

demo: $(SETUP)
	$(BIN)/python examples/digits.py

compare: $(SETUP)
	$(ONE_THREAD) $(BIN)/heavystep compare --out $(COMPARED) $(COMPARE)

bench: $(SETUP)
	$(BIN)/heavystep bench step
	$(BIN)/heavystep bench simulation
	$(BIN)/heavystep bench train
	$(BIN)/heavystep bench ranks

pages: $(SETUP)
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_theory.py
	$(BIN)/python docs/make_readme_table.py
	$(BIN)/python docs/make_pictures.py

docs: $(SETUP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

examples: $(SETUP)
	$(ONE_THREAD) $(BIN)/pytest -n 0 tests/examples

mutants: $(SETUP)
	$(BIN)/python -m tests.mutants

fuzz: $(SETUP)
	$(ONE_THREAD) HEAVYSTEP_EXAMPLES=20 $(BIN)/pytest -n $(JOBS) --hypothesis-seed=$(SEED) tests/test_fuzz.py

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
