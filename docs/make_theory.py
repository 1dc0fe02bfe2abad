"""Write ``docs/theory.md`` from the registry and the measured slack in ``docs/slack.json``.

python docs/make_theory.py, or ``make pages``
"""

import inspect
import json
from collections import defaultdict
from pathlib import Path

from heavystep.theory import side_by_side
from heavystep.theory.registry import OWN, RESULTS, Result

DOCS = Path(__file__).parent
REMARKS = json.loads((DOCS / "readings.json").read_text())
"""How each result is tested, what it reduces to, remarks on its statement, and our own proofs."""
HEAD = """# The theory, result by result

This page is generated (`make pages`) from the registry (`heavystep.theory.registry`) and from
measured numbers (`docs/slack.json`). The results are those of Zhang, Shi and Gu; proofs were read
line by line and every formula was checked against runs. `heavystep theory` lists them, `heavystep
theory NAME` computes their constants, and `heavystep.certify(record, problem)` checks a run.

## What the check found

- No statement failed. Lemmas 1-6 hold on every run that was tried; the bounds of Theorems 1-5, and
  the bounds that the proofs of Theorems 6 and 7 carry, hold in exact expectation: all sample paths
  of short runs were enumerated, for 1000 (Theorems 6 and 7: 500) random admissible settings a
  theorem. What holds almost surely or as an o cannot be tested so; there the proofs were read and
  the inequalities that they rest on were tested.
- Two places need a condition that the paper leaves out, both only for small k and without effect
  on the theorems: the denominator in Theorem 6's condition on c must be positive, and C_k in the
  proof of Theorem 7 decreases only where its denominator is positive. The smallest
  counterexamples stand with those theorems and in `tests/theory/test_diminishing_conditions.py`.
- Theorem 1 leaves its constant B open. Here it is explicit.
- The O of Theorems 6 and 7 hides a product over 1 + beta_k. For the schedules of Section 5 it is
  about 10^37900: these theorems are about the limit, not about any number of steps that one runs.
- With momentum the bounds of Theorems 1-3 are far from the runs (tables below). Two losses are
  avoidable: of a geometric sum two terms are kept (up to 5.3 at beta = 0.9), and the last square is
  counted twice. The rest is gamma_min: it is the worst step of any sample, (1 - sqrt(beta))^2 / 2
  of a plain step (1/760 at beta = 0.9).

## Conventions

theta_{-1} = theta_0; step k goes from theta_k to theta_{k+1}; g_k is the sampled gradient at
theta_k; v_k is the sum over m <= k of beta^(k-m) gamma_m g_m, so that theta_{k+1} = theta_k - v_k.
s_beta = (1 - sqrt(beta))^2. Expectations are over the samples, runs start at a fixed point.
"""


def main():
    """Write the page."""
    from heavystep.pictures import plot_momentum

    (DOCS / "theory.md").write_text(render())
    plot_momentum(side_by_side(L=1.0, mu=0.1)).savefig(DOCS / "momentum.png", dpi=100)


def render() -> str:
    """The page."""
    measured = json.loads((DOCS / "slack.json").read_text())
    rows = defaultdict(list)
    for row in measured["rows"]:
        rows[row["result"]].append(row)
    parts = [HEAD, overview()]
    for result in RESULTS:
        parts.append(section(result))
        for name in (result.id, f"Recursion of {result.id}", f"Tail inequality of {result.id}"):
            if table := slack(rows[name]):
                parts.append(table)
        if not rows[result.id] and result.id in measured["skipped"]:
            parts.append(f"Not checked in these runs: {measured['skipped'][result.id]}.\n")
    parts.append(
        f"Measured: {measured['runs']} runs of {measured['steps']} steps a "
        "setting, c = 0.75, omega = 0.5, gamma_max = 1 (convex) or 0.8 times the limit of "
        "Theorem 3 (non-convex), means less one standard error; diminishing runs with the "
        "schedules of Section 5. A slack of -1e-16 is rounding.\n"
    )
    parts += ["## Our own\n", *(section(result) for result in OWN), momentum()]
    return "\n".join(parts)


def overview() -> str:
    """All results in one table."""
    lines = ["## Overview\n", "| result | says | in code |", "|---|---|---|"]
    lines += [
        f"| [{r.id}](#{r.id.lower().replace(' ', '-')}) | {escape(r.statement)} | `{file(r)}` |"
        for r in RESULTS + OWN
    ]
    return "\n".join(lines) + "\n"


