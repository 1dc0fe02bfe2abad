"""Logistic regression from a LIBSVM file, with nothing to tune.

``python examples/libsvm_logistic.py FILE``: plain text, or ending in .bz2, .xz or .gz. Without a
file, or with ``--quick``, a small one is made up.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from heavystep.linear import SHBLogisticRegression, load_libsvm


def made_up(folder: Path) -> Path:
    """A file of 2,000 sparse rows, whose labels follow a line and some noise."""
    stream = np.random.default_rng(0)
    truth = stream.normal(size=30)
    lines = []
    for _ in range(2_000):
        columns = np.sort(stream.choice(30, size=6, replace=False))
        values = stream.normal(size=6)
        label = 1 if values @ truth[columns] + 0.3 * stream.normal() > 0 else -1
        words = (f"{j + 1}:{v:.4f}" for j, v in zip(columns, values, strict=True))
        lines.append(" ".join([f"{label:+d}", *words]))
    path = folder / "made_up.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def main(words: Sequence[str] | None = None) -> float:
    parser = argparse.ArgumentParser(description="Logistic regression from a LIBSVM file.")
    parser.add_argument("file", type=Path, nargs="?", help="a LIBSVM file")
    parser.add_argument("--quick", action="store_true", help="a small file that is made up")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        made = arguments.quick or arguments.file is None
        x, y = load_libsvm(made_up(Path(folder)) if made else arguments.file)
    classifier = SHBLogisticRegression(random_state=0).fit(x, y)
    accuracy = float(classifier.score(x, y))
    print(f"{x.shape[0]} rows, {x.shape[1]} columns: training accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
