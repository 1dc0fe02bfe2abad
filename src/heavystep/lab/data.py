"""Data sets: where they are, how they are fetched, checked and read.

The data folder is ``$HEAVYSTEP_DATA``, else ``data`` in the user's cache folder. It has the layout
in which data are published: ``libsvm/NAME`` (also ``.bz2``, ``.xz`` or ``.gz``),
``cifar-10-batches-bin/`` and ``cifar-100-binary/``, ``text/NAME.txt``. A data set counts only if
its content has the sha256 that is written down here. Nothing is written beside a user's file.
"""

import bz2
import errno
import gzip
import hashlib
import io
import lzma
import os
import sys
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.store import cache_home, expanded, write_atomically
from heavystep.problems.logistic import row_norms, row_of_entries

VARIABLE = "HEAVYSTEP_DATA"
LIBSVM_PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/"
TEXT_PAGE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
IMAGE = (3, 32, 32)
PIXELS = 3 * 32 * 32
LARGEST = 2**28  # bytes that are unpacked of a published file; none is larger
UNPACK: dict[bytes, Callable[[Any], Any]] = {
    b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open, b"\x1f\x8b": gzip.open,
}  # fmt: skip
"""The first bytes decide how a file is packed, not its name."""


@dataclass(frozen=True, eq=False)
class DataSet:
    """A catalogue entry of a data set.

    Args:
        title: its name in the paper.
        url: where it is published.
        files: the sha256 of each file's content by its place in the data folder.
        n: rows, images or characters.
        dim: columns, numbers in an image, or different characters.
        positives: of LIBSVM, rows with the larger of the two labels.
        classes: of CIFAR, where labels are 0 to this less one, and the last file is the test set.
    """

    name: str
    title: str
    url: str
    files: dict[str, str]
    n: int
    dim: int
    positives: int = 0
    classes: int = 0

    @property
    def target(self) -> Path:
        """The place of a fetched data set: a file, or for CIFAR a folder."""
        place = data_folder() / next(iter(self.files))
        return place.parent if self.classes else place

    @property
    def paths(self) -> list[Path]:
        """Its files, of LIBSVM maybe packed; empty if one is missing."""
        found = []
        for file in self.files:
            endings = ("", ".bz2", ".xz", ".gz") if self.positives else ("",)
            named = (Path(f"{data_folder() / file}{ending}") for ending in endings)
            found += [path for path in named if path.is_file()][:1]
        return found if len(found) == len(self.files) else []


