"""Torch optimizers: stochastic heavy ball whose step size chooses itself."""

from heavystep.optim.armijo import SHBArmijo
from heavystep.optim.baselines import SLS, SPS
from heavystep.optim.diminishing import Diminishing
from heavystep.optim.graphs.captured import CapturedStep
from heavystep.optim.info import StepInfo
from heavystep.optim.polyak import SHBPolyak
from heavystep.optim.recording.recorder import Recorder
from heavystep.optim.shb import SHB
from heavystep.optim.smoothness import SmoothnessEstimate, estimate_smoothness

__all__ = [
    "SHB",
    "SLS",
    "SPS",
    "CapturedStep",
    "Diminishing",
    "Recorder",
    "SHBArmijo",
    "SHBPolyak",
    "SmoothnessEstimate",
    "StepInfo",
    "estimate_smoothness",
]
