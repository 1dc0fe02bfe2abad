"""Every data set, whatever its kind: one place to find, check and fetch it by its name."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from heavystep import validation
from heavystep.data import archive, cifar, download, locate, text
from heavystep.data import verify as libsvm
from heavystep.data.catalogue import CATALOGUE, DataSet
from heavystep.data.cifar import CIFAR, ImageSet
from heavystep.data.text import TEXTS, Text
from heavystep.data.web import Progress


class Kind(NamedTuple):
    """What can be done with the data sets of one kind.

    Args:
        entries: the catalogue.
        present: those that are there.
        missing_text: one line about those that are not.
        target: where one is put when it is fetched.
        verify: refuse what is not the published one.
        fetch: download one.
    """

    entries: Mapping[str, Any]
    present: Callable[[Iterable[str]], dict[str, Path]]
    missing_text: Callable[[Iterable[str]], str]
    target: Callable[[Any], Path]
    verify: Callable[[Any, Path], object]
    fetch: Callable[[Any, Progress], Path]


KINDS = (
    Kind(
        entries=CATALOGUE,
        present=locate.present,
        missing_text=locate.missing_text,
        target=locate.published_place,
        verify=libsvm.verify,
        fetch=download.fetch,
    ),
    Kind(
        entries=CIFAR,
        present=cifar.present,
        missing_text=cifar.missing_text,
        target=cifar.folder_of,
        verify=cifar.read,
        fetch=archive.fetch,
    ),
    Kind(
        entries=TEXTS,
        present=text.present,
        missing_text=text.missing_text,
        target=text.file_of,
        verify=text.verify,
        fetch=text.fetch,
    ),
)


def entries() -> dict[str, DataSet | ImageSet | Text]:
    """All catalogues in one."""
    return {name: entry for kind in KINDS for name, entry in kind.entries.items()}


def _of(names: Iterable[str]) -> list[tuple[Kind, list[str]]]:
    """The kinds that have some of these names, each with its own."""
    names, known = list(names), entries()
    for name in names:
        validation.choice("data set", name, known)
    groups = [(kind, [name for name in names if name in kind.entries]) for kind in KINDS]
    return [(kind, own) for kind, own in groups if own]


def _kind(name: str) -> Kind:
    return _of([name])[0][0]


def present(names: Iterable[str]) -> dict[str, Path]:
    """Those data sets that are there, with their file or folder.

    Args:
        names: of any catalogue.

    Raises:
        ValueError: a name is in no catalogue.
    """
    return {name: path for kind, own in _of(names) for name, path in kind.present(own).items()}


def missing_text(names: Iterable[str]) -> str:
    """What is not there and what to do, a line for each kind; '' if nothing is missing.

    Args:
        names: of any catalogue; those that are there are passed over.
    """
    return "\n".join(filter(None, (kind.missing_text(own) for kind, own in _of(names))))


def target(name: str) -> Path:
    """Where a data set is put when it is fetched.

    Args:
        name: of any catalogue.
    """
    return _kind(name).target(entries()[name])


def verify(name: str, path: Path) -> None:
    """Refuse what is not the published data set.

    Args:
        name: of any catalogue.
        path: the file or folder.

    Raises:
        ValueError: it is something else.
        OSError: it cannot be read.
    """
    _kind(name).verify(entries()[name], path)


def fetch(name: str, progress: Progress) -> Path:
    """Download a data set.

    Args:
        name: of any catalogue.
        progress: told how far it is.

    Returns:
        The file or folder.

    Raises:
        ValueError: what came is not the published one.
        OSError: the server cannot be reached, or the data cannot be written.
    """
    return _kind(name).fetch(entries()[name], progress)
