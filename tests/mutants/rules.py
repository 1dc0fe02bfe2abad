"""Changes of the step rules that some test must notice."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant("drop the Polyak cap", "rules/polyak.py", "minimum(ratio, cap)", "ratio"),
    Mutant("drop max_step from the cap", "rules/smooth_reset.py",
           "return minimum(factor * last_step, max_step)",
           "return minimum(factor * last_step, 1e30 * max_step)"),
    Mutant("kappa = 1 in theory mode", "rules/scaling.py",
           "return momentum_factor(momentum) / 2.0", "return 1.0"),
    Mutant("remember a zero step", "rules/smooth_reset.py",
           "accepted & (step > 0.0)", "accepted & (step >= 0.0)"),
    Mutant("let a negative gap through", "rules/polyak.py",
           "maximum(loss - lower_bound, 0.0)", "(loss - lower_bound)"),
    Mutant("forget c in the Armijo test", "rules/armijo.py",
           "test.loss - test.c * trial", "test.loss - trial"),
    Mutant("skip trials that could succeed", "rules/armijo.py",
           "return sufficient_loss(test, search.trial) < test.lower_bound",
           "return sufficient_loss(test, search.trial) < test.lower_bound + 0.1"),
    Mutant("count skipped trials", "rules/armijo.py",
           "where(cannot_succeed(test, search), 0, 1)", "1"),
    Mutant("accept a NaN batch", "rules/polyak.py",
           "return is_finite(loss) & is_finite(grad_sqnorm)", "return is_finite(grad_sqnorm)"),
    Mutant("compare losses with 1000 times the tolerance", "rules/armijo.py",
           "TOLERANCE_ULPS = 4.0", "TOLERANCE_ULPS = 4000.0"),
    Mutant("growth per step instead of per epoch", "rules/smooth_reset.py",
           "growth ** (1.0 / steps_per_epoch)", "growth"),
    Mutant("square root of s_beta", "rules/scaling.py",
           "return (1.0 - momentum**0.5) ** 2", "return 1.0 - momentum**0.5"),
]  # fmt: skip
