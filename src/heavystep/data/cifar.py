"""CIFAR-10 and CIFAR-100 in their published binary version, read as they are.

A record is an image: its label (of CIFAR-100 the coarse, then the fine one), a byte each, then
3072 bytes, the red, green and blue planes row by row. The data folder has the published folders
``cifar-10-batches-bin`` and ``cifar-100-binary`` in it.

Reference: A. Krizhevsky (2009), Learning Multiple Layers of Features from Tiny Images.
"""

import errno
import hashlib
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np

from heavystep import validation
from heavystep.arrays import Array
from heavystep.data.locate import data_folder, remedy
from heavystep.data.published import FileDigest, another, check_digest, check_size

PAGE = "https://www.cs.toronto.edu/~kriz/"
SHAPE = (3, 32, 32)
"""Of an image: colour, row, column."""
RECORDS = 1024
"""How many are read at once."""


class ImageFile(NamedTuple):
    """One published file.

    Args:
        name: within its folder.
        images: how many it holds.
        sha256: its hash.
    """

    name: str
    images: int
    sha256: str


@dataclass(frozen=True)
class ImageSet:
    """What a data set of images holds.

    Args:
        name: what it is called here.
        title: its name in the paper.
        folder: its published folder.
        archive: the published file that this folder is packed in.
        label_bytes: at the beginning of a record; the last one is the label.
        classes: labels are 0 to this less one.
        train: files with the training images, in order.
        test: files with the test images.
    """

    name: str
    title: str
    folder: str
    archive: str
    label_bytes: int
    classes: int
    train: tuple[ImageFile, ...]
    test: tuple[ImageFile, ...]

    @property
    def url(self) -> str:
        """Where the archive is published."""
        return PAGE + self.archive

    @property
    def files(self) -> tuple[ImageFile, ...]:
        """All of them."""
        return self.train + self.test

    @property
    def n(self) -> int:
        """Images, training and test together."""
        return sum(file.images for file in self.files)

    @property
    def dim(self) -> int:
        """Numbers in an image."""
        return math.prod(SHAPE)

    @property
    def entries(self) -> int:
        """Numbers in all images."""
        return self.n * self.dim

    @property
    def record_bytes(self) -> int:
        """Size of a record."""
        return self.label_bytes + self.dim

    def file_bytes(self, file: ImageFile) -> int:
        """Size of a file.

        Args:
            file: one of its own.
        """
        return file.images * self.record_bytes


# fmt: off
_ALL = (
    ImageSet("cifar10", "CIFAR-10", "cifar-10-batches-bin", "cifar-10-binary.tar.gz", 1, 10, (
        ImageFile("data_batch_1.bin", 10000,
                  "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"),
        ImageFile("data_batch_2.bin", 10000,
                  "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"),
        ImageFile("data_batch_3.bin", 10000,
                  "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"),
        ImageFile("data_batch_4.bin", 10000,
                  "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"),
        ImageFile("data_batch_5.bin", 10000,
                  "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"),
    ), (
        ImageFile("test_batch.bin", 10000,
                  "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"),
    )),
    ImageSet("cifar100", "CIFAR-100", "cifar-100-binary", "cifar-100-binary.tar.gz", 2, 100, (
        ImageFile("train.bin", 50000,
                  "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"),
    ), (
        ImageFile("test.bin", 10000,
                  "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"),
    )),
)
# fmt: on
CIFAR = {image_set.name: image_set for image_set in _ALL}


class Images(NamedTuple):
    """Images with one label each.

    Args:
        images: (n, 3, 32, 32) uint8: colour (red, green, blue), row, column.
        labels: (n,) int64.
    """

    images: Array
    labels: Array


class TrainTest(NamedTuple):
    """Training and test images, each in the published order."""

    train: Images
    test: Images


def load_cifar(name: str, *, verify: bool = True) -> TrainTest:
    """The images and labels of CIFAR-10, or of CIFAR-100 with its fine labels.

    Args:
        name: 'cifar10' or 'cifar100'.
        verify: compare the sha256 of every file, which takes half a second; sizes and labels are
            checked in any case.

    Raises:
        ValueError: there is no such data set, or a file is not the published one.
        OSError: a file is not there, or cannot be read; where it is not there the message says
            what to do.
    """
    if missing := missing_text([name]):
        raise FileNotFoundError(errno.ENOENT, missing, name)
    return read(CIFAR[name], folder_of(CIFAR[name]), verify=verify)