TABLE = """
a9a        32561   123  7841 f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906
Cod-RNA    59535     8 19845 65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c
IJCNN1     49990    22  4853 16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f .bz2
Mushrooms   8124   112  4208 f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538
Phishing   11055    68  6157 0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a
real-sim   72309 20958 22238 0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270 .bz2
SVMguide1   3089     4  2000 2b9ab55b6236f62cee6b7739b52f9e7cb033771f39b9c22c1f1790d80ef14d7f
w8a        49749   300  1479 6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2
"""
"""LIBSVM's data sets: title, rows, columns, rows with the larger label (of mushrooms 2),
sha256 and the ending of the published file."""
IMAGES = {
    (10, "cifar-10-batches-bin"): {
        "data_batch_1": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
    (100, "cifar-100-binary"): {
        "train": "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29",
        "test": "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a",
    },
}
"""CIFAR's data sets: the classes, the folder, and the files there."""
TEXT = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def _catalogue() -> Iterator[DataSet]:
    for title, n, dim, positives, sha, *ending in map(str.split, TABLE.strip().splitlines()):
        name = title.lower()
        url, sizes = "".join([LIBSVM_PAGE, name, *ending]), map(int, (n, dim, positives))
        yield DataSet(name, title, url, {f"libsvm/{name}": sha}, *sizes)
    for (classes, folder), files in IMAGES.items():
        url = f"{CIFAR_PAGE}cifar-{classes}-binary.tar.gz"
        known = {f"{folder}/{name}.bin": sha for name, sha in files.items()}
        title = f"CIFAR-{classes}"
        yield DataSet(f"cifar{classes}", title, url, known, 60_000, PIXELS, classes=classes)
    url, known = f"{TEXT_PAGE}tinyshakespeare/input.txt", {"text/tinyshakespeare.txt": TEXT}
    yield DataSet("tinyshakespeare", "Tiny Shakespeare", url, known, 1_115_394, 65)


SETS = {each.name: each for each in _catalogue()}
LIBSVM = {name: each for name, each in SETS.items() if each.positives}
CIFAR = {name: each for name, each in SETS.items() if each.classes}


class Examples(NamedTuple):
    """Inputs and what is to be learnt of them: arrays, a sparse matrix, or tensors.

    Images are (n, 3, 32, 32) uint8, and their classes (n,) int64.
    """

    inputs: Any
    targets: Any


class Split(NamedTuple):
    """Examples to learn from, and others to test on, each in the published order."""

    train: Examples
    test: Examples


def data_set(name: str) -> DataSet:
    """A data set by its name."""
    validation.choice("data set", name, SETS)
    return SETS[name]


def data_folder() -> Path:
    """The folder of all data."""
    return expanded(os.environ.get(VARIABLE) or cache_home() / "data")


def present(names: Iterable[str]) -> dict[str, Path]:
    """The data sets whose files are all there, with their file or folder."""
    found = {known: known.paths for known in map(data_set, names)}
    return {known.name: paths[0].parent if known.classes else paths[0]
            for known, paths in found.items() if paths}  # fmt: skip


def missing_text(names: Iterable[str]) -> str:
    """One line about data sets that are not there, and what to do; empty if all are there."""
    lacking = [known for known in map(data_set, names) if not known.paths]
    if not lacking:
        return ""
    images = any(each.classes for each in lacking)
    places = (f"{e.name} in {e.target if e.classes else e.target.parent}" for e in lacking)
    return (
        f"no {', '.join(places)}: run 'heavystep data fetch {' '.join(e.name for e in lacking)}'; "
        f"offline, {'unpack' if images else 'put'} {' and '.join(e.url for e in lacking)} there, "
        f"or set {VARIABLE} to a folder with {next(iter(lacking[0].files))}"
    )


def locate(name: str) -> Path:
    """The file or folder of a data set; if it is not there, the error says what to do."""
    if missing := missing_text([name]):
        raise FileNotFoundError(errno.ENOENT, missing, name)
    return present([name])[name]


def _unpacked(path: Path, called: str, limit: int = -1) -> bytes:
    """The content of a file, of one that is packed at most ``limit`` bytes."""
    packed = path.read_bytes()
    unpack = next((each for magic, each in UNPACK.items() if packed.startswith(magic)), None)
    try:
        return unpack(io.BytesIO(packed)).read(limit) if unpack else packed
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        raise ValueError(f"{called}: this packed file is damaged or cut off") from None


def _checked(known: DataSet, contents: Iterable[bytes], called: Iterable[str]) -> list[bytes]:
    """The content of every file, if it is the published one.

    Carriage returns do not count: svmguide1 is published with others than the copy measured here.
    """
    found = []
    for sha256, content, name in zip(known.files.values(), contents, called, strict=True):
        both = [content, content.replace(b"\r", b"")]
        digests = [hashlib.sha256(each).hexdigest() for each in both]
        if sha256 not in digests:
            differs = f"its sha256 is {digests[0][:12]}..., not {sha256[:12]}..."
            raise ValueError(f"{name} is not the published {known.name}: {differs}")
        found.append(both[digests.index(sha256)])
    return found


def _published(name: str) -> list[bytes]:
    """The content of every file of a data set that is here, checked."""
    locate(name)  # or say what is missing
    paths = SETS[name].paths
    contents = (_unpacked(path, str(path), LARGEST) for path in paths)
    return _checked(SETS[name], contents, map(str, paths))


def verify(name: str) -> Path:
    """Check a data set that is here against what was published; returns its file or folder."""
    _published(name)
    return locate(name)


def load(source: Path | str) -> Examples:
    """Rows and labels of a data set by its name, or of any file in LIBSVM's format by its path.

    A text that is the name of a data set means that one, whatever lies in the current folder.

    Args:
        source: a name, or a file, packed or not. A file has as many columns as its largest index.

    Raises:
        ValueError: a line is malformed, or a data set is not the published one.
        OSError: there is no such file, or it cannot be read.
    """
    from sklearn.datasets import load_svmlight_file

    dim: int | None = None
    if isinstance(source, str) and source in LIBSVM:
        (text,), dim, called = _published(source), SETS[source].dim, str(locate(source))
    else:
        text, called = _unpacked(Path(source), str(source)), str(source)
    if not text.split():
        raise ValueError(f"{called} has no rows")
    try:
        rows, labels = load_svmlight_file(io.BytesIO(text), n_features=dim, zero_based=False)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{called} is not in LIBSVM's format: {error}") from None
    if not (np.isfinite(rows.data).all() and np.isfinite(labels).all()):
        raise ValueError(f"{called} holds numbers that are not finite")
    return Examples(rows, labels)


def unit_length(rows: Any) -> Any:
    """Rows scaled to length 1; an empty row stays empty.

    >>> from scipy.sparse import csr_array
    >>> unit_length(csr_array([[0.0, 3.0, 4.0], [0.0, 0.0, 0.0]])).data
    array([0.6, 0.8])
    """
    norms, scaled = row_norms(rows), rows.copy()
    scaled.data = rows.data / np.where(norms > 0.0, norms, 1.0)[row_of_entries(rows)]
    return scaled


def binary_labels(labels: Array) -> Array:
    """Labels of two kinds as -1.0 and +1.0; the larger value becomes +1.

    >>> binary_labels(np.array([2.0, 1.0, 1.0]))
    array([ 1., -1., -1.])
    """
    kinds = np.unique(labels)
    if len(kinds) != 2:
        shown = ", ".join(f"{kind:g}" for kind in kinds[:5])
        raise ValueError(f"labels must have exactly two values, got {len(kinds)}: {shown}")
    return np.where(labels == kinds[1], 1.0, -1.0)


def load_cifar(name: str) -> Split:
    """The images and labels of CIFAR-10, or of CIFAR-100 with its fine labels.

    A record is an image: its label (of CIFAR-100 the coarse, then the fine one), a byte each, then
    3072 bytes, the red, green and blue planes row by row.
    """
    validation.choice("data set", name, CIFAR)
    width = PIXELS + (1 if CIFAR[name].classes == 10 else 2)

    def images(parts: list[bytes]) -> Examples:
        records = np.frombuffer(b"".join(parts), np.uint8).reshape(-1, width)
        pixels, labels = records[:, -PIXELS:], records[:, -PIXELS - 1].astype(np.int64)
        return Examples(pixels.reshape(-1, *IMAGE), labels)

    *train, test = _published(name)
    return Split(images(train), images([test]))


def load_text(name: str = "tinyshakespeare") -> str:
    """A text to learn characters from."""
    return _published(name)[0].decode("ascii")


def fetch(name: str) -> Path:
    """Download a data set into the data folder: whole and checked, or not at all.

    Returns:
        The file or folder.

    Raises:
        ValueError: what came is not the published one.
        OSError: the server cannot be reached or refuses, or the file cannot be written; the
            message says how to go on without a network.
    """
    import pooch
    from requests import RequestException

    known = data_set(name)
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)
    with tempfile.TemporaryDirectory() as folder:
        try:
            file = Path(pooch.retrieve(known.url, None, "file", folder, downloader=downloader))
        except RequestException as error:
            reason = " ".join(str(error).split())
            advice = f"cannot be fetched from {known.url} ({reason}); {missing_text([name])}"
            raise OSError(errno.EIO, advice, str(known.target)) from None
        contents = _members(file, known) if known.classes else [_unpacked(file, known.url, LARGEST)]
    whole = _checked(known, contents, [known.url] * len(known.files))
    for place, content in zip(known.files, whole, strict=True):
        write_atomically(data_folder() / place, content)
    return known.target


def _members(file: Path, known: DataSet) -> list[bytes]:
    """The files of a data set in an archive."""
    try:
        with tarfile.open(file, "r:gz") as archive:
            members = [archive.extractfile(place) for place in known.files]
            return [member.read(LARGEST) if member else b"" for member in members]
    except KeyError as error:  # of a file, or of what a link points to
        raise ValueError(f"{known.url} has no {error.args[0]}") from None
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise ValueError(f"{known.url} is not a whole tar archive: {error}") from None
