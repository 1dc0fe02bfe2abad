"""Data sets: where they are, how they are fetched, checked and read.

The data folder is ``$HEAVYSTEP_DATA``, else ``data`` in the user's cache folder. It has the layout
in which data are published: ``libsvm/NAME`` (also ``.bz2``, ``.xz`` or ``.gz``),
``cifar-10-batches-bin/`` and ``cifar-100-binary/``, ``text/NAME.txt``. A data set counts only if
its content has the sha256 that is written down here. Nothing is unpickled, and nothing is written
beside a file of the user.
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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.lab.files import PREFIX, cache_home, expanded
from heavystep.sparse import SparseRows

VARIABLE = "HEAVYSTEP_DATA"
LIBSVM_PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/"
TEXT_PAGE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/"
IMAGE = (3, 32, 32)
"""Colour, row, column."""
OPENERS = {"": io.BytesIO, ".bz2": bz2.BZ2File, ".xz": lzma.LZMAFile, ".gz": gzip.GzipFile}
MAGIC = {b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x1f\x8b": ".gz"}
"""The first bytes decide how a file is packed, not its name."""
RATIO, ALLOWED = 1000, 1 << 26
"""A file may unpack to 64 MiB, or to a thousand times its size: rows of numbers that repeat pack to
a hundredth, and what packs to less was made to fill a memory."""
SLACK = 1 << 16
"""A published file may be this much longer than its text, whose lines may end in two bytes."""


class File(NamedTuple):
    """A published file: its place in the data folder, its size and hash without carriage returns.

    Line ends do not count, because svmguide1 is published with others than the copy measured here.
    """

    place: str
    size: int
    sha256: str


@dataclass(frozen=True)
class DataSet:
    """What is known of a data set.

    Args:
        name: what it is called here.
        title: its name in the paper.
        url: where it is published.
        files: its content, without an ending that says how it is packed.
        n: rows, images or characters.
        dim: columns, numbers in an image, or different characters.
        positives: LIBSVM: rows with the larger of the two labels.
        classes: CIFAR: labels are 0 to this less one; its last file has the test images.
    """

    name: str
    title: str
    url: str
    files: tuple[File, ...]
    n: int
    dim: int
    positives: int = 0
    classes: int = 0

    @property
    def target(self) -> Path:
        """Where it is put when it is fetched: a file, or for CIFAR a folder."""
        place = data_folder() / self.files[0].place
        return place.parent if self.classes else place.with_name(Path(self.url).name
            if place.parent.name == "libsvm" else place.name)  # fmt: skip


def _libsvm(name: str, title: str, n: int, dim: int, positives: int, size: int, sha: str,
            ending: str = "") -> DataSet:  # fmt: skip
    files = (File(f"libsvm/{name}", size, sha),)
    return DataSet(name, title, f"{LIBSVM_PAGE}{name}{ending}", files, n, dim, positives)


def _cifar(name: str, title: str, folder: str, archive: str, label_bytes: int, classes: int,
           files: dict[str, tuple[int, str]]) -> DataSet:  # fmt: skip
    size = label_bytes + int(np.prod(IMAGE))
    known = tuple(File(f"{folder}/{f}.bin", n * size, sha) for f, (n, sha) in files.items())
    count = sum(n for n, _ in files.values())
    return DataSet(name, title, CIFAR_PAGE + archive, known, count, 3072, 0, classes)


# fmt: off
SETS = {each.name: each for each in (
    _libsvm("a9a", "a9a", 32561, 123, 7841, 2329875,
            "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
    _libsvm("cod-rna", "Cod-RNA", 59535, 8, 19845, 4667176,
            "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c"),
    _libsvm("ijcnn1", "IJCNN1", 49990, 22, 4853, 7744897,
            "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f", ".bz2"),
    # Its labels are 1 and 2, and the larger one is the positive one here.
    _libsvm("mushrooms", "Mushrooms", 8124, 112, 4208, 879712,
            "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
    _libsvm("phishing", "Phishing", 11055, 68, 6157, 3620168,
            "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a"),
    _libsvm("real-sim", "real-sim", 72309, 20958, 22238, 90377515,
            "0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270", ".bz2"),
    _libsvm("svmguide1", "SVMguide1", 3089, 4, 2000, 192782,
            "2b9ab55b6236f62cee6b7739b52f9e7cb033771f39b9c22c1f1790d80ef14d7f"),
    _libsvm("w8a", "w8a", 49749, 300, 1479, 3478238,
            "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2"),
    _cifar("cifar10", "CIFAR-10", "cifar-10-batches-bin", "cifar-10-binary.tar.gz", 1, 10, {
        "data_batch_1": (10000, "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        "data_batch_2": (10000, "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        "data_batch_3": (10000, "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        "data_batch_4": (10000, "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        "data_batch_5": (10000, "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
        "test_batch": (10000, "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    }),
    _cifar("cifar100", "CIFAR-100", "cifar-100-binary", "cifar-100-binary.tar.gz", 2, 100, {
        "train": (50000, "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
        "test": (10000, "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
    }),
    DataSet("tinyshakespeare", "Tiny Shakespeare", f"{TEXT_PAGE}tinyshakespeare/input.txt", (
        File("text/tinyshakespeare.txt", 1115394,
             "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),), 1115394, 65),
)}
# fmt: on
LIBSVM = {name: each for name, each in SETS.items() if each.positives}
CIFAR = {name: each for name, each in SETS.items() if each.classes}


class Labelled(NamedTuple):
    """Rows, and one label each as it stands in the file."""

    rows: SparseRows
    labels: Array


class Images(NamedTuple):
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64."""

    images: Array
    labels: Array


