"""The torch driver: one optimizer for every method of the registry."""

from heavystep.optim.average import Average
from heavystep.optim.captured import CapturedStep
from heavystep.optim.diminishing import Diminishing
from heavystep.optim.info import StepInfo
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.recorder import Recorder

__all__ = ["Average", "CapturedStep", "Diminishing", "Recorder", "RuleOptimizer", "StepInfo"]
