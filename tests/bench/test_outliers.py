"""``benchmarks/outliers.py``: what it spoils, what it counts, and that the defaults hold."""

import runpy

import numpy as np
import pytest

from heavystep.bench.tasks.packages import without_sklearn
from tests.helpers.places import ROOT

SCRIPT = runpy.run_path(str(ROOT / "benchmarks" / "outliers.py"))
NONE, LOSS, GRADIENT = (SCRIPT[name] for name in ("NONE", "LOSS", "GRADIENT"))
needs_digits = pytest.mark.skipif(bool(without_sklearn()), reason=without_sklearn() or "-")


def test_steps_are_back_when_ten_in_a_row_are():
    plain, spoilt = np.ones(100), np.ones(100)
    spoilt[40:60] = 0.1
    assert SCRIPT["steps_back"](spoilt, plain, 40) == 20
    assert SCRIPT["steps_back"](np.ones(100), plain, 40) == 1
    spoilt[41] = 5.0  # one large step is not enough
    assert SCRIPT["steps_back"](spoilt, plain, 40) == 20
    spoilt[40:] = 0.49
    assert SCRIPT["steps_back"](spoilt, plain, 40) is None
    assert SCRIPT["steps_back"](spoilt, 0.5 * plain, 40) == 1


@needs_digits
def test_only_the_batches_of_outliers_are_spoilt():
    """The paper's step is (f - l) / |g|^2, so it shrinks by what is multiplied."""
    plain, loss, gradient = (
        SCRIPT["train"]("SHBPolyak, paper", kind, 0, 7, outliers=(5,))
        for kind in (NONE, LOSS, GRADIENT)
    )
    for spoilt in (loss, gradient):
        np.testing.assert_allclose(spoilt.losses[:6], plain.losses[:6], rtol=1e-6)
        np.testing.assert_array_equal(spoilt.steps[:5], plain.steps[:5])
        assert spoilt.steps[5] < 0.1 * plain.steps[5]
        assert spoilt.losses[6] != plain.losses[6]
    assert loss.steps[5] / gradient.steps[5] == pytest.approx(100.0, rel=1e-3)


@needs_digits
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:line search failed")  # no step fits a gradient that is not one
@pytest.mark.parametrize("method", ["SHBPolyak", "SHBAdam", "SHBArmijo"])
@pytest.mark.parametrize("kind", [LOSS, GRADIENT])
def test_an_outlier_costs_few_steps(method, kind):
    plain, spoilt = (SCRIPT["train"](method, each, 0, 240, (150, 151)) for each in (NONE, kind))
    usual = np.median(plain.steps[140:162])  # that of one batch may be small by itself
    assert np.all(spoilt.steps[150:152] < 0.1 * usual)
    back = SCRIPT["steps_back"](spoilt.steps, plain.steps, 151)
    assert back is not None
    assert back <= 20
