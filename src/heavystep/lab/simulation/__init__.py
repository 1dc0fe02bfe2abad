"""Runs of a method on a problem: compiled loops, the problems they know, what is measured."""

from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.run import log_grid, metric_names, simulate

__all__ = ["Configuration", "configure", "log_grid", "metric_names", "simulate"]
