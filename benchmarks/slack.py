"""How tight the results are in practice: certificates on Section 5's problems.

Writes ``docs/slack.json``, from which ``docs/make_theory.py`` fills the tables of
``docs/theory.md``. Two minutes on two cores; ``--steps`` and ``--runs`` for less.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.progress import track

from heavystep import theory
from heavystep.certificates import certify
from heavystep.engine.batch import draw_samples, simulate
from heavystep.problems import paper_cosine, paper_least_squares

PROBLEMS = {
    "least squares, nu = 0": paper_least_squares(0.0),
    "least squares, nu = 0.3": paper_least_squares(0.3),
    "cosine, strong growth": paper_cosine("strong_growth"),
    "cosine, noise": paper_cosine("noise"),
}
RULES = {"polyak": {"c": 0.75}, "armijo": {"c": 0.75, "omega": 0.5}}
MOMENTA = (0.0, 0.5, 0.9)
RECORDED = (10, 100, 1_000, 10_000)


def measure(name, rule, beta, runs, steps):
    """Rows of one run: every theorem at the recorded k, every lemma where it is tightest."""
    problem, options = PROBLEMS[name], RULES[rule]
    gamma_max = 1.0
    if not problem.convex:
        gamma_max = 0.8 * theory.nonconvex_step_limit(
            rule, L=problem.L, rho=problem.rho, beta=beta, **options
        )
    samples = draw_samples(problem, runs=runs, steps=steps)
    record = simulate(problem, rule, samples, beta=beta, gamma_max=gamma_max, **options)
    for check in certify(record, problem).checks:
        setting = {"result": check.result, "problem": name, "rule": rule, "beta": beta}
        row = {**setting, **check.row()}
        if check.measured.ndim == 1:  # in expectation: one number a k
            for k in RECORDED:
                if k <= steps:
                    at = int(np.flatnonzero(check.k == k)[0])
                    bound, measured = float(check.bound[at]), float(check.measured[at])
                    yield {**row, "k": k, "bound": bound, "measured": measured}
        else:
            yield row


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("docs/slack.json"))
    arguments = parser.parse_args()
    settings = [(name, rule, beta) for name in PROBLEMS for rule in RULES for beta in MOMENTA]
    rows = [
        row
        for setting in track(settings, description="certifying")
        for row in measure(*setting, arguments.runs, arguments.steps)
    ]
    text = ",\n".join(json.dumps(row) for row in rows)
    arguments.out.write_text(
        f'{{"runs": {arguments.runs}, "steps": {arguments.steps}, "rows": [\n{text}\n]}}\n'
    )


if __name__ == "__main__":
    main()