def section(result: Result) -> str:
    """One result."""
    lines = [
        f"## {result.id}\n",
        f"{result.statement}.\n",
        f"- In code: `heavystep.theory.{result.function.__name__}`, `{file(result)}`",
        f"- {'Proof' if result in OWN else 'In the paper'}: {result.location}",
        f"- Needs: {'; '.join(result.assumptions)}",
        f"- Tested: {REMARKS[result.id]['tested']}",
    ]
    remarks = REMARKS[result.id]
    lines += [f"- Must reduce to: {text}" for text in remarks.get("reductions", ())]
    lines += [f"- Reading: {reading}" for reading in remarks["readings"]]
    if "proof" in remarks:
        lines += ["\nProof:\n", *(f"{i}. {text}" for i, text in enumerate(remarks["proof"], 1))]
    return "\n".join(lines) + "\n"


def momentum() -> str:
    """Theorems 1 to 3 against the momentum."""
    lines = [
        "## Momentum, side by side\n",
        "Constants of Theorems 1 to 3 for SHB-PS at L = 1, mu = 0.1, rho = 1, c = 1 "
        "(`theory.side_by_side`, drawn by `pictures.plot_momentum`). Every one grows with "
        "beta: momentum does not improve the order. Theorems 1 to 3 admit every beta below 1, "
        "Theorems 1 and 2 every gamma_max; MomSPS admits a momentum only below a cap "
        "(`theory.momsps_limit`, derived here).\n",
        "![Constants and limits against beta](momentum.png)\n",
        "| beta | Theorem 1: 1 - r | Theorem 2: A | Theorem 3: constant | gamma_max of Theorem 3 | "
        "cap of MomSPS |",
        "|---|---|---|---|---|---|",
    ]
    for row in side_by_side(L=1.0, mu=0.1):
        lines.append("| " + " | ".join(f"{value:.4g}" for value in row) + " |")
    return "\n".join(lines) + "\n"


def slack(rows) -> str:
    """How far the runs stayed from the bound."""
    every_run = [row for row in rows if "E " not in row["quantity"]]
    means = [row for row in rows if "E " in row["quantity"]]
    return "\n".join(table(part) for table, part in ((_tightest, every_run), (_at, means)) if part)


def _tightest(rows) -> str:
    """What holds on every run: the setting and the step with the least slack, by rule."""
    lines = [
        "Tightest over all runs and steps:\n",
        "| quantity | rule | where | bound | measured | slack / bound |",
        "|---|---|---|---|---|---|",
    ]
    groups = defaultdict(list)
    for row in rows:
        groups[row["quantity"], row["rule"]].append(row)
    for (quantity, rule), group in groups.items():
        clear = [row for row in group if not row["blurred"]] or group
        row = min(clear, key=lambda row: row["slack"] / max(abs(row["bound"]), 1e-300))
        where = f"{row['problem']}, {_momentum(row)}, k = {row['k']}"
        relative = row["slack"] / max(abs(row["bound"]), 1e-300)
        lines.append(
            f"| {escape(quantity)} | {rule} | {where} | {row['bound']:.4g} | "
            f"{row['measured']:.4g} | {relative:.2g} |"
        )
    return "\n".join(lines) + "\n"


def _momentum(row) -> str:
    return "diminishing" if row["beta"] is None else f"beta = {row['beta']:g}"


def _at(rows) -> str:
    """What holds in expectation: bound over measured at some k."""
    by_setting = defaultdict(dict)
    for row in rows:
        by_setting[row["problem"], row["rule"], _momentum(row)][row["k"]] = row
    steps = sorted({row["k"] for row in rows})
    lines = [
        f"Bound / measured, of {escape(rows[0]['quantity'])}:\n",
        "| problem | rule | momentum | " + " | ".join(f"k = {k}" for k in steps) + " |",
        "|---|---|---|" + "---|" * len(steps),
    ]
    for setting, at in by_setting.items():
        cells = " | ".join(_ratio(at[k]) if k in at else "inf" for k in steps)
        lines.append(f"| {' | '.join(setting)} | {cells} |")
    return "\n".join(lines) + "\n"


def _ratio(row) -> str:
    measured = max(row["measured"], 0.0)  # a mean less its standard error
    ratio = f"{row['bound'] / measured:.3g}" if measured > 1e-300 else "inf"
    return f"**{ratio}** ({row['bound']:.3g} / {measured:.3g})"


def escape(text: str) -> str:
    """Bars would end a cell."""
    return text.replace("|", "\\|")


def file(result: Result) -> str:
    """The file that the result's function is written in."""
    # Many functions are wrapped by the decorator that documents their arguments.
    path = inspect.getsourcefile(inspect.unwrap(result.function)) or ""
    return "theory/" + path.rpartition("/theory/")[2]


if __name__ == "__main__":
    main()
