"""Numba back end: importing it lets every rule be called from compiled code."""

from heavystep.engine import numba_rules as numba_rules
