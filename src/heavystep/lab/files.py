"""Files that the laboratory writes: where they are kept, and how they appear in one step."""

import errno
import hashlib
import os
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
VARIABLE = "HEAVYSTEP_CACHE"
PREFIX = ".heavystep-part."
ORPHANED = 3600.0  # what is older than this many seconds belongs to nobody
ANYBODY = 0o666  # the permissions of a file before the user's umask takes some away
MARK = ".heavystep"  # the name of the file that marks an output folder


def cache_home() -> Path:
    """The folder for everything that can be made again; ``HEAVYSTEP_CACHE`` names another one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else expanded(Path("~")) / ".cache" / "heavystep"


def expanded(path: Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home directory that they mean."""
    try:
        return path.expanduser()
    except RuntimeError:
        reason = f"there is no such home directory; name a folder, for caches by {VARIABLE}"
        raise OSError(errno.ENOENT, reason, str(path)) from None


@cache
def hash_sources(names: tuple[str, ...] = (".",)) -> str:
    """The hash of some modules and folders of the package; default: of all of it."""
    digest = hashlib.sha256()
    for name in names:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object], mode: int = ANYBODY) -> None:
    """Let ``write`` make a file beside ``path``, then rename it to ``path`` in one step.

    ``write`` is told a temporary name, under which there is an empty file. The file has at most the
    permissions ``mode``; the user's umask takes away from them.
    """
    temporary = path.parent / f"{PREFIX}{secrets.token_hex(8)}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode | 0o600))
        try:
            write(temporary)
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:  # about the file that the user knows
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None


def remove_leftovers(folder: Path, seconds: float = ORPHANED) -> None:
    """Remove what killed processes left under temporary names in a folder and below."""
    for path in list(folder.rglob(f"{PREFIX}*")):
        with suppress(OSError):
            if time.time() - path.lstat().st_mtime > seconds:
                path.unlink()


def claim_folder(out: Path) -> None:
    """Mark a folder as an output folder, and make it if there is none.

    Raises:
        ValueError: the folder holds files of others, or cannot be written to.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        others = [path for path in out.iterdir() if not path.name.startswith(MARK)]
        if others and not (out / MARK).exists():
            raise ValueError(f"{out} holds other files: give an empty or a new output folder")
        write_atomically(out / MARK, lambda part: part.write_text("made by heavystep\n"))
        remove_leftovers(out)
    except OSError as error:
        reason = error.strerror or os.strerror(error.errno or 0)
        raise ValueError(f"cannot write to {out}: {reason}") from None


def runs_folder(out: Path, figure: str) -> Path:
    """The folder of the runs of a figure, a comparison or a sweep."""
    return out / figure / "runs"