class TrainTest(NamedTuple):
    """Training and test images, each in the published order."""

    train: Images
    test: Images


def data_set(name: str) -> DataSet:
    """A data set by its name.

    Raises:
        ValueError: there is no such data set.

    >>> data_set("ijcnn1").url
    'https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/ijcnn1.bz2'
    """
    validation.choice("data set", name, SETS)
    return SETS[name]


def data_folder() -> Path:
    """The folder of all data.

    Raises:
        OSError: the user has no home directory, and no variable names another folder.
    """
    return expanded(Path(os.environ.get(VARIABLE) or cache_home() / "data"))


def _found(file: File) -> Path | None:
    """Where a file is, packed or not."""
    plain = data_folder() / file.place
    endings = OPENERS if plain.parent.name == "libsvm" else ("",)
    return next((p for end in endings if (p := Path(f"{plain}{end}")).is_file()), None)


def present(names: Iterable[str]) -> dict[str, Path]:
    """Those data sets of which every file is there, with their file or folder.

    Raises:
        ValueError: there is no data set of some name.
    """
    found = {}
    for known in map(data_set, names):
        paths = [_found(file) for file in known.files]
        if all(paths):
            first = paths[0]
            assert first is not None
            found[known.name] = first.parent if known.classes else first
    return found


def missing_text(names: Iterable[str]) -> str:
    """One line about data sets that are not there, and what to do; empty if all are there."""
    names = list(names)
    here = present(names)
    lacking = [data_set(name) for name in names if name not in here]
    if not lacking:
        return ""
    places = ", ".join(
        f"{each.name} in {each.target if each.classes else each.target.parent}" for each in lacking
    )
    urls = " and ".join(each.url for each in lacking)
    verb = "unpack" if any(each.classes for each in lacking) else "put"
    example = lacking[0].files[0].place
    return (
        f"no {places}: run 'heavystep data fetch {' '.join(each.name for each in lacking)}'; "
        f"offline, {verb} {urls} there, or set {VARIABLE} to a folder with {example}"
    )


def locate(name: str) -> Path:
    """The file or folder of a data set.

    Raises:
        ValueError: there is no such data set.
        FileNotFoundError: it is not there; the message says where it belongs and what to do.
    """
    found = present([name])
    if not found:
        raise FileNotFoundError(errno.ENOENT, missing_text([name]), name)
    return found[name]


