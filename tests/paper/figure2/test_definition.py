"""Figure 2 is that of Appendix E: its data, methods and keys."""

import bz2
import hashlib
import math
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from heavystep.paper.appendix_e import FAMILIES, FIXED
from heavystep.lab.figures.figure2 import figure2, methods
from heavystep.sweeps.specification import ProblemSpec, RunSpec
from tests.helpers import tiny_libsvm
from tests.helpers.figure2_results import ADAPTIVE, by_label


def test_the_figure_is_appendix_es(eight):
    figure = figure2()
    assert figure.name == "figure2"
    assert [panel.title for panel in figure.panels] == [
        *2 * ["a9a", "Cod-RNA", "IJCNN1", "Mushrooms"],
        *2 * ["Phishing", "real-sim", "SVMguide1", "w8a"],
    ]
    assert [panel.id.split(".")[1] for panel in figure.panels] == 2 * [*4 * ["PS"], *4 * ["ALS"]]
    assert [curve.label for curve in figure.panels[0].curves] == ["SHB-PS", "SPS", *FIXED]
    assert [curve.label for curve in figure.panels[4].curves] == ["SHB-ALS", "SLS", *FIXED]
    runs = figure.runs().values()
    assert len(runs) == 64
    assert {(run.seeds, run.iterations, run.batch_size) for run in runs} == {(5, 20_000, 128)}
    grid = next(iter(runs)).grid()
    assert grid.tolist() == list(range(100, 20_001, 100))


def test_appendix_es_constants(eight):
    """rule, beta, c, gamma_max, kappa's scaling, growth and what else a method has."""
    runs = by_label(figure2(), "mushrooms")
    names = ("momentum", "c", "max_step", "scaling", "growth")
    found = {
        name: (run.method.rule.name, *(run.method[option] for option in names))
        for name, run in runs.items()
        if name in ADAPTIVE
    }
    assert found == {
        "SHB-PS": ("polyak", 0.9, 1.0, 1.0, "practical", 4.0),
        "SPS": ("polyak", 0.0, 0.1, 1.0, "plain", 4.0),
        "SHB-ALS": ("armijo", 0.9, 0.1, 1.0, "practical", 2.0),
        "SLS": ("armijo", 0.0, 0.1, 1.0, "plain", 2.0),
    }
    assert {runs[name].method["decrease_factor"] for name in FAMILIES["ALS"]} == {0.9}
    assert {runs[name].method["steps_per_epoch"] for name in ADAPTIVE} == {2}  # ceil(150 / 128)
    assert {runs[name].method["lr"] for name in ADAPTIVE} == {1.0}
    fixed = [runs[name].method for name in FIXED]
    assert [method["lr"] for method in fixed] == [1e-4, 1e-3, 1e-2, 1e-1]
    assert {(method.rule.name, method["momentum"]) for method in fixed} == {("fixed", 0.9)}


def test_the_papers_cap_leaves_the_rules_no_choice():
    """On rows of unit length no rule asks for less than 1, but each for less than 100."""
    for cap, at_cap in ((1.0, True), (100.0, False)):
        known = methods(tiny_libsvm.ROWS, cap)
        for name in ADAPTIVE:
            least, _ = known[name].step_bounds(L=0.25, first=0, count=1)
            assert (least >= cap).all() == at_cap


def test_rows_have_unit_length_and_the_larger_label_is_positive(eight):
    problem = ProblemSpec("libsvm", "mushrooms").build()
    norms = problem.rows.norms()
    assert norms[7] == 0.0
    np.testing.assert_allclose(np.delete(norms, 7), 1.0, rtol=1e-14)
    labels = [line[0] for line in (eight / "mushrooms").read_text().splitlines()]
    np.testing.assert_array_equal(problem.y, np.where(np.array(labels) == "2", 1.0, -1.0))
    assert problem.f_star[7] == math.log(2.0)
    assert problem.f_star.sum() == math.log(2.0)
    assert problem.largest_penalty == 0.0


def test_the_largest_step_changes_the_adaptive_methods_only(eight):
    paper, companion = figure2(), figure2(max_step=100.0)
    assert companion.name == "figure2_max_step_100"
    one, other = by_label(paper, "w8a"), by_label(companion, "w8a")
    assert {name for name in one if one[name].key() != other[name].key()} == set(ADAPTIVE)
    assert {other[name].method["max_step"] for name in ADAPTIVE} == {100.0}
    with pytest.raises(ValueError, match=r"max_step \(gamma_max\) must be > 0 and finite, got -1"):
        figure2(max_step=-1.0)


def test_the_last_step_is_recorded():
    run = RunSpec(ProblemSpec("libsvm", "a9a"), None, 2, 1050, 128, 100)
    assert run.grid().tolist() == [*range(100, 1001, 100), 1050]
    assert replace(run, iterations=1000).grid().tolist() == list(range(100, 1001, 100))


def test_keys_depend_on_grid_batch_and_data(eight, tmp_path, monkeypatch):
    run = by_label(figure2(), "mushrooms")["SHB-PS"]
    changed = [replace(run, batch_size=64), replace(run, every=50), replace(run, every=None)]
    keys = {run.key(), *(other.key() for other in changed)}
    assert len(keys) == 4
    with tiny_libsvm.folder(tmp_path, []) as folder:
        text = (eight / "mushrooms").read_bytes()
        (folder / "mushrooms.bz2").write_bytes(bz2.compress(text))
        assert run.key() in keys  # the same data elsewhere, packed
        last = text.rindex(b"1.0")
        other = text[:last] + b"1.1" + text[last + 3 :]
        (folder / "mushrooms").write_bytes(other)
        with pytest.raises(ValueError, match="is not the published mushrooms"):
            run.key()
        entry = replace(CATALOGUE["mushrooms"], text_sha256=hashlib.sha256(other).hexdigest())
        monkeypatch.setitem(CATALOGUE, "mushrooms", entry)
        assert run.key() not in keys
