"""Torch optimizers: stochastic heavy ball whose step size chooses itself."""

from heavystep.optim.armijo import SHBArmijo
from heavystep.optim.baselines import SLS, SPS
from heavystep.optim.diminishing import Diminishing
from heavystep.optim.info import StepInfo
from heavystep.optim.polyak import SHBPolyak
from heavystep.optim.shb import SHB

__all__ = ["SHB", "SLS", "SPS", "Diminishing", "SHBArmijo", "SHBPolyak", "StepInfo"]
