"""Files that this package writes: where they are kept, and how they are written."""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

PACKAGE = Path(__file__).parent
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
"""The temporary name of a file that is being written."""


def cache_home() -> Path:
    """The folder for everything that can be made again; ``HEAVYSTEP_CACHE`` names another one."""
    return Path(os.environ.get("HEAVYSTEP_CACHE") or Path.home() / ".cache" / "heavystep")


def hash_sources(names: Iterable[str]) -> str:
    """The hash of some modules and folders of the package."""
    digest = hashlib.sha256()
    for name in names:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then rename it to ``path`` in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        write(temporary)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise _about(path, error) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_folder_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` fill a folder beside ``path``, then rename it to ``path`` in one step.

    If there is such a folder, files of the same names are replaced one by one, and the others stay.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as temporary:
            # One folder further down, because only the owner may look into the temporary one.
            folder = Path(temporary) / path.name
            folder.mkdir()
            write(folder)
            if path.is_dir():
                for file in sorted(folder.iterdir()):
                    os.replace(file, path / file.name)
            else:
                os.rename(folder, path)
    except OSError as error:
        raise _about(path, error) from None


def _about(path: Path, error: OSError) -> OSError:
    """The same error, about ``path`` and not about the temporary name."""
    return OSError(error.errno, error.strerror or str(error), str(path))
