"""Write ``docs/performance.md`` from what the benchmarks saved in ``docs/measured``.

python docs/make_performance.py, or ``make performance`` to measure anew before.
"""

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
MEASURED = DOCS / "measured"
HEAD = """# What it costs

This page is generated (`make performance`). Tables under "Measured on" are what a benchmark saved
on that day and machine (`docs/measured`); compare ratios within a table, not milliseconds between
machines. A load average far above 0 says that the machine had other work, and its milliseconds
are too long.
"""
OPTIMIZERS = """## One step of the optimizer

Only the optimizer's own work on a CPU, with gradients that are there already. *ratio* is to
`torch.optim.SGD(momentum=0.9, foreach=True)`; *kept* and *peak* are memory, in copies of the
parameters, besides parameters and gradients. "Paper" is `scaling="practical"`; the others have
nothing set but a `max_step`. A line search makes one trial here, and its closure costs nothing.
In a training loop all of this stands beside the forward and the backward of your network, which
usually take far longer.

`SHBAdam` has the longest step without a search. It keeps averages as AdamW does, and goes through
them twice, for the norm and for the step, each time in one pass of torch's fused Adam kernel: about
the cost of AdamW(foreach=True), and less memory at the peak.
Other methods with a diagonal that read more of it (`MoMoAdam`), half precision and GPUs go
without the kernel, and have not been timed.

With many tiny tensors the time goes into calls, not numbers. `SHBPolyak` is above its aim of 1.6
there, 1.64 to 1.79 in six runs of this table, the last of which is kept; `SHBArmijo` is about at
its own. Points that go further (`reach`) change neither.
"""
GPU = """## A training step on a GPU

`heavystep bench train` puts every optimizer into the same loop. Measured on 2026-11-15, with the
paper's rules: one H200, torch 2.11, ResNet-18, bfloat16, batches of 256, 195 steps an epoch, CUDA
graphs. Steady steps, the default today, compute more on single numbers; on a GPU they have not
been timed apart.

| | ms a step | ratio | the same without graphs | s an epoch | peak memory | waits a step |
|---|---|---|---|---|---|---|
| SGD(fused) | 4.67 | 1 | 2.19 | 0.91 | 972 MiB | 0 |
| SHB | 4.71 | 1.01 | 2.24 | 0.92 | 976 MiB | 0 |
| SHBPolyak | 4.78 | 1.02 | 2.51 | 0.93 | 975 MiB | 0 |
| SHBArmijo, 1.02 trials a step | 6.95 | 1.49 | 3.68 | 1.36 | 1019 MiB | 1.00 |

`SHBPolyak` never waits for the GPU. `SHBArmijo` waits once a trial, and keeps one more copy of
the parameters and two of the buffers (BatchNorm's statistics).
"""
LINEAR = """## Logistic regression

`heavystep bench linear` (some minutes) times an iteration on sparse rows and compares
`SHBLogisticRegression` with scikit-learn's solvers, in one run. Measured on 2026-11-17 on two cores
of an AMD EPYC, load average before 2.7, rows of unit length, penalty 1/n:

| an iteration of SHB-PS, batch 128 | compiled | SHB-ALS | loop with scipy | torch, autograd |
|---|---|---|---|---|
| a9a | 6.2 us | 1.38 times | 30 times | 170 times |
| twin of real-sim | 35 us | 1.15 times | 7.2 times | 51 times |

With `max_step` = 100, SHB-ALS takes 1.36 and 1.16 times as long. To within 1% of the least loss
`SHBLogisticRegression` is ahead of SGDClassifier, sag, saga, lbfgs and liblinear on 8 of 10
sets (1.15 times the best on the twin and 1.18 on mushrooms; before its last speed-up on 6 to 9),
to within 0.1% on 9 (1.12 times the best on svmguide1). **A whole fit is not always faster than
lbfgs**: it is on most sets, at a smaller gap to the minimum, and is slower on small or
well-conditioned ones. [The estimator](linear.md) has all numbers, those that it loses among them.
"""
ELSEWHERE = """## Elsewhere

[Simulation](simulation.md): nanoseconds an iteration. [Thousands of ranks](scaling.md): messages,
measured and modelled. [Sensitivity](results/sensitivity/README.md) and
[comparison](results/compare/README.md): seconds a run, in their tables.
"""


def main() -> None:
    """Write the page."""
    (DOCS / "performance.md").write_text(render())


def render() -> str:
    """The page."""
    return "\n".join([HEAD, OPTIMIZERS, section("step_cost"), GPU, LINEAR, ELSEWHERE])


def section(name: str) -> str:
    """What one benchmark saved: where and when, then its tables."""
    saved = json.loads((MEASURED / f"{name}.json").read_text())
    about = (
        f"Measured on {saved['date']} by `{saved['command']}`: {saved['machine']}, "
        f"{saved['cores']} cores, load average before {saved['load']:g}; {saved['versions']}.\n"
    )
    return "\n".join([about, *map(markdown, saved["tables"])])


def markdown(table: dict[str, Any]) -> str:
    """One table, with its title above."""
    rows = [table["heading"], ["---", *["---:"] * (len(table["heading"]) - 1)], *table["rows"]]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*([f"{table['title']}:", ""] if table["title"] else []), *lines, ""])


if __name__ == "__main__":
    main()
