"""A folder of ours: marked, so that nothing else is written over."""

import os
import time
from pathlib import Path

from heavystep.files import TEMPORARY, write_atomically

MARK = ".heavystep"
"""A file that says that a folder is ours."""
ORPHANED = 3600.0
"""Seconds after which a temporary file has no owner."""


def runs_folder(out: Path, figure: str) -> Path:
    """Where the runs of a figure are kept."""
    return out / figure / "runs"


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
        ours = TEMPORARY.fullmatch(path.name) and path.is_file()
        if ours and time.time() - path.stat().st_mtime > ORPHANED:
            path.unlink(missing_ok=True)
