"""Torch optimizers: stochastic heavy ball whose step size chooses itself."""

from heavystep.optim.diminishing import Diminishing
from heavystep.optim.factory import optimizer_class
from heavystep.optim.graphs.captured import CapturedStep
from heavystep.optim.info import StepInfo
from heavystep.optim.optimizer import RuleOptimizer, searches
from heavystep.optim.optimizers import SHB, SLS, SPS, SHBArmijo, SHBPolyak
from heavystep.optim.recording.recorder import Recorder
from heavystep.optim.smoothness import SmoothnessEstimate, estimate_smoothness

__all__ = [
    "SHB",
    "SLS",
    "SPS",
    "CapturedStep",
    "Diminishing",
    "Recorder",
    "RuleOptimizer",
    "SHBArmijo",
    "SHBPolyak",
    "SmoothnessEstimate",
    "StepInfo",
    "estimate_smoothness",
    "optimizer_class",
    "searches",
]
