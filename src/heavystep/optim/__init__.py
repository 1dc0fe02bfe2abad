"""Torch optimizers: stochastic heavy ball whose step size chooses itself.

Every method of :mod:`heavystep.methods` is here under its name.
"""

from typing import Any

from heavystep.methods import METHODS
from heavystep.optim.averaging.average import Average
from heavystep.optim.averaging.polynomial import polynomial_average
from heavystep.optim.diminishing import Diminishing
from heavystep.optim.factory import create, optimizer_class, searches
from heavystep.optim.graphs.captured import CapturedStep
from heavystep.optim.info import StepInfo
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.optimizers import SHB, SLS, SPS, SHBAdam, SHBArmijo, SHBPolyak
from heavystep.optim.recording.recorder import Recorder
from heavystep.optim.smoothness import SmoothnessEstimate, estimate_smoothness

__all__ = [
    "SHB",
    "SLS",
    "SPS",
    "Average",
    "CapturedStep",
    "Diminishing",
    "Recorder",
    "RuleOptimizer",
    "SHBAdam",
    "SHBArmijo",
    "SHBPolyak",
    "SmoothnessEstimate",
    "StepInfo",
    "create",
    "estimate_smoothness",
    "optimizer_class",
    "polynomial_average",
    "searches",
]


def __getattr__(name: str) -> Any:  # a class whose options a type checker cannot know
    if name in METHODS:
        return optimizer_class(name)
    raise AttributeError(f"module 'heavystep.optim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *METHODS})
