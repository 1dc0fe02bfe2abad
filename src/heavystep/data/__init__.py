"""Data sets: where they are, how they are fetched, checked, read and kept."""

from heavystep.data.batches import PersistentBatches
from heavystep.data.cifar import Images, TrainTest, load_cifar
from heavystep.data.labelled import Labelled, binary_labels
from heavystep.data.libsvm import read_libsvm
from heavystep.data.loading import load
from heavystep.data.text import load_text

__all__ = [
    "Images",
    "Labelled",
    "PersistentBatches",
    "TrainTest",
    "binary_labels",
    "load",
    "load_cifar",
    "load_text",
    "read_libsvm",
]
