"""Stochastic heavy ball whose step size chooses itself: Polyak step size and Armijo line search."""

from heavystep.optim import SHB, SLS, SPS, Diminishing, SHBArmijo, SHBPolyak, StepInfo

__all__ = ["SHB", "SLS", "SPS", "Diminishing", "SHBArmijo", "SHBPolyak", "StepInfo"]
__version__ = "0.1.0"
