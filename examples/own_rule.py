"""Write your own rule: one function and one row, and it is an optimizer and a simulated method.

``python examples/own_rule.py``
"""

from typing import Any

import torch

from heavystep import create, problems, validation
from heavystep.lab import simulate
from heavystep.methods import Method, register
from heavystep.rules import Option, Rule, Search, batch_is_finite, maximum
from heavystep.rules.contract import constants


def start(given: Any, memory: Any, seen: Any) -> Search:
    """Half of Polyak's step where the gradient is large, and never more than half the gap."""
    gap = maximum(seen.loss - seen.lower_bound, 0.0)
    step = gap / (given.c * (1.0 + seen.grad_sqnorm))
    return Search(step, accepted=batch_is_finite(gap, seen.grad_sqnorm), capped=False)


GENTLE = Rule(
    name="gentle",
    formula=r"\gamma_k = (f_k - \ell_k) / (c\,(1 + \|g_k\|^2))",
    reference="an example",
    options=(
        Option("c", 2.0, validation.POSITIVE, "divisor, > 0."),
        Option("lower_bound", 0.0, validation.FINITE, "lower bound of the loss."),
    ),
    resolve=constants("c"),
    start=start,
)
register(Method("GentleExample", "an example", "A step that no gradient can stretch.", GENTLE))


def main() -> tuple[float, float]:
    theta = torch.tensor([3.0, -1.0], requires_grad=True)
    opt = create("GentleExample", [theta], momentum=0.5)
    for _ in range(300):
        opt.step(lambda: ((theta - 1.0) ** 2).sum())
    error = float((theta.detach() - 1.0).abs().max())
    runs = simulate(
        problems.paper_least_squares(), "GentleExample", seeds=3, iterations=2_000, momentum=0.5
    )
    gap = float(runs.metrics["gap_last"][:, -1].mean())
    print(f"torch: error {error:.1e}; compiled, on least squares: F - F* = {gap:.1e}")
    return error, gap


if __name__ == "__main__":
    main()
