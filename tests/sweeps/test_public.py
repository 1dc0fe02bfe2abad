"""heavystep.sweep: names and objects, labels, a folder that is gone on with, clear refusals."""

import logging

import numpy as np
import pytest

from heavystep.problems import (
    LeastSquares,
    LogisticRegression,
    VarianceReduced,
    paper_cosine,
    paper_least_squares,
)
from heavystep.simulation.configuration import configure
from heavystep.simulation.run import simulate
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.public import sweep
from tests.helpers import tiny_libsvm

SIZE = {"iterations": 60, "seeds": 2}
DENSE = LogisticRegression(np.eye(2), [1.0, -1.0])
METHODS = {"free": "SPS", "capped": ("SPS", {"max_step": 0.01})}


@pytest.fixture
def problem():
    rng = np.random.default_rng(3)
    A = rng.normal(size=(20, 3))
    return LeastSquares(A, A @ [1.0, -2.0, 3.0])


def files(out):
    return {path.name: path.read_bytes() for path in out.rglob("*.parquet")}


def test_results_are_those_of_simulate(problem, tmp_path):
    found = sweep({"mine": problem, "cosine": "cosine"}, METHODS, out=tmp_path, **SIZE)
    assert list(found) == [
        ("mine", "free"), ("mine", "capped"), ("cosine", "free"), ("cosine", "capped"),
    ]  # fmt: skip
    objects = {"mine": problem, "cosine": paper_cosine("strong_growth")}
    for (label, method), result in found.items():
        options = {"max_step": 0.01} if method == "capped" else {}
        expected = simulate(
            objects[label], "SPS", seeds=[0, 1], iterations=60, threads=1, **options
        )
        assert result.seeds == (0, 1)
        np.testing.assert_array_equal(result.k, expected.k)
        for name, values in expected.metrics.items():
            np.testing.assert_array_equal(result.metrics[name], values)


def test_called_again_it_computes_what_is_new(problem, tmp_path, caplog):
    first = sweep({"mine": problem}, METHODS, out=tmp_path, **SIZE)
    before = files(tmp_path)
    assert len(before) == 2
    with caplog.at_level(logging.DEBUG, "heavystep"):
        again = sweep({"mine": problem}, METHODS, out=tmp_path, engine=LocalEngine(1), **SIZE)
        assert caplog.records == []
        more = sweep({"yours": problem}, {**METHODS, "SLS": "SLS"}, out=tmp_path, **SIZE)
    assert caplog.messages[-1] == "3 of 3 runs"
    assert {record.message for record in caplog.records[:-1]} == {"yours, SLS begins"}
    assert files(tmp_path).items() >= before.items()
    for found in (again["mine", "capped"], more["yours", "capped"]):
        one, other = found.metrics["gap_last"], first["mine", "capped"].metrics["gap_last"]
        np.testing.assert_array_equal(one, other)


def test_names_and_objects_without_labels(problem, tmp_path):
    size = {**SIZE, "out": tmp_path}
    assert list(sweep(problem, "SPS", **size)) == [("LeastSquares", "SPS")]
    assert list(sweep("least squares", ["SPS", "SLS"], **size)) == [
        ("least squares", "SPS"),
        ("least squares", "SLS"),
    ]
    noisy = sweep(["noisy least squares"], {"SHB": configure("SHB", lr=0.01)}, **size)
    expected = simulate(paper_least_squares(0.3), "SHB", lr=0.01, seeds=[1], iterations=60)
    (found,) = noisy.values()
    np.testing.assert_array_equal(found.metrics["gap_last"][1], expected.metrics["gap_last"][0])


def test_a_data_set_by_its_name(tmp_path):
    with tiny_libsvm.folder(tmp_path / "data", ["a9a"]):
        found = sweep("a9a", "SPS", batch_size=16, every=20, jobs=1, out=tmp_path / "out", **SIZE)
        (result,) = found.values()
        assert result.k.tolist() == [20, 40, 60]
        assert set(result.metrics) == {"loss", "step", "capped", "limited", "trials"}
        assert (result.metrics["loss"][:, -1] < np.log(2.0)).all()
        with pytest.raises(OSError, match="heavystep data fetch w8a"):
            sweep("w8a", "SPS", out=tmp_path / "out", **SIZE)


@pytest.mark.slow  # compiles kernels
def test_a_reduced_problem(problem, tmp_path):
    reduced = VarianceReduced(problem, probability=0.2)
    found = sweep(reduced, {"AdaSVRPS": "AdaSPS"}, jobs=2, out=tmp_path, **SIZE)
    result = found["VarianceReduced", "AdaSVRPS"]
    expected = simulate(reduced, "AdaSPS", seeds=2, iterations=60)
    np.testing.assert_array_equal(result.metrics["gap_last"], expected.metrics["gap_last"])
    both = {"plain": problem, "reduced": VarianceReduced(problem, probability=0.2)}
    again = sweep(both, "AdaSPS", out=tmp_path, **SIZE)
    assert len(files(tmp_path)) == 2  # the reduced one was there
    for name, values in result.metrics.items():
        np.testing.assert_array_equal(again["reduced", "AdaSPS"].metrics[name], values)
    assert not np.array_equal(*(each.metrics["gap_last"] for each in again.values()))


BAD = [
    ({"iterations": 0}, ValueError, "iterations must be >= 1, got 0"),
    ({"seeds": 2.5}, TypeError, "seeds must be an int >= 1, got 2.5"),
    ({"batch_size": 0}, ValueError, "batch_size must be >= 1, got 0"),
    ({"every": 0}, ValueError, "every must be >= 1, got 0"),
    ({"jobs": 0}, ValueError, "jobs must be >= 1, got 0"),
    ({"engine": "spark"}, ValueError, "engine must be one of 'local', 'ray', got 'spark'"),
    ({"problems": "mnist"}, ValueError, "problem must be one of 'least squares', .*got 'mnist'"),
    ({"problems": {"p": 3}}, TypeError, "problem 'p' must be a name or one of LeastSquares, .*got 3"),
    ({"problems": {"p": VarianceReduced(DENSE)}}, TypeError, "problem 'p' must be .*got VarianceReduced"),
    ({"problems": [3]}, TypeError, "without labels there can be names only, got 3: pass a dict"),
    ({"methods": "Adam"}, ValueError, "no method is named 'Adam'"),
    ({"methods": {"m": ("SPS", {"c": -1.0})}}, ValueError, "method 'm': c must be > 0 and finite"),
    ({"methods": {"m": ("SPS", {"d": 1})}}, TypeError, "method 'm': SPS has no option 'd'"),
    ({"methods": {"m": ("SPS", 0.1)}}, TypeError, "method 'm' must be a name, or a pair of a name"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "error", "text"), BAD)
def test_mistakes_are_named_before_anything_is_written(change, error, text, tmp_path):
    arguments = {"problems": "cosine", "methods": "SPS", **SIZE} | change
    with pytest.raises(error, match=text):
        sweep(arguments.pop("problems"), arguments.pop("methods"), out=tmp_path / "o", **arguments)
    assert not (tmp_path / "o").exists()


def test_a_folder_of_others_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="holds other files"):
        sweep("cosine", "SPS", out=tmp_path, **SIZE)


def test_runs_that_fail_are_named_and_the_others_kept(problem, tmp_path):
    methods = {"wild": ("SHB", {"lr": 1e200}), "tame": "SPS"}
    with pytest.raises(ValueError, match=r"1 of 2 runs failed.*mine, wild \(.*not finite"):
        sweep({"mine": problem}, methods, out=tmp_path, **SIZE)
    assert len(files(tmp_path)) == 1
