"""The engine that a user asks for by name."""

from collections.abc import Mapping
from typing import Any

from heavystep import validation
from heavystep.sweeps.engines import Engine, LocalEngine

CHOICES = ("engine", "address", "jobs")
NAMES = ("local", "ray")


def engine_of(chosen: Mapping[str, Any], gpus: float = 0.0) -> Engine:
    """The one chosen; threads of this process by default.

    Args:
        chosen: among :data:`CHOICES`.
        gpus: that each job needs.

    Raises:
        ValueError: there is no such engine, or an option is not for it.
    """
    name, jobs = chosen.get("engine", "local"), chosen.get("jobs")
    validation.choice("engine", name, NAMES)
    if jobs is not None:
        validation.integer("jobs", jobs, 1)
    if name == "ray":
        from heavystep.sweeps.ray_engine import RayEngine  # an extra

        return RayEngine(chosen.get("address"), jobs, gpus)
    if "address" in chosen:
        raise ValueError("--address is the address of a Ray cluster: add --engine ray")
    return LocalEngine(jobs)
