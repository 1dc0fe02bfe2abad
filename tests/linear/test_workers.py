"""What a worker process of a grid search pays for beside the fits."""

import subprocess
import sys

import heavystep

FIT = """
import sys
import numpy as np
from heavystep.linear import SHBLogisticRegression
X = np.random.default_rng(0).normal(size=(600, 3))
SHBLogisticRegression().fit(X, X[:, 0] > 0.1)
print("torch" in sys.modules)
"""


FIRST = """
import numpy as np
from scipy.special import expit
from heavystep.linear import kernels
from heavystep.simulation.softplus import softplus_and_slope
m, out = np.linspace(-9.0, 9.0, 300), np.zeros(1)
X, ones = m[:, None].copy(), np.ones(300)
kernels.dense_pass(X, ones, ones, np.ones(1), 0.0, np.empty(300), out)
kernels.line_slope(m, m, ones, 0.5)
losses, slopes = np.empty(300), np.empty(300)
softplus_and_slope(m, losses, slopes)
print(np.abs(slopes + expit(-m)).max() < 1e-15, abs(out[0] + m @ expit(-m)) < 1e-10)
"""


def test_losses_are_exact_whatever_is_compiled_first(tmp_path, monkeypatch):
    """A kernel that is first called from one with free sums would be compiled with free sums."""
    monkeypatch.setenv("HEAVYSTEP_CACHE", str(tmp_path))
    run = subprocess.run([sys.executable, "-c", FIRST], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "True True"


def test_a_fit_does_not_import_torch():
    """It takes longer to import than everything else that the estimator needs."""
    run = subprocess.run([sys.executable, "-c", FIT], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_what_is_imported_late_is_there():
    from heavystep import lower_bounds, optim

    for name in heavystep.__all__:
        assert getattr(heavystep, name) is not None
    assert heavystep.SHBPolyak is optim.SHBPolyak
    assert heavystep.lower_bounds is lower_bounds
    assert heavystep.optim is optim
