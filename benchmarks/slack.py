"""How tight the results are in practice: certificates on Section 5's problems.

Writes ``docs/slack.json``, from which ``docs/make_theory.py`` fills the tables of
``docs/theory.md``. Three minutes on two cores; ``--steps`` and ``--runs`` for less.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich.progress import track

from heavystep import theory
from heavystep.certificates import certify
from heavystep.problems import paper_cosine, paper_least_squares
from heavystep.schedules import Schedules
from heavystep.simulation.batch import draw_samples, record_runs
from heavystep.simulation.configuration import configure

PROBLEMS = {
    "least squares, nu = 0": paper_least_squares(0.0),
    "least squares, nu = 0.3": paper_least_squares(0.3),
    "cosine, strong growth": paper_cosine("strong_growth"),
    "cosine, noise": paper_cosine("noise"),
}
RULES = {"polyak": {"c": 0.75}, "armijo": {"c": 0.75, "omega": 0.5}}
METHODS = {
    "polyak": ("SHBPolyak", {"c": 0.75}),
    "armijo": ("SHBArmijo", {"c": 0.75, "decrease_factor": 0.5}),
}
"""The same in names of options."""
MOMENTA = (0.0, 0.5, 0.9, None)
RECORDED = (10, 100, 1_000, 10_000)


def measure(name, rule, beta, runs, steps):
    """Rows of one setting; ``beta`` is a number, or None for the diminishing schedules."""
    problem, (method, options) = PROBLEMS[name], METHODS[rule]
    samples = draw_samples(problem, runs=runs, steps=steps)
    cap = 1.0 if problem.convex else 0.8 * _limit(problem, rule, beta)
    if beta is None:
        laws = Schedules.power_laws(0.5, 0.4, 0.9, 1.1, 0.02 if problem.convex else 2.0 * cap, 0.3)
        eta, momentum, largest = laws
        configuration = configure(
            method, lr=eta, momentum=momentum, max_step=largest, scaling="plain", **options
        )
        certificate = certify(record_runs(problem, configuration, samples), problem, schedules=laws)
    else:
        configuration = configure(method, momentum=beta, max_step=cap, scaling="theory", **options)
        certificate = certify(record_runs(problem, configuration, samples), problem)
    setting = {"problem": name, "rule": rule, "beta": beta}
    for check in certificate.checks:
        row = {**check.row(), "blurred": bool(check.blurred[check.tightest])}
        yield from ({**row, **setting, **at} for at in _entries(check))
    for result, reason in certificate.skipped.items():
        yield {"result": result, "skipped": f"{name}, {rule}: {reason}"}


def _limit(problem, rule, beta):
    beta = 0.9 if beta is None else beta
    return theory.nonconvex_step_limit(rule, L=problem.L, rho=problem.rho, beta=beta, **RULES[rule])


def _entries(check):
    """What holds in expectation at the recorded k; what holds on every run where it is tightest."""
    if check.measured.ndim == 2:
        return [{}]
    at = [int(i) for i in np.flatnonzero(np.isin(check.k, RECORDED))]
    return [
        {"k": int(check.k[i]), "bound": float(check.bound[i]), "measured": float(check.measured[i])}
        for i in at
    ]


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
    skipped = {row["result"]: row["skipped"] for row in rows if "skipped" in row}
    rows = [row for row in rows if "skipped" not in row]
    failed = [row for row in rows if not row["holds"]]
    text = ",\n".join(json.dumps(row) for row in rows)
    arguments.out.write_text(
        f'{{"runs": {arguments.runs}, "steps": {arguments.steps},\n'
        f'"skipped": {json.dumps(skipped)},\n"rows": [\n{text}\n]}}\n'
    )
    for row in failed:
        print("does not hold:", row)
    raise SystemExit(bool(failed))


if __name__ == "__main__":
    main()