def read(wanted: ImageSet, folder: Path, *, verify: bool = True) -> TrainTest:
    """The same from any folder.

    Args:
        wanted: what should be in it.
        folder: with the files.
        verify: compare the sha256 of every file.

    Raises:
        ValueError: a file is not the published one.
        OSError: a file cannot be read.
    """
    parts = (wanted.train, wanted.test)
    return TrainTest(*(_read_part(wanted, folder, files, verify) for files in parts))


def _read_part(
    wanted: ImageSet, folder: Path, files: tuple[ImageFile, ...], verify: bool
) -> Images:
    n = sum(file.images for file in files)
    part = Images(np.empty((n, *SHAPE), np.uint8), np.empty(n, np.int64))
    begin = 0
    for file in files:
        end = begin + file.images
        place = Images(part.images[begin:end], part.labels[begin:end])
        _read_file(wanted, folder / file.name, place, file.sha256 if verify else None)
        begin = end
    return part


def _read_file(wanted: ImageSet, path: Path, place: Images, sha256: str | None) -> None:
    expected = len(place.labels) * wanted.record_bytes
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        check_size(str(path), wanted.name, size, expected)
        found = _read_records(wanted, stream, place, hashing=sha256 is not None)
    # The size once more: it may have shrunk meanwhile.
    check_digest(str(path), wanted.name, found, FileDigest(expected, sha256 or found.sha256))
    wrong = np.flatnonzero(place.labels >= wanted.classes)
    if len(wrong):
        label = f"label {place.labels[wrong[0]]} of image {wrong[0] + 1}"
        raise another(str(path), wanted.name, f"{label}, not in 0..{wanted.classes - 1}")


def _read_records(
    wanted: ImageSet, stream: BufferedReader, place: Images, hashing: bool
) -> FileDigest:
    """Fill ``place``; a part at a time, so that no second copy of all images is ever held."""
    size, digest = 0, hashlib.sha256()
    buffer = np.empty((RECORDS, wanted.record_bytes), np.uint8)
    for begin in range(0, len(place.labels), RECORDS):
        images, labels = (array[begin : begin + RECORDS] for array in place)
        records = buffer[: len(labels)]
        size += stream.readinto(records.data)
        if hashing:
            digest.update(records.data)
        labels[:] = records[:, wanted.label_bytes - 1]
        images[:] = records[:, wanted.label_bytes :].reshape(images.shape)
    return FileDigest(size, digest.hexdigest())


def image_set(name: str) -> ImageSet:
    """A data set by its name.

    Args:
        name: 'cifar10' or 'cifar100'.

    Raises:
        ValueError: there is no such data set.

    >>> image_set("cifar100").url
    'https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz'
    """
    validation.choice("data set", name, CIFAR)
    return CIFAR[name]


def folder_of(wanted: ImageSet) -> Path:
    """Where its files belong.

    Args:
        wanted: of the catalogue.
    """
    return data_folder() / wanted.folder


def _lacking(wanted: ImageSet) -> list[str]:
    folder = folder_of(wanted)
    return [file.name for file in wanted.files if not (folder / file.name).is_file()]


def present(names: Iterable[str]) -> dict[str, Path]:
    """Those data sets of which every file is there, with their folders.

    Args:
        names: 'cifar10' or 'cifar100'.

    Raises:
        ValueError: there is no such data set.
    """
    sets = [image_set(name) for name in names]
    return {wanted.name: folder_of(wanted) for wanted in sets if not _lacking(wanted)}


def missing_text(names: Iterable[str]) -> str:
    """One line about files that are not there: where they belong and what to do; '' if none.

    Args:
        names: 'cifar10' or 'cifar100'; those that are there are passed over.

    Raises:
        ValueError: there is no such data set.
    """
    missing = [wanted for wanted in map(image_set, names) if _lacking(wanted)]
    if not missing:
        return ""
    files = " and ".join(f"{', '.join(_lacking(each))} in {folder_of(each)}" for each in missing)
    archives = " and ".join(each.url for each in missing)
    offline = f"unpack {archives} in {data_folder()}"
    return remedy(files, [each.name for each in missing], offline, f"{missing[0].folder}/")
