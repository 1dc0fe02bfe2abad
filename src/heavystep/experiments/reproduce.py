"""From a figure's name to its files: runs, picture, claims."""

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from heavystep.experiments.claims import Claim
from heavystep.experiments.figures import FIGURES
from heavystep.experiments.plot import draw
from heavystep.experiments.runner import Progress, complete, kept
from heavystep.experiments.store import Store
from heavystep.files import write_atomically

MARK = ".heavystep"
"""A file that says that a folder is ours."""
ORPHANED = 3600.0
"""Seconds after which a temporary file has no owner."""


@dataclass(frozen=True)
class Reproduction:
    """What was written, and what holds."""

    pictures: list[Path]
    claims: list[Claim]
    claims_path: Path


def reproduce(
    name: str,
    out: Path,
    progress: Progress,
    *,
    sizes: dict[str, int],
    jobs: int | None,
    force: bool,
) -> Reproduction:
    """Run what is missing of a figure, draw it and evaluate its claims.

    Raises:
        ValueError: the name is unknown, or the folder is not ours or cannot be written.
    """
    folder = out / name
    known = FIGURES[name]
    figure = known.make(**sizes)
    results = complete(figure, Store(folder / "runs"), progress, jobs=jobs, force=force)
    claims = known.claims(figure, results)
    text = json.dumps([claim.as_json() for claim in claims], indent=1, allow_nan=False) + "\n"
    path = folder / "claims.json"
    write_atomically(path, lambda part: part.write_text(text))
    return Reproduction(draw(figure, results, out), claims, path)


def claim_folder(out: Path) -> None:
    """Make the output folder ours, or refuse one that holds something else or is not writable."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        if (
            not all(path.name.startswith(MARK) for path in out.iterdir())
            and not (out / MARK).exists()
        ):
            raise ValueError(f"{out} holds other files: give an empty or new folder with --out")
        write_atomically(out / MARK, lambda part: part.write_text("made by heavystep reproduce\n"))
        _sweep(out)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None


def _sweep(out: Path) -> None:
    """Remove what a killed process left half-written, long enough ago that none writes it now."""
    for path in out.rglob(".*"):
        if path.is_file() and path.name != MARK and time.time() - path.stat().st_mtime > ORPHANED:
            path.unlink(missing_ok=True)


def evaluate_claims(out: Path, note: Callable[[str], None]) -> list[Claim]:
    """The claims of every figure under ``out``, evaluated anew on its stored runs.

    Where runs of several sizes are there, those with the most steps count.

    Raises:
        ValueError: no figure's runs are complete, for the present mathematics.
    """
    claims: list[Claim] = []
    for name, known in FIGURES.items():
        store = Store(out / name / "runs")
        for sizes in sorted(store.sizes(), key=lambda size: -size["seeds"] * size["iterations"]):
            figure = known.make(**sizes)
            results = kept(figure.runs(), store, note)
            if len(results) == len(figure.runs()):
                found = known.claims(figure, results)
                note(f"{name}: {sizes['seeds']} runs of {sizes['iterations']:,} steps")
                claims += [replace(claim, id=f"{name}.{claim.id}") for claim in found]
                break
    if not claims:
        raise ValueError(f"no complete runs under {out}: run heavystep reproduce figure1 first")
    return claims
