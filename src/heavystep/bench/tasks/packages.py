"""Packages that data come with."""

from importlib.util import find_spec

from heavystep.extras import install


def without_sklearn() -> str:
    """One line if scikit-learn is not installed, or nothing."""
    if find_spec("sklearn") is not None:
        return ""
    return f"its data come with scikit-learn: {install('linear')}"
