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
