"""A few images in the published layout, under the published names."""

import hashlib
from dataclasses import replace

import numpy as np

from heavystep.data.cifar import CIFAR

LABEL_BYTES = {"cifar10": 1, "cifar100": 2}
CLASSES = {"cifar10": 10, "cifar100": 100}


def records(name, n, seed):
    """(n, label bytes + 3072) bytes; every label is allowed, and the coarse one is another."""
    rng = np.random.default_rng(seed)
    content = rng.integers(0, 256, (n, LABEL_BYTES[name] + 3072), np.uint8)
    fine = rng.integers(0, CLASSES[name], n, np.uint8)
    content[:, 0] = fine ^ 1
    content[:, LABEL_BYTES[name] - 1] = fine
    return content


def sized(name, counts, seed=0):
    """The data set with files of so many images, and what is in them."""
    entry = CIFAR[name]
    counts = dict(zip([file.name for file in entry.files], counts, strict=True))
    contents = {
        file: records(name, n, [seed, at]).tobytes() for at, (file, n) in enumerate(counts.items())
    }
    return knowing(entry, contents), contents


def knowing(entry, contents):
    """The data set whose catalogue describes these contents."""

    def described(file):
        content = contents[file.name]
        images = len(content) // entry.record_bytes
        return file._replace(images=images, sha256=hashlib.sha256(content).hexdigest())

    train, test = (tuple(map(described, files)) for files in (entry.train, entry.test))
    return replace(entry, train=train, test=test)


def tiny(name):
    """Files of different lengths."""
    return sized(name, range(2, 2 + len(CIFAR[name].files)))


def write(folder, contents):
    """Files with these contents."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
