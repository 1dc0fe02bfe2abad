"""Figure 3 is that of Appendix E: its methods, and what a run is known by."""

import numpy as np
import pytest

from heavystep.paper.appendix_e import FIXED
from heavystep.lab.figures.figure3 import QUICK, figure3, methods
from heavystep.lab.plot import mean_and_half_width
from heavystep.lab.store import DamagedError
from heavystep.lab.training.trainer import EpochRow
from heavystep.training.results import curves, missing
from heavystep.lab.training.runs import Scale, parsed
from tests.helpers.figure3_results import K
from tests.helpers.histories import TINY, rows, save, spec, store_of


def test_the_figure_is_appendix_es():
    figure = figure3()
    assert figure.name == "figure3"
    assert [panel.title for panel in figure.panels] == [
        f"{name}, {family} family"
        for name in ("CIFAR-10", "CIFAR-100")
        for family in ("PS", "PS", "ALS", "ALS")
    ]
    metrics = [{curve.metric for curve in panel.curves} for panel in figure.panels]
    assert metrics == 4 * [{"loss"}, {"test_accuracy"}]
    assert [curve.label for curve in figure.panels[1].curves] == ["SHB-PS", "SPS", *FIXED]
    assert [curve.label for curve in figure.panels[6].curves] == ["SHB-ALS", "SLS", *FIXED]
    runs = figure.runs().values()
    assert len(runs) == 16
    assert {(run.seeds, run.epochs, run.scale) for run in runs} == {(3, 200, Scale())}
    assert figure.headline() == "ResNet-18 on CIFAR-10 and CIFAR-100: 3 runs of 200 epochs"
    with pytest.raises(ValueError, match="data set must be one of 'cifar10', 'cifar100', got 'x'"):
        figure3(data_sets=("x",))


def test_methods_have_the_constants_of_appendix_e():
    search = {"c": 0.1, "decrease_factor": 0.9, "growth": 2.0, "lower_bound": 0.0, "max_step": 1.0}
    expected = {
        "SHB-PS": ("SHBPolyak", {"c": 1.0, "growth": 4.0, "max_step": 1.0, "momentum": 0.9}),
        "SPS": ("SPS", {"c": 0.1, "growth": 4.0, "max_step": 1.0}),
        "SHB-ALS": ("SHBArmijo", {**search, "momentum": 0.9}),
        "SLS": ("SLS", search),
    }
    for step in ("0.0001", "0.001", "0.01", "0.1"):
        expected[f"SHB {step}"] = ("SHB", {"lr": float(step), "momentum": 0.9})
    found = {name: (spec.optimizer, dict(spec.options)) for name, spec in methods().items()}
    assert found == expected


def test_a_run_is_known_by_its_text():
    run = spec("cifar100", "SLS", 2)
    assert parsed(run.text()) == run
    with pytest.raises(ValueError, match="of another protocol than 1"):
        parsed(run.text().replace('"protocol": 1', '"protocol": 2'))
    with pytest.raises(ValueError, match="not the specification of a training run"):
        parsed("{}")


def test_a_history_with_a_gap_is_damaged(tmp_path):
    save(tmp_path, spec(), [row for row in rows(5) if row.epoch != 3])
    with pytest.raises(DamagedError, match="does not have all epochs"):
        store_of(tmp_path).load(spec())


def test_runs_are_the_same_to_any_epoch():
    short, long = figure3(seeds=1, epochs=3), figure3(seeds=3, epochs=200)
    for one, other in zip(short.runs().values(), long.runs().values(), strict=True):
        assert one.each()[0].key() == other.each()[0].key()
    for other in (short, figure3(seeds=3, epochs=3)):
        assert not set(other.runs()) & set(long.runs())
    assert not set(long.runs()) & set(figure3(scale=QUICK).runs())


def test_a_curve_has_the_seeds_that_reach_its_last_epoch(tmp_path):
    """Longer ones are cut, shorter ones kept apart, and what is damaged is left out."""
    for seed, epochs in enumerate((30, 5, 20, 20)):
        save(tmp_path, spec(seed=seed), rows(epochs, loss=seed + np.arange(epochs) / 100))
    path = store_of(tmp_path).path(spec(seed=3))
    path.write_bytes(path.read_bytes()[:-50])
    runs = figure3(seeds=4, epochs=20, data_sets=("cifar10",), scale=TINY).runs()
    notes = []
    (curve,) = curves(runs, store_of(tmp_path), notes.append).values()
    assert curve.seeds == (0, 2)
    np.testing.assert_array_equal(curve.k, K)
    np.testing.assert_allclose(curve.metrics["loss"], [[0], [2]] + np.arange(20) / 100)
    assert set(curve.metrics) == set(EpochRow._fields) - {"epoch"}
    assert notes[0] == "cifar10 SHB-PS seed 1 has 5 of 20 epochs and does not count"
    assert len(notes) == 2
    assert path.name in notes[1]
    (begun,) = curve.unfinished
    assert begun.seed == 1
    np.testing.assert_allclose(begun.metrics["loss"], [1 + np.arange(5) / 100])
    alike = {run.method.name: run for run in runs.values()}[spec().method.name]
    assert missing([alike], store_of(tmp_path)) == (2, 15 + 20)


def test_one_seed_has_no_half_width():
    mean, half_width = mean_and_half_width(np.array([[1.0, 2.0]]))
    assert mean.tolist() == [1.0, 2.0]
    assert np.isnan(half_width).all()
