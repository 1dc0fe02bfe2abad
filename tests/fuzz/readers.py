"""The reader of LIBSVM files against a literal one."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from heavystep.data.libsvm import parse
from tests.fuzz.campaign import Campaign

NUMBERS = [
    "1",
    "-1",
    "+1",
    "0",
    "-0",
    ".5",
    "5.",
    "1e3",
    "1E-3",
    "-2.5e+2",
    "0.1",
    "1e-320",
    "00012",
]
BAD_NUMBERS = [
    "",
    ".",
    "e3",
    "1e",
    "nan",
    "inf",
    "-inf",
    "1e999",
    "0x10",
    "1_0",
    "1,5",
    "--1",
    "\u0661",
]
INDICES = ["1", "2", "3", "7", "007", "10", "2147483646"]
BAD_INDICES = ["0", "-1", "+1", "1.0", "", "2147483647", "qid", "99999999999999999999"]
SPACES = [" ", "  ", "\t", " \t "]
ENDS = ["\n", "\r\n", "\n\n", " \n", " # told\n", "#\n"]


def line(rng: np.random.Generator) -> str:
    def one(good: list[str], bad: list[str], share: float = 0.01) -> str:
        some = bad if rng.random() < share else good
        return some[rng.integers(len(some))]

    indices = sorted({int(x) for x in rng.integers(1, 12, size=int(rng.integers(0, 6)))})
    words = [
        str(index) if rng.random() < 0.97 else one(INDICES, BAD_INDICES, 0.5) for index in indices
    ]
    text = one(NUMBERS, BAD_NUMBERS)
    for word in words:
        colon = ":" if rng.random() < 0.995 else one(["::", " :", ";", ""], [""])
        text += SPACES[rng.integers(len(SPACES))] + word + colon + one(NUMBERS, BAD_NUMBERS)
    return (" " if rng.random() < 0.1 else "") + text + ENDS[rng.integers(len(ENDS))]


def literal(text: bytes) -> Any:
    """Labels and rows as the format says, read with as little cleverness as there is; None: refused."""
    number = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
    labels, rows = [], []
    for each in text.split(b"\n"):
        each = each[:-1] if each.endswith(b"\r") else each
        words = [
            w for w in each.split(b"#")[0].decode("latin-1").replace("\t", " ").split(" ") if w
        ]
        if not words:
            continue
        row: list[tuple[int, float]] = []
        for word in words[1:]:
            index, colon, value = word.partition(":")
            right = colon and re.fullmatch("[0-9]+", index) and number.fullmatch(value)
            if not right or not math.isfinite(float(value)):
                return None
            if not 1 <= int(index) <= 2**31 - 2 or (row and int(index) <= row[-1][0]):
                return None
            row.append((int(index), float(value)))
        if not number.fullmatch(words[0]) or not math.isfinite(float(words[0])):
            return None
        labels.append(float(words[0]))
        rows.append(row)
    return (labels, rows) if labels else None


def lines(rng: np.random.Generator, folder: Path) -> None:
    """The same rows, or both refuse."""
    text = "".join(line(rng) for _ in range(int(rng.integers(1, 8)))).encode()
    if rng.random() < 0.1:
        text = text.rstrip(b"\n")
    cuts = sorted(int(x) for x in rng.integers(len(text) + 1, size=int(rng.integers(0, 4))))
    blocks = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    expected = literal(text)
    try:
        found = parse([block for block in blocks if block], "text")
    except ValueError:
        assert expected is None, f"refused: {text!r}"
        return
    assert expected is not None, f"not refused: {text!r}"
    labels, rows = expected
    indptr = found.rows.indptr
    assert found.labels.tolist() == labels, f"{text!r}"
    for k, row in enumerate(rows):
        part = slice(indptr[k], indptr[k + 1])
        pairs = list(zip(found.rows.indices[part] + 1, found.rows.values[part], strict=True))
        same = [(int(i), v) for i, v in pairs] == row
        assert same, f"{text!r}"
        assert [math.copysign(1, v) for _, v in pairs] == [math.copysign(1, v) for _, v in row]


CAMPAIGNS = [Campaign("lines of LIBSVM files against a literal reader", lines, 30_000)]
