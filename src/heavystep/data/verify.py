"""Whether a file is the published data set."""

from pathlib import Path

import numpy as np

from heavystep.data.cache import load_file
from heavystep.data.catalogue import DataSet
from heavystep.data.compressed import text_digest
from heavystep.data.labelled import Labelled
from heavystep.data.published import FileDigest, another, check_digest


def verify(expected: DataSet, path: Path) -> None:
    """Check size and sha256 of the text, then what is parsed from it.

    Args:
        expected: of the catalogue.
        path: the file.

    Raises:
        ValueError: it is something else.
        OSError: it cannot be read.
    """
    check_text(expected, text_digest(path), str(path))
    check_counts(expected, load_file(path), str(path))


def check_text(expected: DataSet, found: FileDigest, name: str) -> None:
    """Refuse a text that is not the published one; line ends do not count.

    Args:
        expected: of the catalogue.
        found: size and hash of the text.
        name: what the message calls the file.

    Raises:
        ValueError: size or hash differ.
    """
    published = FileDigest(expected.text_bytes, expected.text_sha256)
    check_digest(name, expected.name, found, published, "text")


def check_counts(expected: DataSet, data: Labelled, name: str) -> None:
    """Refuse rows that cannot be those of the published data set; cheap enough for each load.

    Args:
        expected: of the catalogue.
        data: what was read.
        name: what the message calls the file.

    Raises:
        ValueError: numbers of rows, columns, entries or positive labels differ.
    """
    positives = int(np.count_nonzero(data.labels == data.labels.max()))
    counts = {
        "rows": (data.rows.n, expected.n),
        "columns": (data.rows.dim, expected.dim),
        "entries": (len(data.rows.values), expected.entries),
        "positive labels": (positives, expected.positives),
    }
    for what, (found, wanted) in counts.items():
        if wanted is not None and found != wanted:
            raise another(name, expected.name, f"{found} {what}, not {wanted}")
