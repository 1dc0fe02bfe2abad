"""Where a page was made, and what its runs remember of where they were."""

import platform
from importlib import metadata

from heavystep import __version__
from heavystep.report.reading import Part

PACKAGES = ("torch", "numpy", "numba", "scipy", "pyarrow", "matplotlib", "ray")


def environment(parts: list[Part]) -> dict[str, str]:
    """Facts by their names."""
    facts = {
        "page made with": f"heavystep {__version__}, Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}",
        "installed here": ", ".join(_installed()),
    }
    made = dict.fromkeys(where for part in parts for run in part.runs for where in run.made_on)
    if made:
        facts["training ran on"] = "; ".join(made)
    versions = sorted(
        {
            f"{name} {number}"
            for part in parts
            for run in part.runs
            for name, number in run.about.versions.items()
        }
    )
    if versions:
        facts["versions that decide numbers"] = ", ".join(versions)
    total = sum(second for part in parts for run in part.runs for second in run.seconds)
    if total:
        facts["wall time of the runs that measured it"] = f"{total:,.1f} s"
    return facts


def _installed() -> list[str]:
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found
