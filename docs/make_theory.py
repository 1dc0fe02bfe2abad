"""Write ``docs/theory.md``, the index of results; the site has a page of each, made here too.

python docs/make_theory.py, or ``make pages``. It reads the registry, the remarks in
``docs/readings.json`` and the slack that ``docs/make_slack.py`` measured, ``docs/slack.json``.
"""

import inspect
import json
import re
from pathlib import Path

from heavystep.theory import side_by_side
from heavystep.theory.registry import OWN, RESULTS, Result

DOCS = Path(__file__).parent
REMARKS = json.loads((DOCS / "readings.json").read_text())
"""How each result is tested, what it reduces to, remarks on its statement, and our own proofs."""
HEAD = """# The theory, result by result

Every result of Zhang, Shi and Gu is a function of `heavystep.theory`. We read the proofs line by
line and checked every formula against runs. `heavystep theory` lists the results, `heavystep theory
NAME` computes constants, and `heavystep.certify(record, problem)` checks a run.

## What the check found

- No statement failed. Lemmas 1 to 6 hold on every run that we tried. The bounds of Theorems 1 to 5,
  and those in the proofs of Theorems 6 and 7, hold in exact expectation: we enumerated all sample
  paths of short runs, for 1000 (Theorems 6 and 7: 500) random admissible settings of each theorem.
  A statement that holds almost surely, or an o, cannot be tested like that. There we read the proof
  and tested the inequalities in it.
- Two places need a condition that the paper leaves out. Both matter for small k only, and the
  theorems stay true. The denominator in the condition on c of Theorem 6 must be positive. In the
  proof of Theorem 7, C_k decreases only where its denominator is positive. The pages of both have
  the smallest counterexamples, and `tests/theory/test_diminishing_conditions.py` runs them.
- Theorem 1 leaves its constant B open. Here it is explicit.
- The O of Theorems 6 and 7 hides the product of all 1 + beta_k. With the schedules of Section 5 it
  is about 10^37900. These theorems describe the limit, not any number of steps that one can run.
- With momentum the bounds of Theorems 1 to 3 are far above the runs: their pages have the numbers.
  Two losses can be avoided: the proofs keep two terms of a geometric sum (a factor of up to 5.3 at
  beta = 0.9), and they count the last square twice. The rest comes from gamma_min, the worst step
  of any sample: it is (1 - sqrt(beta))^2 / 2 times a plain step, which is 1/760 at beta = 0.9.

## Conventions

theta_{-1} = theta_0. Step k goes from theta_k to theta_{k+1}, and g_k is the sampled gradient at
theta_k. v_k is the sum over m <= k of beta^(k-m) gamma_m g_m, so theta_{k+1} = theta_k - v_k.
s_beta = (1 - sqrt(beta))^2. Expectations are over the samples; runs start at a fixed point.
"""
MOMENTUM = """## Momentum, side by side

Constants of Theorems 1 to 3 for SHB-PS at L = 1, mu = 0.1, rho = 1, c = 1, from
`theory.side_by_side`. All of them grow with beta: these theorems promise nothing better with
momentum than without. They admit every beta below 1, and Theorems 1 and 2 every gamma_max; MomSPS
admits a momentum only below a cap (derived here).

![Constants and limits against beta](momentum.png)

| beta | 1 - r (Theorem 1) | A (2) | constant (3) | gamma_max (3) | cap of MomSPS |
|---|---|---|---|---|---|
"""
MEASURED = """
Measured on {runs} runs of {steps} steps for each setting, with c = 0.75, omega = 0.5 and
gamma_max = 1 (convex) or 0.8 times the limit of Theorem 3 (non-convex). Measured numbers are means
less one standard error. Diminishing runs have the schedules of Section 5. What holds at every step
is shown at its tightest one.
"""


def main():
    """Write the index."""
    (DOCS / "theory.md").write_text(index())


def index() -> str:
    """What the check found, and every result in a line."""
    lines = [HEAD, "## Overview\n", "| result | says |", "|---|---|"]
    lines += [
        f"| [{r.id}](../src/heavystep/{file(r)}) | {escaped(r.statement)} |" for r in RESULTS + OWN
    ]
    rows = (" | ".join(f"{value:.4g}" for value in row) for row in side_by_side(L=1.0, mu=0.1))
    return "\n".join([*lines, "", MOMENTUM + "\n".join(f"| {row} |" for row in rows), ""])


def name(result: Result) -> str:
    """Of its page."""
    return result.id.lower().replace(" ", "-")


def page(result: Result) -> str:
    """One result."""
    remarks = REMARKS[result.id]
    text = inspect.getdoc(result.function)
    text = re.split(r"^(?:Assumes:|Reference:|>>> )", text, maxsplit=1, flags=re.MULTILINE)[0]
    function = f"heavystep.theory.{result.function.__name__}"
    lines = [
        f"# {result.id}\n",
        f"**{escaped(result.statement)}.**\n",
        text,
        f"- In code: [`{function}`](../api.md#{function}), in `{file(result)}`",
        f"- {'Source' if result in OWN else 'In the paper'}: {result.location}",
        f"- Needs: {escaped('; '.join(result.assumptions))}",
        f"- Tested: {escaped(remarks['tested'])}",
        *(f"- Must reduce to: {escaped(each)}" for each in remarks.get("reductions", ())),
        "\n## Remarks\n",
        *(f"- {escaped(each)}" for each in remarks["readings"]),
    ]
    if "proof" in remarks:
        steps = enumerate(remarks["proof"], 1)
        lines += ["\n## Proof\n", *(f"{number}. {escaped(each)}" for number, each in steps)]
    return "\n".join([*lines, measured(result), ""])


def measured(result: Result) -> str:
    """How far runs stayed from the bound: a table of each quantity, at the last k of a setting."""
    found = json.loads((DOCS / "slack.json").read_text())
    names = (result.id, f"Recursion of {result.id}", f"Tail inequality of {result.id}")
    quantities: dict[str, list[str]] = {}
    for row, after in zip(found["rows"], [*found["rows"][1:], None], strict=True):
        setting = ("problem", "rule", "beta", "quantity")
        if row["result"] not in names or (after and all(row[s] == after[s] for s in setting)):
            continue
        momentum = "diminishing" if row["beta"] is None else f"beta = {row['beta']:g}"
        numbers = (f"{row['bound']:.3g}", f"{row['measured']:.3g}")
        cells = (row["problem"], row["rule"], momentum, str(row["k"]), *numbers)
        quantities.setdefault(row["quantity"], []).append(f"| {' | '.join(cells)} |")
    head = "| problem | rule | momentum | k | bound | measured |\n" + "|---" * 6 + "|\n"
    tables = [
        f"{escaped(name)}:\n\n{head}" + "\n".join(rows) + "\n" for name, rows in quantities.items()
    ]
    if not tables and result.id in found["skipped"]:
        tables.append(f"Not checked in these runs: {found['skipped'][result.id]}.\n")
    return "\n".join(["\n## Measured\n", *tables, MEASURED.format(**found)]) if tables else ""


def escaped(text: str) -> str:
    """A formula in ASCII as Markdown leaves it alone; names in backticks stay."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"[|*_]", r"\\\g<0>", part.replace("<", "&lt;")) for part in parts[::2]]
    return "`".join(parts)


def file(result: Result) -> str:
    """The file that the result's function is written in."""
    # Many functions are wrapped by the decorator that documents their arguments.
    path = inspect.getsourcefile(inspect.unwrap(result.function)) or ""
    return "theory/" + path.rpartition("/theory/")[2]


if __name__ == "__main__":
    main()