def _text_of(file: IO[bytes], name: str, limit: int | None = None) -> bytes:
    """The unpacked content of a file.

    Raises:
        ValueError: it is damaged, cut off, or unpacks to far more than data do.
    """
    packed = file.read() if limit is None else file.read(limit + 1)
    limit = limit or ALLOWED + RATIO * len(packed)
    ending = next((end for magic, end in MAGIC.items() if packed.startswith(magic)), "")
    opener: Any = OPENERS[ending]
    try:
        if ending == ".gz":
            text = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit + 1)
        else:
            text = (opener(io.BytesIO(packed)) if ending else io.BytesIO(packed)).read(limit + 1)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        raise ValueError(f"{name}: this {ending[1:]} file is damaged or cut off") from None
    if len(text) > limit:
        raise ValueError(f"{name} unpacks to more than {limit} bytes; unpack it yourself if meant")
    return bytes(text)


def _check(expected: File, text: bytes, called: str, name: str, *, lines: bool) -> None:
    """Refuse content that is not the published one; in ``lines`` their ends do not count."""
    text = text.replace(b"\r", b"") if lines else text
    if len(text) != expected.size:
        difference = f"{len(text)} bytes, not {expected.size}"
    else:
        digest = hashlib.sha256(text).hexdigest()
        difference = f"its sha256 is {digest[:12]}..., not {expected.sha256[:12]}..."
        if digest == expected.sha256:
            return
    raise ValueError(f"{called} is not the published {name}: {difference}")


def _checked(known: DataSet) -> list[bytes]:
    """The content of the files of a data set, each checked.

    Raises:
        ValueError: a file is not the published one.
        FileNotFoundError: it is not there.
    """
    locate(known.name)
    contents = []
    for file in known.files:
        path = _found(file)
        assert path is not None
        with path.open("rb") as stream:
            text = stream.read() if known.classes else _text_of(stream, str(path))
        _check(file, text, str(path), known.name, lines=not known.classes)
        contents.append(text)
    return contents


def verify(name: str) -> Path:
    """Check a data set that is here against what was published; returns its file or folder.

    Raises:
        ValueError: it is something else.
        OSError: it cannot be read, or is not there.
    """
    _checked(data_set(name))
    return locate(name)


def load(source: Path | str, dim: int | None = None) -> Labelled:
    """Rows and labels of a data set by its name, or of any file in LIBSVM's format by its path.

    A text that is the name of a data set means that one, whatever lies in the current folder.

    Args:
        source: a name, or a file, packed or not.
        dim: number of columns; default: the largest index.

    Raises:
        ValueError: a line is malformed, or a data set is not the published one.
        OSError: there is no such file, or it cannot be read.
    """
    if isinstance(source, str) and source in LIBSVM:
        known = LIBSVM[source]
        return _parsed(_checked(known)[0], str(locate(source)), dim or known.dim)
    path = Path(source)
    with path.open("rb") as stream:
        return _parsed(_text_of(stream, str(path)), str(path), dim)


def _parsed(text: bytes, name: str, dim: int | None) -> Labelled:
    from sklearn.datasets import load_svmlight_file

    if not text.split():
        raise ValueError(f"{name} has no rows")
    try:
        matrix, labels = load_svmlight_file(io.BytesIO(text), n_features=dim, zero_based=False)
        rows = SparseRows(
            matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data,
            matrix.shape[1],
        )  # fmt: skip
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name} is not in LIBSVM's format: {error}") from None
    if not (np.isfinite(rows.values).all() and np.isfinite(labels).all()):
        raise ValueError(f"{name} holds numbers that are not finite")
    return Labelled(rows, labels)


def binary_labels(labels: Array) -> Array:
    """Labels of two kinds as -1.0 and +1.0; the larger value becomes +1.

    Raises:
        ValueError: there are fewer or more than two values.

    >>> binary_labels(np.array([2.0, 1.0, 1.0]))
    array([ 1., -1., -1.])
    """
    kinds = np.unique(labels)
    if len(kinds) != 2:
        shown = ", ".join(f"{kind:g}" for kind in kinds[:5]) + (", ..." if len(kinds) > 5 else "")
        raise ValueError(f"labels must have exactly two values, got {len(kinds)}: {shown or '-'}")
    return np.where(labels == kinds[1], 1.0, -1.0)


