"""Where data sets are, and what to tell whoever has none.

The data folder is ``$HEAVYSTEP_DATA``, else ``data`` in the user's cache folder. A data set is the
file ``libsvm/NAME`` in it, or the same with ``.bz2``, ``.xz`` or ``.gz``. (Images:
:mod:`heavystep.data.cifar`.)
"""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from heavystep.data.catalogue import PAGE, DataSet, data_set
from heavystep.data.compressed import ENDINGS
from heavystep.files import cache_home, expanded

VARIABLE = "HEAVYSTEP_DATA"


def data_folder() -> Path:
    """The folder of all data.

    Raises:
        OSError: the user has no home directory, and no variable names another folder.
    """
    return expanded(Path(os.environ.get(VARIABLE) or cache_home() / "data"))


def libsvm_folder() -> Path:
    """The folder of the files in LIBSVM's format."""
    return data_folder() / "libsvm"


def published_place(wanted: DataSet) -> Path:
    """Where a data set is put when it is fetched.

    Args:
        wanted: of the catalogue.
    """
    return libsvm_folder() / wanted.published


def may_write(folder: Path) -> bool:
    """Whether a folder's permissions allow writing to anybody; if not, root should not either.

    Args:
        folder: need not exist.
    """
    try:
        return bool(folder.stat().st_mode & 0o222)
    except FileNotFoundError:
        return folder.parent != folder and may_write(folder.parent)
    except OSError:
        return False


def refuse_unwritable(folder: Path) -> None:
    """Stop where :func:`may_write` says no.

    Args:
        folder: need not exist.

    Raises:
        PermissionError: it may not be written to; the message says what to do.
    """
    if not may_write(folder):
        advice = f"nobody may write to this folder; set {VARIABLE} to one of yours"
        raise PermissionError(errno.EACCES, advice, str(folder))


def present(names: Iterable[str]) -> dict[str, Path]:
    """Those data sets that are there, with their files.

    Args:
        names: of the catalogue.

    Raises:
        ValueError: a name is not in the catalogue.
    """
    found = {}
    for name in names:
        candidates = [libsvm_folder() / (data_set(name).name + ending) for ending in ENDINGS]
        existing = [path for path in candidates if path.is_file()]
        if existing:
            found[name] = existing[0]
    return found


def missing_text(names: Iterable[str]) -> str:
    """One line about data sets that are not there: where they belong and what to do; '' if none.

    Args:
        names: of the catalogue; those that are there are passed over.
    """
    names = list(names)
    here = present(names)
    missing = [name for name in names if name not in here]
    if not missing:
        return ""
    files = " ".join(data_set(name).published for name in missing)
    endings = ", ".join(ending for ending in ENDINGS if ending)
    lacking = f"{', '.join(missing)} in {libsvm_folder()} (also {endings})"
    text = remedy(lacking, missing, f"put {files} from {PAGE} there", f"libsvm/{missing[0]}")
    parent = f"; {VARIABLE} should name the folder that holds libsvm, not libsvm itself"
    return text + (parent if data_folder().name == "libsvm" else "")


def remedy(lacking: str, names: Iterable[str], offline: str, example: str) -> str:
    """The line about data sets that are not there.

    Args:
        lacking: what is not there, and where it belongs.
        names: of the data sets.
        offline: what to do without a network.
        example: what another data folder would have in it.
    """
    return (
        f"no {lacking}: run 'heavystep data fetch {' '.join(names)}'; "
        f"offline, {offline}, or set {VARIABLE} to a folder with {example}"
    )


def locate(name: str) -> Path:
    """The file of a data set.

    Args:
        name: of the catalogue.

    Raises:
        ValueError: the name is not in the catalogue.
        FileNotFoundError: it is not there; the message says where it belongs and what to do.
    """
    found = present([name])
    if not found:
        raise FileNotFoundError(errno.ENOENT, missing_text([name]), name)
    return found[name]
