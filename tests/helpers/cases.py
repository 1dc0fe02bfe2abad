"""The tables that the tests run over: a new method or rule is tested by adding a row."""

from dataclasses import dataclass, field
from math import inf, nan
from typing import Any

import heavystep


@dataclass(frozen=True)
class Case:
    """One optimizer with its capabilities; tests branch on these, never on a name."""

    id: str
    cls: type
    kwargs: dict[str, Any] = field(default_factory=dict)
    rule: str = "polyak"
    needs_closure: bool = False
    adaptive: bool = True
    has_momentum: bool = True

    def make(self, params, **overrides):
        return self.cls(params, **{**self.kwargs, **overrides})


OPTIMIZERS = [
    Case("SHB", heavystep.SHB, {"lr": 0.05}, rule="fixed", adaptive=False),
    Case("SHBPolyak", heavystep.SHBPolyak, {"steps_per_epoch": 20}),
    Case("SHBPolyak-theory", heavystep.SHBPolyak, {"scaling": "theory", "c": 0.75}),
    Case("SHBArmijo", heavystep.SHBArmijo, {"steps_per_epoch": 20}, "armijo", needs_closure=True),
    Case(
        "SHBArmijo-theory",
        heavystep.SHBArmijo,
        {"scaling": "theory", "c": 0.6, "lower_bound": 0.0, "decrease_factor": 0.5},
        "armijo",
        needs_closure=True,
    ),
    Case("SPS", heavystep.SPS, {"c": 0.5}, has_momentum=False),
    Case("SLS", heavystep.SLS, {}, "armijo", needs_closure=True, has_momentum=False),
]

# loss, grad_sqnorm, lower_bound, c, kappa, cap -> step
POLYAK_CASES = {
    "plain": ((3.0, 8.0, 1.0, 0.5, 1.0, 10.0), 0.5),
    "kappa": ((3.0, 8.0, 1.0, 0.5, 0.25, 10.0), 0.125),
    "c": ((3.0, 8.0, 1.0, 2.0, 1.0, 10.0), 0.125),
    "cap active": ((3.0, 8.0, 1.0, 0.5, 1.0, 0.25), 0.25),
    "cap not scaled by kappa": ((3.0, 1.0, 1.0, 0.5, 0.5, 0.25), 0.25),
    "negative lower bound": ((-1.0, 8.0, -3.0, 0.5, 1.0, 10.0), 0.5),
    "zero gradient": ((3.0, 0.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "zero gradient at the bound": ((1.0, 0.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "loss at the bound": ((1.0, 8.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "loss below the bound": ((0.5, 8.0, 1.0, 0.5, 1.0, 10.0), 0.0),
    "subnormal gradient": ((1.0, 5e-324, 0.0, 1.0, 1.0, 2.0), 2.0),
    "c g^2 underflows": ((1.0, 5e-324, 0.0, 0.25, 1.0, 2.0), 0.0),
    "NaN loss": ((nan, 8.0, 1.0, 0.5, 1.0, 10.0), nan),
    "NaN gradient": ((3.0, nan, 1.0, 0.5, 1.0, 10.0), nan),
    "infinite loss": ((inf, 8.0, 1.0, 0.5, 1.0, 10.0), 10.0),
    "infinite gradient": ((3.0, inf, 1.0, 0.5, 1.0, 10.0), 0.0),
}

# loss, grad_sqnorm -> may be used
FINITE_CASES = {
    "finite": ((1.0, 2.0), True),
    "zero": ((0.0, 0.0), True),
    "NaN loss": ((nan, 1.0), False),
    "infinite loss": ((inf, 1.0), False),
    "minus infinity": ((-inf, 1.0), False),
    "NaN gradient": ((1.0, nan), False),
    "infinite gradient": ((1.0, inf), False),
}

# last_step, factor, max_step -> cap
CAP_CASES = {
    "first step": ((inf, 2.0, 0.5), 0.5),
    "no reset": ((0.1, inf, 0.5), 0.5),
    "reset active": ((0.1, 2.0, 0.5), 0.2),
    "max_step active": ((0.4, 2.0, 0.5), 0.5),
}

# last_step, step -> next last_step
REMEMBER_CASES = {
    "step": ((0.5, 0.25), 0.25),
    "zero step": ((0.5, 0.0), 0.5),
}

# test(loss, grad_sqnorm, lower_bound, c, decrease_factor, max_trials, loss_eps), first trial,
# trial losses -> (trial, trials, capped, active, accepted)
ARMIJO_CASES = {
    "accepted at once": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [2.0], (0.25, 1, True, False, True)),
    "just too large": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [2.01], (0.125, 1, False, True, False)),
    "second trial": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [9.0, 2.5], (0.125, 2, False, False, True)),
    "NaN then good": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [nan, 2.5], (0.125, 2, False, False, True)),
    "minus infinity is no loss": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [-inf], (0.125, 1, False, True, False)),
    "out of trials": ((3.0, 8.0, -inf, 0.5, 0.5, 2, 0.0), 0.25, [9.0, 9.0], (0.0, 2, False, False, False)),
    "skipped trials do not count": (
        (3.0, 8.0, 0.0, 0.5, 0.5, 1, 0.0), 2.0, [inf, inf, 0.5], (0.5, 1, False, False, True)),
    "outside the tolerance": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 1e-3), 0.25, [2.0121], (0.125, 1, False, True, False)),
    "within the tolerance": ((3.0, 8.0, -inf, 0.5, 0.5, 9, 1e-3), 0.25, [2.0119], (0.25, 1, True, False, True)),
    "zero gradient": ((3.0, 0.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, True)),
    "below the bound": ((3.0, 8.0, 4.0, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, True)),
    "NaN loss": ((nan, 8.0, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, False)),
    "infinite gradient": ((3.0, inf, -inf, 0.5, 0.5, 9, 0.0), 0.25, [], (0.0, 0, False, False, False)),
}  # fmt: skip


BAD_NUMBERS = {
    "lr": ([-0.1, nan, inf], r"lr \((eta|gamma)\) must be >= 0 and finite, got {}"),
    "momentum": ([-0.1, 1.0, 1.5, nan], r"momentum \(beta\) must be in \[0, 1\), got {}"),
    "weight_decay": ([-1e-4, nan], r"weight_decay must be >= 0 and finite, got {}"),
    "max_step": ([0.0, -1.0, inf, nan], r"max_step \(gamma_max\) must be > 0 and finite, got {}"),
    "growth": ([0.5, nan], r"growth must be >= 1 and finite, got {}"),
    "steps_per_epoch": ([0, 0.5, -3, nan], r"steps_per_epoch \(n_b\) must be >= 1 and finite, got {}"),
    "lower_bound": ([nan, inf, -inf], r"lower_bound \(f_star\) must be finite, got {}"),
    "decrease_factor": ([0.0, 1.0, -0.5, nan], r"decrease_factor \(omega\) must be in \(0, 1\), got {}"),
    "loss_eps": ([-1e-9, 1.0, nan], r"loss_eps must be in \[0, 1\), got {}"),
    "max_trials": ([0, -1], r"max_trials must be >= 1, got {}"),
    "c": ([0.0, -1.0, nan], r"c must be .*, got {}"),
}  # fmt: skip
"""Values that every optimizer with the argument refuses, and the message."""

BAD_CHOICES = {
    "scaling": (["fast", None, 1, "Theory"], r"scaling must be one of 'theory', 'practical', 'plain', got"),
    "decay": (["l2", None], r"decay must be one of 'decoupled', 'objective', got"),
    "foreach": (["yes", 2], r"foreach must be one of None, True, False, got"),
}  # fmt: skip
