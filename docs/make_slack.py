"""Write ``docs/slack.json``: how far runs on the problems of Section 5 stay from each bound.

python -m docs.make_slack, from the root of the repository; a minute. Then ``make pages``: the page
of each result shows the numbers.
"""

import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from heavystep.certificates import certify
from heavystep.certificates.check import Check
from heavystep.lab.figures.figure1 import CONSTANTS, DIMINISHING, configured
from heavystep.lab.simulation.sweep import SECTION_5
from heavystep.methods import METHODS
from heavystep.schedules import Schedules
from tests.helpers.runs import draw_samples, recorded

RUNS, STEPS = 20, 10_000
VARIANTS = (0.0, 0.5, 0.9, DIMINISHING)
SHOWN = (10, 100, 1_000, 10_000)
"""The steps at which a bound in expectation is shown."""


def main() -> None:
    """Write it, and fail if an inequality does not hold."""
    rows, skipped = list[dict[str, Any]](), dict[str, str]()
    for name, method, variant in product(SECTION_5, CONSTANTS, VARIANTS):
        rule, problem = METHODS[method].theory, SECTION_5[name].build()
        options = dict(configured(SECTION_5[name], method, variant).options)
        laws = Schedules(options["lr"], options["momentum"], options["max_step"])
        record = recorded(
            problem, rule, draw_samples(problem, runs=RUNS, steps=STEPS), beta=laws.beta,
            c=options["c"], gamma_max=laws.gamma_max, omega=options.get("decrease_factor"),
            eta=laws.eta, scaling=options["scaling"],
        )  # fmt: skip
        diminishing = variant == DIMINISHING
        certificate = certify(record, problem, schedules=laws if diminishing else None)
        setting = {"problem": name, "rule": rule, "beta": None if diminishing else variant}
        rows += [row | setting for check in certificate for row in entries(check)]
        skipped |= {each: f"{name}, {rule}: {why}" for each, why in certificate.skipped.items()}
    lines = ",\n".join(map(json.dumps, rows))
    (Path(__file__).parent / "slack.json").write_text(
        f'{{"runs": {RUNS}, "steps": {STEPS},\n"skipped": {json.dumps(skipped)},\n'
        f'"rows": [\n{lines}\n]}}\n'
    )
    if failed := [row for row in rows if not row["holds"]]:
        raise SystemExit(f"these do not hold: {failed}")


def entries(check: Check) -> Iterator[dict[str, Any]]:
    """What holds on every run where it is tightest; what holds in expectation at some steps."""
    row = check.row()
    del row["slack"]
    if check.measured.ndim == 2:
        yield row
        return
    for at in np.flatnonzero(np.isin(check.k, SHOWN)):
        numbers = {name: float(getattr(check, name)[at]) for name in ("bound", "measured")}
        yield {**row, "k": int(check.k[at]), **numbers}


if __name__ == "__main__":
    main()
