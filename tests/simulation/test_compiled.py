"""What the compiler made of the loop over steps: it counts no references and allocates nothing."""

import numpy as np
import pytest

from heavystep.problems import VarianceReduced
from heavystep.simulation import fleet, kernel_cache, trajectory
from heavystep.simulation.fleet import Fleet, Run
from heavystep.simulation.watch import MeanWatch
from tests.helpers.pinned_runs import CASES, others, problems

COUNTING = "NRT_"
"""All functions of numba's runtime begin with it: those that allocate arrays, and those that count
references to them."""
KINDS = problems() | {"reduced": VarianceReduced(problems()["LeastSquares"])}
FIRST = {"LeastSquares": "Polyak, theory", "SparseLogistic": "Armijo, practical"}
"""Both rules, dense and sparse rows; the others take long, a kernel each."""
METHODS = CASES | others()
EVERY = [
    pytest.param(kind, name, marks=() if FIRST.get(kind) == name else pytest.mark.slow)
    for kind in KINDS
    for name in METHODS
]


def compiled(monkeypatch, *runs):
    """The loop, and the kernel that makes its arrays and calls it, in LLVM's language."""
    inside = kernel_cache.loop(trajectory._iterate.py_func)
    monkeypatch.setattr(trajectory, "_iterate", inside)
    around = kernel_cache.kernel(trajectory.advance.py_func)
    # Not from the disk, where there is only machine code; what is compiled is put there for others.
    monkeypatch.setattr(around._cache, "load_overload", lambda *_: None)
    monkeypatch.setattr(fleet, "advance", around)
    seeds = len(runs)
    assert Fleet(runs).advance(2, np.empty((seeds, 0, 2), dtype=np.int64)) == [2] * seeds
    (signature,), (its_own,) = around.signatures, inside.signatures
    return inside.inspect_llvm(its_own), around.inspect_llvm(signature)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_no_step_counts_references(kind, name, monkeypatch):
    loop, around = compiled(monkeypatch, Run(KINDS[kind], METHODS[name], 0, np.array([1, 2])))
    assert "_iterate" in loop
    assert COUNTING not in loop
    assert COUNTING in around, "the arrays are made there: numba's functions have another name"


@pytest.mark.parametrize(
    "kind",
    ["LeastSquares", pytest.param("Cosine", marks=pytest.mark.slow)],  # a kernel each
)
@pytest.mark.parametrize("name", ["Polyak, theory", "Armijo, diminishing"])
def test_no_step_of_four_seeds_counts_references(kind, name, monkeypatch):
    four = [Run(KINDS[kind], METHODS[name], seed, np.array([1, 2])) for seed in range(4)]
    loop, around = compiled(monkeypatch, *four)
    assert "x double>" in loop
    assert COUNTING not in loop
    assert COUNTING in around


def test_means_count_no_references(monkeypatch):
    run = Run(KINDS["SparseLogistic"], METHODS["Polyak, practical"], 0, np.array([9]))
    run.watch = MeanWatch.of(KINDS["SparseLogistic"].dim, every=1)
    loop, _ = compiled(monkeypatch, run)
    assert COUNTING not in loop
