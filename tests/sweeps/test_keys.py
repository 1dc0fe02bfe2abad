"""The key of a run: it depends on what decides the numbers, and on nothing else."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heavystep
from heavystep import parquet
from heavystep.methods import METHODS
from heavystep.momentum import HEAVY_BALL
from heavystep.paper.figure1.definition import figure1
from heavystep.problems import LeastSquares, SparseLogistic, VarianceReduced
from heavystep.simulation import configuration
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import simulate
from heavystep.sparse import SparseRows
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.runner import complete
from heavystep.sweeps.specification import GivenProblem, ProblemSpec, RunSpec
from heavystep.sweeps.store import Store
from tests.helpers.pinned_runs import table
from tests.helpers.small_figure1 import SMALL
from tests.helpers.told import Told
from tests.toys.cases import registered

OPTIONS = {
    "lr": 1.0, "momentum": 0.5, "c": 0.75, "max_step": 1.0, "scaling": "theory",
    "steps_per_epoch": None, "growth": 1.0,
}  # fmt: skip
RUN = RunSpec(ProblemSpec("least squares", 0.0), configure("SHBPolyak", **OPTIONS), 2, 100)
KEY = "e4b2b0de13ebe8fb246c74c2"


def first_run():
    return next(iter(figure1(**SMALL).runs().values()))


def test_the_text_says_everything():
    """Stored runs are found by it: whoever changes it makes all of them stale."""
    assert json.loads(RUN.text()) == {
        "format": 2,
        "problem": {"name": "least squares", "setting": 0.0},
        "method": {"name": "SHBPolyak", "options": OPTIONS, "average": "uniform"},
        "versions": {"rule": 1, "form": 1, "kernel": 1, "problem": 1},
        "seeds": 2,
        "iterations": 100,
        "batch_size": 1,
        "every": None,
    }
    assert RUN.key() == KEY


def test_keys_depend_on_everything():
    others = [
        replace(RUN, seeds=3),
        replace(RUN, iterations=99),
        replace(RUN, batch_size=2),
        replace(RUN, every=10),
        replace(RUN, method=configure("SHBPolyak", **(OPTIONS | {"c": 0.76}))),
        replace(RUN, method=configure("SHBPolyak", average="weighted", **OPTIONS)),
        replace(RUN, method=configure("SHBArmijo", **OPTIONS)),
        replace(RUN, problem=ProblemSpec("least squares", 0.3)),
        replace(RUN, problem=ProblemSpec("cosine", "noise")),
    ]
    assert len({run.key() for run in (RUN, *others)}) == 1 + len(others)
    assert first_run().key() == first_run().key()


def with_rule(monkeypatch):
    method = METHODS["SHBPolyak"]
    newer = {scaling: replace(rule, version=2) for scaling, rule in method.by_scaling.items()}
    monkeypatch.setitem(METHODS, "SHBPolyak", replace(method, by_scaling=newer))


def with_form(monkeypatch):
    method, newer = METHODS["SHBPolyak"], replace(HEAVY_BALL, version=2)
    monkeypatch.setitem(METHODS, "SHBPolyak", replace(method, form=newer))


def with_kernel(monkeypatch):
    monkeypatch.setattr(configuration, "KERNEL_VERSION", 2)


def with_problem(monkeypatch):
    monkeypatch.setattr(LeastSquares, "version", 2)


CHANGES = {"rule": with_rule, "form": with_form, "kernel": with_kernel, "problem": with_problem}


@pytest.mark.parametrize("changed", CHANGES)
def test_another_version_is_another_run_and_the_old_one_is_named(changed, tmp_path, monkeypatch):
    store = Store(tmp_path)
    complete({RUN.key(): RUN}, store, Told(), engine=LocalEngine(1))
    CHANGES[changed](monkeypatch)
    assert RUN.key() != KEY
    (line,) = store.outdated([RUN])
    assert line == (
        f"1 runs in {tmp_path} are not used: they were made with other versions "
        f"({changed} 1 is now 2)"
    )
    told = Told()
    complete({RUN.key(): RUN}, store, told, engine=LocalEngine(1))
    assert told.notes == [f"{line}; what is missing is run again"]
    assert told.finished == 1
    again = Told()
    complete({RUN.key(): RUN}, store, again, engine=LocalEngine(1))
    assert again.notes == []  # nothing is missing any more


def test_a_run_that_nobody_wants_is_not_named(tmp_path, monkeypatch):
    store = Store(tmp_path)
    complete({RUN.key(): RUN}, store, Told(), engine=LocalEngine(1))
    with_rule(monkeypatch)
    assert store.outdated([replace(RUN, seeds=5)]) == []


def test_a_new_method_changes_no_key():
    before = first_run().key(), RUN.key()
    with registered():
        assert (first_run().key(), RUN.key()) == before


def test_a_label_changes_no_key():
    assert replace(RUN, label="mine").key() == RUN.key()


def test_a_comment_changes_no_key(tmp_path):
    """The package with a comment in every module gives the same keys."""
    shutil.copytree(Path(heavystep.__file__).parent, tmp_path / "heavystep")
    for path in (tmp_path / "heavystep").rglob("*.py"):
        path.write_text(path.read_text() + "\n# A comment.\n")
    code = (
        "from heavystep.paper.figure1.definition import figure1; "
        f"print(*figure1(**{SMALL!r}).runs(), sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )
    assert run.stdout.split() == list(figure1(**SMALL).runs())


def given(problem):
    return replace(RUN, problem=GivenProblem(problem)).key()


def test_a_given_problem_is_known_by_its_numbers():
    A, b = np.arange(6.0).reshape(3, 2) ** 2, np.ones(3)
    key = given(LeastSquares(A, b))
    assert given(LeastSquares(A.copy(), b.copy())) == key
    assert given(LeastSquares(A, b, theta0=[0.0, 1e-300])) != key
    assert given(LeastSquares(A, 2.0 * b)) != key
    rows = SparseRows.from_dense([[1.0, 0.0], [2.0, 3.0]])
    logistic = given(SparseLogistic(rows, [1, -1]))
    assert logistic == given(SparseLogistic(rows, [1, -1]))
    wide = SparseRows(rows.indptr, rows.indices, rows.values, 3)
    others = [
        SparseLogistic(rows, [-1, -1]),
        SparseLogistic(rows, [1, -1], l2=0.1),
        SparseLogistic(rows, [1, -1], weights=[1.0, 2.0]),
        SparseLogistic(wide, [1, -1]),
    ]
    assert len({logistic, *map(given, others)}) == 5


def test_a_reduced_problem_is_known_by_its_problem_probability_and_curvature(monkeypatch):
    A, b = np.arange(6.0).reshape(3, 2) ** 2, np.ones(3)
    problem = LeastSquares(A, b)
    run = replace(RUN, problem=GivenProblem(VarianceReduced(problem, 0.25, 2.0)))
    content = run.content()
    assert content["problem"]["name"] == "LeastSquares"
    assert content["problem"]["reduction"] == {"probability": 0.25, "curvature": 2.0}
    assert content["versions"] == {**RUN.content()["versions"], "reduction": 1}
    key = given(VarianceReduced(problem, 0.25, 2.0))
    assert given(VarianceReduced(LeastSquares(A.copy(), b), 0.25, 2.0)) == key
    others = [
        VarianceReduced(problem, 0.5, 2.0),
        VarianceReduced(problem, None, 2.0),
        VarianceReduced(problem, 0.25),
        VarianceReduced(LeastSquares(A, 2.0 * b), 0.25, 2.0),
        problem,
    ]
    assert len({key, *map(given, others)}) == 1 + len(others)
    for cls in (LeastSquares, VarianceReduced):
        with monkeypatch.context() as patch:
            patch.setattr(cls, "version", 2)
            assert given(VarianceReduced(problem, 0.25, 2.0)) != key


# Two metrics of runs in version 1 of the reduction, and of all that they are made of.
PINNED = {
    "AdaSPS": {"gap_last": 0.5492983973902705, "trials": 0.0},
    "SLS": {"gap_last": 0.43985054287214415, "trials": 246.0},
}


@pytest.mark.parametrize("method", PINNED)
def test_numbers_of_a_reduced_problem_change_only_with_a_version(method):
    reduced = VarianceReduced(LeastSquares(table(30, 4), table(30, 1, shift=3)[:, 0]))
    assert VarianceReduced.version == 1, "pin the numbers of the new version"
    found = simulate(reduced, method, seeds=[3], iterations=60, batch_size=2).metrics
    last = {name: float(found[name][0, -1]) for name in PINNED[method]}
    assert last == pytest.approx(PINNED[method], rel=1e-9), "raise the version"


EARLY = json.dumps({"data": "", "mathematics": "0123456789abcdef", "run": {"seeds": 2}})


def test_runs_of_an_earlier_heavystep_are_refused_in_one_line(tmp_path):
    store = Store(tmp_path)
    for name in ("a", "b"):
        parquet.write(tmp_path / f"{name}.parquet", EARLY, {"k": np.arange(3)})
    (line,) = store.outdated()
    assert line.startswith(f"2 runs in {tmp_path} are not used: an earlier heavystep made them")
    assert store.sizes() == []
    told = Told()
    complete({RUN.key(): RUN}, store, told, engine=LocalEngine(1))
    assert told.notes == [f"{line}; what is missing is run again"]
    assert len(list(tmp_path.iterdir())) == 3  # they are left alone