def load_cifar(name: str) -> TrainTest:
    """The images and labels of CIFAR-10, or of CIFAR-100 with its fine labels.

    A record is an image: its label (of CIFAR-100 the coarse, then the fine one), a byte each, then
    3072 bytes, the red, green and blue planes row by row.

    Raises:
        ValueError: there is no such data set, or a file is not the published one.
        OSError: a file is not there, or cannot be read.
    """
    validation.choice("data set", name, CIFAR)
    known, width = CIFAR[name], int(np.prod(IMAGE)) + (1 if CIFAR[name].classes == 10 else 2)
    parts = [np.frombuffer(text, np.uint8).reshape(-1, width) for text in _checked(known)]

    def images(records: list[Array]) -> Images:
        all_records = np.concatenate(records)
        labels = all_records[:, -int(np.prod(IMAGE)) - 1].astype(np.int64)
        return Images(all_records[:, -int(np.prod(IMAGE)) :].reshape(-1, *IMAGE), labels)

    return TrainTest(images(parts[:-1]), images(parts[-1:]))


def load_text(name: str = "tinyshakespeare") -> str:
    """A text to learn characters from.

    Raises:
        ValueError: the file is not the published one.
        OSError: it is not there, or cannot be read.
    """
    return _checked(data_set(name))[0].replace(b"\r", b"").decode("ascii")


def fetch(name: str, url: str | None = None) -> Path:
    """Download a data set into the data folder: whole and checked, or not at all.

    Args:
        name: of the data set.
        url: another place to take it from; https, or http on 127.0.0.1.

    Returns:
        The file or folder.

    Raises:
        ValueError: what came is not the published one.
        OSError: the server cannot be reached or refuses, or the file cannot be written; the
            message says how to go on without a network.
    """
    import pooch
    from requests import RequestException

    known, source = data_set(name), url or data_set(name).url
    if not source.startswith(("https://", "http://127.0.0.1")):
        raise ValueError(f"{source} is not https; nothing was fetched")
    target = known.target
    pooch.get_logger().setLevel("ERROR")
    downloader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=30)

    def received(folder: Path) -> Path:
        try:
            return Path(
                pooch.retrieve(source, None, "download", path=folder, downloader=downloader)
            )
        except RequestException as error:
            reason = " ".join(str(error).split())
            advice = f"cannot be fetched from {source} ({reason}); {missing_text([name])}"
            raise OSError(errno.EIO, advice or reason, str(target)) from None

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=PREFIX) as beside:
        file = received(Path(beside))
        if known.classes:
            folder = Path(beside) / target.name
            folder.mkdir()
            _extract(known, file, folder, source)
            target.mkdir(exist_ok=True)
            for part in folder.iterdir():  # each whole and checked
                os.replace(part, target / part.name)
            return target
        with file.open("rb") as stream:
            text = _text_of(stream, source, known.files[0].size + known.n + SLACK)
        _check(known.files[0], text, source, name, lines=True)
        os.replace(file, target)
    return target


def _extract(known: DataSet, archive: Path, folder: Path, source: str) -> None:
    """Write the expected members of an archive; whatever else is in it is passed over."""
    wanted = {file.place: file for file in known.files}
    try:
        with tarfile.open(archive, "r:gz") as members:
            while wanted and (member := members.next()) is not None:
                file = wanted.pop(member.name, None)
                if file is None:
                    continue
                called = f"{member.name} in {source}"
                content = members.extractfile(member) if member.isreg() else None
                if content is None:
                    raise ValueError(f"{called} is not a plain file")
                text = content.read(file.size + 1)
                _check(file, text, called, known.name, lines=False)
                (folder / Path(file.place).name).write_bytes(text)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        if getattr(error, "errno", None):  # the disk, not what is on it
            raise
        raise ValueError(f"{source} is not a whole tar archive: {error}") from None
    if wanted:
        raise ValueError(f"{source} has no {', '.join(wanted)}")
