# make help        this list
# make setup       make .venv and install everything into it
# make lint        ruff; make types: mypy; make test-fast, make test-slow: only those tests
# make test        set up .venv, then lint, type-check and test, JOBS (2) files at a time
# make test-all    the same and what takes long: torch.compile, clusters, four processes, killed
#                  commands, and five times as many examples of every property
# make reproduce   set up .venv and draw the paper's Figure 1 (results/figure1.png), a minute or two
# make demo        train one network with every method
# make compare     all methods on four problems, into docs/results/compare; some minutes, and it
#                  wants the data sets mushrooms, a9a and w8a (heavystep data fetch)
#                  heavystep bench sensitivity, which has no target, holds defaults beside rivals
#                  with a grid: docs/sensitivity.md; --quick takes a minute, all of it hours
# make bench       step cost against torch.optim.SGD, simulations against numpy, scipy and torch,
#                  logistic regression against scikit-learn's solvers, training against SGD, on
#                  one process and on two
# make scaling     measure steps on 1, 2 and 4 processes and write docs/scaling.md
# make performance measure the cost of a step and write docs/performance.md; wants an idle machine
# make theory      measure the slack of every theorem and write docs/theory.md
# make pages       write docs/methods.md and docs/architecture.svg from the registry and the rooms
# make gallery     draw the paths of all methods on two functions (docs/results/gallery), a minute
# make front       draw the two pictures of the front page from the tables
# make docs        build the site into site/, strictly: a warning is an error; its search works when it
#                  is served: python -m http.server -d site
# make examples    run every example in its quick mode
# make mutants     break the mathematics on purpose and see that a test notices
# make fuzz        random batches, damaged files and hostile lines, some minutes; SEED=1 for others
# make clean       remove .venv, the site and caches

PYTHON ?= python3
BIN := .venv/bin
SETUP := .venv/installed
JOBS ?= 2
# Processes with a thread a core each would wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1
# For a look: make compare COMPARED=/tmp/compared COMPARE='--quick'
COMPARED ?= docs/results/compare
COMPARE ?=
SEED ?= 0

.PHONY: help setup lint types test-fast test test-slow test-all reproduce demo compare bench performance scaling theory pages gallery front docs examples mutants fuzz clean

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
	$(ONE_THREAD) $(BIN)/heavystep compare --problem mushrooms --problem a9a --problem w8a --problem cosine --out $(COMPARED) $(COMPARE)

bench: $(SETUP)
	$(BIN)/python benchmarks/step_cost.py
	$(BIN)/heavystep bench simulation
	$(BIN)/heavystep bench linear
	$(BIN)/heavystep bench train
	$(BIN)/heavystep bench distributed

scaling: $(SETUP)
	$(BIN)/heavystep bench distributed --ranks 1 --ranks 2 --ranks 4 --save docs/scaling.json
	$(BIN)/python docs/make_scaling.py

performance: $(SETUP)
	$(BIN)/python benchmarks/step_cost.py --save docs/measured/step_cost.json
	$(BIN)/python docs/make_performance.py

theory: $(SETUP)
	$(BIN)/python benchmarks/slack.py
	$(BIN)/python docs/make_theory.py

pages: $(SETUP)
	$(BIN)/python docs/make_methods.py
	$(BIN)/python docs/make_architecture.py

gallery: $(SETUP)
	$(BIN)/python docs/make_gallery.py

front: $(SETUP)
	$(BIN)/python docs/make_front.py

docs: $(SETUP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

examples: $(SETUP)
	$(ONE_THREAD) $(BIN)/pytest -n 0 tests/examples

mutants: $(SETUP)
	$(BIN)/python -m tests.mutants

fuzz: $(SETUP)
	$(ONE_THREAD) $(BIN)/python -W ignore -m tests.fuzz --seed $(SEED)

clean:
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
