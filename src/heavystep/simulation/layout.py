"""From a problem to the data that its kernels read."""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from heavystep.problems import Cosine, LeastSquares, SparseLogistic, VarianceReduced
from heavystep.simulation.cosine import cosine_terms
from heavystep.simulation.least_squares import least_squares_terms
from heavystep.simulation.logistic import logistic_terms
from heavystep.simulation.reduced import reduced_terms

LAYOUTS: dict[type, Callable[[Any], Any]] = {
    LeastSquares: least_squares_terms,
    Cosine: cosine_terms,
    SparseLogistic: logistic_terms,
}

_KNOWN: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""What was laid out before, kept for as long as somebody has the problem: data may be large."""


def terms_of(problem: Any) -> Any:
    """The data of a problem, laid out for its kernels.

    Raises:
        TypeError: there are no kernels for this kind of problem.
    """
    if isinstance(problem, VarianceReduced):
        # Made anew: the anchor belongs to one run. The data around it are laid out once.
        return reduced_terms(problem, terms_of(problem.problem))
    if problem in _KNOWN:
        return _KNOWN[problem]
    for kind, layout in LAYOUTS.items():
        if isinstance(problem, kind):
            return _KNOWN.setdefault(problem, layout(problem))
    known = ", ".join(kind.__name__ for kind in LAYOUTS)
    raise TypeError(
        f"there are no compiled kernels for {type(problem).__name__}, only for {known}; "
        "heavystep.simulation.batch.record_runs takes any finite sum"
    )
