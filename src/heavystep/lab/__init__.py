"""The laboratory: what reproduces the paper and measures methods; the extra ``lab`` brings it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heavystep.lab.comparison.page import compare
    from heavystep.lab.figures.figure import reproduce
    from heavystep.lab.simulation import simulate
    from heavystep.lab.simulation.sweep import sweep

__all__ = ["compare", "reproduce", "simulate", "sweep"]
_HOMES = {
    "compare": "heavystep.lab.comparison.page",
    "reproduce": "heavystep.lab.figures.figure",
    "simulate": "heavystep.lab.simulation",
    "sweep": "heavystep.lab.simulation.sweep",
}
"""The module of each name; it is imported when the name is first asked for."""


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from heavystep.extras import needed_by

    if name not in _HOMES:
        raise AttributeError(f"module 'heavystep.lab' has no attribute {name!r}")
    with needed_by(f"heavystep.lab.{name}", "lab"):
        found = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return found
