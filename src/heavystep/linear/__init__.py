"""Logistic regression with no step size to tune, as a scikit-learn estimator."""

from heavystep.extras import needed_by

with needed_by("heavystep.linear", "linear"):
    from heavystep.linear.estimator import SHBLogisticRegression
    from heavystep.linear.files import load_libsvm

__all__ = ["SHBLogisticRegression", "load_libsvm"]
