"""Packages that data come with."""

from importlib.util import find_spec


def without_sklearn() -> str:
    """One line if scikit-learn is not installed, or nothing."""
    if find_spec("sklearn") is not None:
        return ""
    return "its data come with scikit-learn: pip install 'heavystep[linear]'"
