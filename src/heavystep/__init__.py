"""Stochastic heavy ball whose step size chooses itself: Polyak step size and Armijo line search."""

from heavystep import certificates, problems, theory
from heavystep.certificates import certify
from heavystep.optim import (
    SHB,
    SLS,
    SPS,
    CapturedStep,
    Diminishing,
    Recorder,
    SHBArmijo,
    SHBPolyak,
    StepInfo,
    estimate_smoothness,
)

__all__ = [
    "SHB",
    "SLS",
    "SPS",
    "CapturedStep",
    "Diminishing",
    "Recorder",
    "SHBArmijo",
    "SHBPolyak",
    "StepInfo",
    "certificates",
    "certify",
    "estimate_smoothness",
    "problems",
    "theory",
]
__version__ = "0.1.0"
