"""The data sets of the paper's convex experiments, as the LIBSVM data page publishes them.

Sizes and hashes are those of the unpacked text without carriage returns: svmguide1 is published
with other line ends than the copy that was measured, and line ends change no number.
"""

from dataclasses import dataclass

from heavystep import validation

PAGE = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"


@dataclass(frozen=True)
class DataSet:
    """What a training file holds.

    Args:
        name: its name on the LIBSVM data page.
        title: its name in the paper.
        n: rows.
        dim: columns, the largest index.
        entries: stored entries, explicit zeros included; None where nobody here has counted.
        positives: rows with the larger of the two labels.
        text_bytes: size of the unpacked text.
        text_sha256: its hash.
        published: name of the published file.
    """

    name: str
    title: str
    n: int
    dim: int
    entries: int | None
    positives: int
    text_bytes: int
    text_sha256: str
    published: str

    @property
    def url(self) -> str:
        """Where the file is published."""
        return PAGE + self.published


# fmt: off
_ALL = (
    DataSet("a9a", "a9a", 32561, 123, 451592, 7841, 2329875,
            "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906", "a9a"),
    DataSet("cod-rna", "Cod-RNA", 59535, 8, 476280, 19845, 4667176,
            "65b7cc0689fc29bba5db8b50fab0b6446d985f4bf8f6f5dd474f7df8b2f1ab6c", "cod-rna"),
    DataSet("ijcnn1", "IJCNN1", 49990, 22, 649870, 4853, 7744897,
            "16506cad788cf7c9607454150ed1994788204bac2ff4c9cb3b320036b6950d3f", "ijcnn1.bz2"),
    # Its labels are 1 and 2, and the larger one is the positive one here.
    DataSet("mushrooms", "Mushrooms", 8124, 112, 170604, 4208, 879712,
            "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538", "mushrooms"),
    DataSet("phishing", "Phishing", 11055, 68, 331650, 6157, 3620168,
            "0cf66ef36604c393da9359b2e5d894a2df8aee31fd184633cefa138add2ef08a", "phishing"),
    # Size and hash are on record for a copy elsewhere; they were not measured here.
    DataSet("real-sim", "real-sim", 72309, 20958, None, 22238, 90377515,
            "0fd9b12b6dc60dab7885a7367b286a53aac5d92057dc1083ab13ade275120270", "real-sim.bz2"),
    DataSet("svmguide1", "SVMguide1", 3089, 4, 12356, 2000, 192782,
            "2b9ab55b6236f62cee6b7739b52f9e7cb033771f39b9c22c1f1790d80ef14d7f", "svmguide1"),
    DataSet("w8a", "w8a", 49749, 300, 579586, 1479, 3478238,
            "6a9fa8fd5f524303240a5db07d4b3d4a51e8b7b4b20a914105d8e3e8c81640f2", "w8a"),
)
# fmt: on
CATALOGUE = {data_set.name: data_set for data_set in _ALL}


def data_set(name: str) -> DataSet:
    """A data set by its name.

    Args:
        name: one of the eight.

    Raises:
        ValueError: there is no such data set.

    >>> data_set("ijcnn1").url
    'https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/ijcnn1.bz2'
    """
    validation.choice("data set", name, CATALOGUE)
    return CATALOGUE[name]
