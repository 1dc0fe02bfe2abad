"""Output folders. They are marked, so that files of others are never written over."""

import os
import time
from pathlib import Path

from heavystep.files import TEMPORARY, write_atomically

MARK = ".heavystep"
"""The name of the file that marks an output folder."""
ORPHANED = 3600.0
"""A temporary file that is older than this many seconds belongs to no process any more."""


def runs_folder(out: Path, figure: str) -> Path:
    """The folder of the runs of a figure, or of a sweep."""
    return out / figure / "runs"


def claim_folder(out: Path) -> None:
    """Mark a folder as an output folder, after making it if there is none.

    Raises:
        ValueError: the folder holds files of others, or cannot be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        if (
            not all(path.name.startswith(MARK) for path in out.iterdir())
            and not (out / MARK).exists()
        ):
            raise ValueError(f"{out} holds other files: give an empty or a new output folder")
        write_atomically(out / MARK, lambda part: part.write_text("made by heavystep\n"))
        _sweep(out)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None


def _sweep(out: Path) -> None:
    """Remove temporary files of killed processes; they are so old that nobody writes them now."""
    for path in out.rglob(".*"):
        ours = TEMPORARY.fullmatch(path.name) and path.is_file()
        if ours and time.time() - path.stat().st_mtime > ORPHANED:
            path.unlink(missing_ok=True)
