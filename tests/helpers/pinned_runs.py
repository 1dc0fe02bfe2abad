"""Small runs whose numbers are pinned, with the versions that they belong to.

``python -m tests.helpers.pinned_runs`` pins them anew, after a version was raised.
"""

import json

import numpy as np

from heavystep.lab.simulation.configuration import configure
from heavystep.lab.simulation.run import simulate
from heavystep.methods import METHODS
from heavystep.problems import Cosine, LeastSquares, SparseLogistic
from heavystep.rules import ARMIJO, POLYAK
from heavystep.schedules import PowerLaw
from heavystep.sparse import SparseRows
from tests.helpers.places import ROOT

FILE = ROOT / "tests" / "sweeps" / "pinned.json"
KERNEL = "KERNEL_VERSION in simulation/__init__.py"
VERSIONS = {
    "rule": "the version of the rule {!r} in rules/",
    "diagonal": "the version of the diagonal {!r} in momentum/diagonal.py",
    "form": "the version of the momentum form {!r} in momentum/",
    "problem": "the version of {} in problems/",
}


def table(rows, columns, shift=0):
    """Numbers without a pattern, exact on every machine."""
    count = np.arange(rows * columns).reshape(rows, columns) + shift
    return (count * count * 7919 % 101 - 50.0) / 32.0


def problems():
    tilts = table(8, 3, shift=5)
    rows = np.where(np.abs(table(40, 6)) > 0.3, table(40, 6), 0.0)
    return {
        "LeastSquares": LeastSquares(table(30, 4), table(30, 1, shift=3)[:, 0]),
        "Cosine": Cosine(1.0 + np.abs(table(8, 1))[:, 0], tilts - tilts.mean(axis=0)),
        "SparseLogistic": SparseLogistic(
            SparseRows.from_dense(rows), np.sign(table(40, 1, shift=2)[:, 0] + 0.01), l2=0.01
        ),
    }


RESET = {"steps_per_epoch": 10, "scaling": "practical"}
LAWS = {
    "lr": PowerLaw(0.5, 0.4, 30.0), "momentum": PowerLaw(0.9, 1.1, 30.0),
    "max_step": PowerLaw(0.2, 0.3, 30.0), "scaling": "plain", "steps_per_epoch": None,
}  # fmt: skip
THEORY = {"momentum": 0.6, "scaling": "theory", "steps_per_epoch": None, "max_step": 0.3}
STEADY = {"momentum": 0.8, "total_steps": 80, "outlook": 2.0}
SEARCH = {"c": 0.3, "decrease_factor": 0.7, "max_trials": 1000}
CASES = {
    "Polyak, theory": configure("SHBPolyak", c=0.75, **THEORY),
    "Polyak, practical": configure("SHBPolyak", c=0.6, momentum=0.8, **RESET),
    "Polyak, diminishing": configure("SHBPolyak", c=0.75, average="weighted", **LAWS),
    "Polyak, steady": configure("SHBPolyak", c=0.6, **STEADY),
    "Armijo, theory": configure("SHBArmijo", **SEARCH, **THEORY),
    "Armijo, practical": configure("SHBArmijo", **SEARCH, momentum=0.8, **RESET),
    "Armijo, diminishing": configure("SHBArmijo", **SEARCH, average="weighted", **LAWS),
    "Armijo, steady": configure("SHBArmijo", **(SEARCH | {"c": 0.999}), **STEADY),
    "SPS": configure("SPS", c=1.0, max_step=0.2, steps_per_epoch=10),
    "SLS": configure("SLS", **SEARCH, max_step=0.4, steps_per_epoch=10),
    "fixed": configure("SHB", lr=0.01, momentum=0.7),
}
PLAIN = (POLYAK, ARMIJO)
TAME = {"lr": 0.2, "momentum": 0.6, "c": 1.5, "max_step": 0.2, "first_step": 0.2, "safeguard": 2.0}


def others():
    """Every other method of the registry, with tame options."""
    covered = {method.method for method in CASES.values()}
    found = {}
    for name, method in METHODS.items():
        if name not in covered:
            known = {option.name for option in method.options}
            tame = TAME | (SEARCH if method.rule.searches else {})
            found[name] = configure(name, **{k: v for k, v in tame.items() if k in known})
    return found


def runs(which):
    """Pairs of a method and a problem, with their names: the paper's methods on every problem.

    Relatives run on one: a kernel for each method and problem would take minutes to compile. For
    the same reason what is neither Polyak's rule nor Armijo's meets the other problems "elsewhere".
    """
    found = {}
    for kind, problem in problems().items():
        first = kind == "LeastSquares"
        methods = {
            "paper": {n: m for n, m in CASES.items() if first or m.rule in PLAIN},
            "elsewhere": {n: m for n, m in CASES.items() if not first and m.rule not in PLAIN},
            "relatives": others() if first else {},
        }[which]
        found |= {f"{name} on {kind}": (m, kind, problem) for name, m in methods.items()}
    return found


def measured(which):
    """Versions and metrics of these runs."""
    found = {}
    for name, (method, kind, problem) in runs(which).items():
        result = simulate(
            problem, method, seeds=[3], iterations=60, grid=np.array([1, 20, 60]), batch_size=2,
            threads=1,
        )  # fmt: skip
        found[name] = {
            "rule": method.rule.name,
            "form": method.form.name,
            "diagonal": method.diagonal.name if method.diagonal else "none",
            "problem": kind,
            "versions": {**method.versions(), "problem": problem.version},
            "metrics": {metric: v[0].tolist() for metric, v in result.metrics.items()},
        }
    return found


def changed(one, other):
    """Whether metrics differ by more than the widths of vectors can explain."""
    if set(one) != set(other):
        return True
    return not all(
        np.allclose(one[name], other[name], rtol=1e-9, atol=0.0, equal_nan=True) for name in one
    )


def to_raise(runs, wrong):
    """Which version has to be raised, judged by which of the runs have changed.

    Args:
        runs: rule, momentum form and problem of all runs, by name.
        wrong: names of those whose numbers have changed.
    """
    right = [runs[name] for name in runs if name not in wrong]
    texts = []
    for place, text in VERSIONS.items():
        kinds = sorted({runs[name][place] for name in wrong})
        if right and not any(run[place] in kinds for run in right):
            texts.append(" and ".join(text.format(kind) for kind in kinds))
    return ", or ".join(texts) or KERNEL


if __name__ == "__main__":
    pinned = measured("paper") | measured("elsewhere") | measured("relatives")
    FILE.write_text(json.dumps(pinned, indent=1) + "\n")
