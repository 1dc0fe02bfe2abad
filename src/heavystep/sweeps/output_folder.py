"""Output folders. They are marked, so that files of others are never written over."""

import os
from pathlib import Path

from heavystep.files import remove_leftovers, write_atomically

MARK = ".heavystep"
"""The name of the file that marks an output folder."""


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
        remove_leftovers(out, below=True)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None
