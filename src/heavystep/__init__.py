"""Optimizers that choose their own steps: heavy ball with Polyak steps and line searches.

``HeavyStep`` is the one to begin with. ``SHBPolyak``, ``SHBArmijo`` and their baselines are the
paper's methods, ``theory`` and ``certify`` its theorems, ``lab`` its figures and the comparison.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from heavystep import certificates, lab, lower_bounds, problems, theory
    from heavystep.certificates.certify import certify
    from heavystep.integrations.common import attach, log_step
    from heavystep.methods import paper_settings
    from heavystep.optim.average import Average
    from heavystep.optim.captured import CapturedStep
    from heavystep.optim.diminishing import Diminishing
    from heavystep.optim.info import StepInfo
    from heavystep.optim.recorder import Recorder
    from heavystep.optimizers import SHB, SLS, SPS, HeavyStep, SHBArmijo, SHBPolyak, create
    from heavystep.pictures import plot_steps
    from heavystep.smoothness import estimate_smoothness
    from heavystep.suggestions import suggest

__all__ = [
    "SHB", "SLS", "SPS", "Average", "CapturedStep", "Diminishing", "HeavyStep", "Recorder",
    "SHBArmijo", "SHBPolyak", "StepInfo", "attach", "certificates", "certify", "create",
    "estimate_smoothness", "lab", "log_step", "lower_bounds", "paper_settings", "plot_steps",
    "problems", "suggest", "theory",
]  # fmt: skip
__version__ = "0.3.0"

_HOMES = {
    name: f"heavystep.{home}"
    for home, names in {
        "optimizers": "HeavyStep SHBPolyak SHBArmijo SHB SPS SLS create",
        "optim.average": "Average", "optim.captured": "CapturedStep",
        "optim.diminishing": "Diminishing", "optim.recorder": "Recorder",
        "optim.info": "StepInfo", "integrations.common": "attach log_step",
        "certificates": "certify", "smoothness": "estimate_smoothness",
        "methods": "paper_settings", "pictures": "plot_steps", "suggestions": "suggest",
    }.items()
    for name in names.split()
}  # fmt: skip
"""The module of each name, imported when the name is first asked for: torch takes seconds, and
the command line's help and completion need none of it."""
_EXTRAS = {"plot_steps": "lab"}
"""The extra that brings what a name needs beside torch and numpy."""


def __getattr__(name: str) -> Any:
    from contextlib import nullcontext
    from importlib import import_module
    from importlib.util import find_spec

    from heavystep.extras import needed_by

    if name in _HOMES:
        extra = _EXTRAS.get(name)
        with needed_by(f"heavystep.{name}", extra) if extra else nullcontext():
            found = getattr(import_module(_HOMES[name]), name)
        globals()[name] = found
        return found
    if not name.startswith("_") and find_spec(f"heavystep.{name}") is not None:
        return import_module(f"heavystep.{name}")
    raise AttributeError(f"module 'heavystep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
