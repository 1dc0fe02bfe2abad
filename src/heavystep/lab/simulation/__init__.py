"""Runs of a method on a problem: compiled loops, the problems they know, what is measured."""

from heavystep.lab.simulation.configuration import Configuration, configure
from heavystep.lab.simulation.problems import index_stream
from heavystep.lab.simulation.records import draw_samples, record_runs
from heavystep.lab.simulation.run import Problem, log_grid, metric_names, simulate

__all__ = [
    "Configuration",
    "Problem",
    "configure",
    "draw_samples",
    "index_stream",
    "log_grid",
    "metric_names",
    "record_runs",
    "simulate",
]
