"""Stochastic heavy ball whose step size chooses itself: Polyak step size and Armijo line search."""

from typing import TYPE_CHECKING, Any

from heavystep import certificates, lower_bounds, problems, theory
from heavystep.certificates import certify
from heavystep.methods import paper_settings
from heavystep.optim import (
    SHB,
    SLS,
    SPS,
    Average,
    CapturedStep,
    Diminishing,
    Recorder,
    SHBAdam,
    SHBArmijo,
    SHBPolyak,
    StepInfo,
    create,
    estimate_smoothness,
)

if TYPE_CHECKING:
    from heavystep.simulation.run import simulate
    from heavystep.sweeps.public import sweep

__all__ = [
    "SHB",
    "SLS",
    "SPS",
    "Average",
    "CapturedStep",
    "Diminishing",
    "Recorder",
    "SHBAdam",
    "SHBArmijo",
    "SHBPolyak",
    "StepInfo",
    "certificates",
    "certify",
    "create",
    "estimate_smoothness",
    "lower_bounds",
    "paper_settings",
    "problems",
    "simulate",
    "sweep",
    "theory",
]
__version__ = "0.1.0"

_EXTRAS = {
    "simulate": ("heavystep.simulation.run", "simulation"),
    "sweep": ("heavystep.sweeps.public", "figures"),
}
"""What is imported when it is first asked for, and the extra that brings what it needs."""


def __getattr__(name: str) -> Any:
    if name not in _EXTRAS:
        raise AttributeError(f"module 'heavystep' has no attribute {name!r}")
    from importlib import import_module

    module, extra = _EXTRAS[name]
    try:
        return getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"heavystep.{name} needs {error.name}, which the extra {extra!r} installs: "
            f"pip install 'heavystep[{extra}]', or in a clone pip install -e '.[{extra}]'",
            name=error.name,
        ) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
