"""Files of ours: where they are kept, how they are written, what they were made by."""

import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

PACKAGE = Path(__file__).parent
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
"""What a file is called before it has its name."""


def cache_home() -> Path:
    """Where what can be made again is kept; ``HEAVYSTEP_CACHE`` moves it."""
    return Path(os.environ.get("HEAVYSTEP_CACHE") or Path.home() / ".cache" / "heavystep")


def hash_sources(names: Iterable[str]) -> str:
    """Hash of modules and folders of the package."""
    digest = hashlib.sha256()
    for name in names:
        path = PACKAGE / name
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let ``write`` make a file beside ``path``, then put it there in one step."""
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
    """Let ``write`` fill a folder beside ``path``, then put it there in one step.

    In a folder that is there already, files of the same names are replaced, one step each, and
    the others stay.
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
    """The same failure, without the name that only the writer knows."""
    return OSError(error.errno, error.strerror or str(error), str(path))
