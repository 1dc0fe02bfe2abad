"""Files that this package writes: where they are kept, and how they are written.

While something is being written it has a temporary name that nobody else uses, and a lock that the
system releases when the process ends, however it ends. So what a killed process left behind can be
told from what another one is writing, and from files of others.
"""

import errno
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # there are systems without such locks
    fcntl = None

PACKAGE = Path(__file__).parent
VARIABLE = "HEAVYSTEP_CACHE"
PREFIX = ".heavystep-part."
TEMPORARY = re.compile(re.escape(PREFIX) + r"[0-9a-f]{16}")
"""The temporary name of a file or folder that is being written."""
ORPHANED = 3600.0
"""Where there are no locks, what is older than this many seconds belongs to no process any more."""
ANYBODY = 0o666
"""The permissions of a file before the user's umask takes some away."""


def cache_home() -> Path:
    """The folder for everything that can be made again; ``HEAVYSTEP_CACHE`` names another one.

    Raises:
        OSError: the user has no home directory, and the variable is not set.
    """
    named = os.environ.get(VARIABLE)
    return Path(named) if named else expanded(Path("~")) / ".cache" / "heavystep"


def expanded(path: Path) -> Path:
    """A path with ``~`` and ``~user`` replaced by the home directory that they mean.

    Raises:
        OSError: there is no such user or no such directory.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        reason = f"there is no such home directory; name a folder, for caches by {VARIABLE}"
        raise OSError(errno.ENOENT, reason, str(path)) from None


def hash_sources(names: Iterable[str]) -> str:
    """The hash of some modules and folders of the package."""
    digest = hashlib.sha256()
    for name in names:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def permissions(path: Path) -> int:
    """Who may read and write a file; for what is made of it and must not be read by others."""
    return path.stat().st_mode & ANYBODY


def write_atomically(path: Path, write: Callable[[Path], object], mode: int = ANYBODY) -> None:
    """Let ``write`` make a file beside ``path``, then rename it to ``path`` in one step.

    Args:
        path: the file.
        write: told the temporary name, under which there is an empty file.
        mode: the permissions at most; the user's umask takes away from them.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary(path.parent, lambda place: _new_file(place, mode)) as temporary:
            write(temporary)
            os.replace(temporary, path)
    except OSError as error:
        raise _about(path, error) from None


def write_folder_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a folder beside ``path``, then rename it to ``path`` in one step.

    If there is such a folder, files of the same names are replaced one by one, and the others stay.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with _temporary(path.parent, _new_folder) as temporary:
            # One folder further down, because only the owner may look into the temporary one.
            folder = temporary / path.name
            folder.mkdir()
            write(folder)
            if path.is_dir():
                for file in sorted(folder.iterdir()):
                    os.replace(file, path / file.name)
            else:
                os.rename(folder, path)
    except OSError as error:
        raise _about(path, error) from None


def remove_leftovers(folder: Path, *, below: bool = False) -> None:
    """Remove what killed processes left under temporary names; nothing else is touched.

    Args:
        folder: where to look.
        below: whether also in all folders in it.
    """
    for path in list((folder.rglob if below else folder.glob)(f"{PREFIX}*")):
        if TEMPORARY.fullmatch(path.name) and not path.is_symlink():
            with suppress(OSError):
                _remove_unless_held(path)


@contextmanager
def _temporary(folder: Path, make: Callable[[Path], int]) -> Iterator[Path]:
    """A new file or folder, locked for the block and removed after it unless it was renamed."""
    while True:
        place = folder / f"{PREFIX}{secrets.token_hex(8)}"
        handle = make(place)
        try:
            _lock(handle, wait=True)
            # Somebody may have taken it for a leftover before it was locked.
            if not place.exists():
                continue
            try:
                yield place
            finally:
                _remove(place)
            return
        finally:
            os.close(handle)


def _new_file(place: Path, mode: int) -> int:
    return os.open(place, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode | 0o600)


def _new_folder(place: Path) -> int:
    place.mkdir(0o700)
    return os.open(place, os.O_RDONLY)


def _remove_unless_held(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        free = _lock(handle, wait=False)
        if free is None:
            free = time.time() - path.stat().st_mtime > ORPHANED
        if free:
            _remove(path)
    finally:
        os.close(handle)


def _lock(handle: int, *, wait: bool) -> bool | None:
    """Whether the lock could be had; None where there are none."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:  # a file system without them
        return None
    return True


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _about(path: Path, error: OSError) -> OSError:
    """The same error, about ``path`` and not about the temporary name."""
    return OSError(error.errno, error.strerror or str(error), str(path))
