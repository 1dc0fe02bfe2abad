"""A data set by its name, or any file in LIBSVM's format by its path."""

from pathlib import Path

from heavystep.data.cache import load_file, load_identified
from heavystep.data.catalogue import CATALOGUE
from heavystep.data.labelled import Labelled
from heavystep.data.locate import locate
from heavystep.data.verify import check_counts, check_text


def load(source: Path | str, dim: int | None = None) -> Labelled:
    """Rows and labels.

    A text that is a name of the catalogue means that data set, whatever lies in the current
    folder; anything else, and every ``Path``, means a file. A data set's text must have the hash
    of the catalogue.

    Args:
        source: a name of the catalogue, or a file.
        dim: number of columns; default: the largest index.

    Raises:
        ValueError: a line is malformed, or a data set is not the published one.
        OSError: there is no such file, or it cannot be read; for a data set that is not there the
            message says what to do.
    """
    if isinstance(source, Path) or source not in CATALOGUE:
        return load_file(source, dim)
    path = locate(source)
    data, digest = load_identified(path)
    check_text(CATALOGUE[source], digest, str(path))
    check_counts(CATALOGUE[source], data, str(path))
    return data if dim is None else load_file(path, dim)
