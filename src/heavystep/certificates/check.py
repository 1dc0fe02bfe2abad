"""A certificate: checks, results that were skipped, and a table of them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from heavystep.arrays import Array

RESOLVED = 1e-9
"""If rounding is more than this part of a number, its slack is a matter of rounding."""
TINY = float(np.finfo(np.float64).tiny)
"""Numbers below this lose digits, and no relative statement about them holds."""


@dataclass(frozen=True, eq=False)
class Check:
    """One inequality at every step: (K,) of means over runs, (R, K) of what every run must obey.

    NaN in ``measured`` marks a step to which the result does not apply.
    """

    result: str
    """The name of the result, such as ``"Theorem 2"``."""
    quantity: str
    """The measured quantity, in the paper's symbols."""
    k: Array
    measured: Array
    bound: Array
    tolerance: Array | float = 0.0
    """The part of the slack that may be rounding."""
    lower: bool = False
    """The bound is a lower one."""

    @property
    def slacks(self) -> Array:
        """The distance to the bound at each step; negative where the bound is crossed."""
        slacks: Array = self.bound - self.measured
        return -slacks if self.lower else slacks

    @property
    def holds(self) -> bool:
        """True if the inequality holds everywhere, up to rounding."""
        applies = ~np.isnan(self.measured)
        return bool((self.slacks >= -self.tolerance)[applies].all())

    @property
    def applied(self) -> int:
        """The number of steps at which it was checked."""
        return int((~np.isnan(self.measured)).sum())

    @property
    def tightest(self) -> tuple[int, ...]:
        """The step with the least slack for its size, which fails if any step fails.

        A step whose slack is a matter of rounding is chosen only if there is no other.
        """
        sizes = np.maximum(np.maximum(abs(self.bound), abs(self.measured)), TINY)
        relative = np.where(np.isnan(self.measured), np.inf, self.slacks / sizes)
        blurred = (self.tolerance > RESOLVED * sizes) & (self.slacks >= -self.tolerance)
        clear = np.where(blurred, np.inf, relative)
        ranked = clear if np.isfinite(clear).any() else relative
        return tuple(int(i) for i in np.unravel_index(np.argmin(ranked), ranked.shape))

    def row(self) -> dict[str, Any]:
        """The line of the table, for the step at which the check is tightest."""
        at = self.tightest
        return {
            "result": self.result,
            "quantity": self.quantity,
            "k": int(self.k[at[-1]]),
            "bound": float(self.bound[at]),
            "measured": float(self.measured[at]),
            "slack": float(self.slacks[at]),
            "holds": self.holds,
        }


class StepBias(NamedTuple):
    r"""How far :math:`E[\gamma g]`, which moves the iterate, is from :math:`E[\gamma]\,E[g]`.

    They differ where the step is chosen from the sample whose gradient it multiplies. A run then
    rests where the first vanishes. Means are over the second half of all runs.
    """

    covariance: float
    """The norm of the difference, in units of E[gamma] (E ||g||^2)^(1/2)."""
    chance: float
    """The mean of that number if step and gradient were independent."""

    def __str__(self) -> str:
        size = f"{self.covariance:.2g} of E[gamma] (E ||g||^2)^(1/2), by chance {self.chance:.2g}"
        return f"step and gradient: ||E[gamma g] - E[gamma] E[g]|| is {size}"


@dataclass(frozen=True, eq=False)
class Certificate:
    """All checks of a run; ``print`` it for the table, each check at its tightest step."""

    checks: tuple[Check, ...]
    skipped: dict[str, str] = field(default_factory=dict)
    """The results that do not apply to this run, with the reasons."""
    asked: tuple[str, ...] = ()
    """The results that were asked about; empty: any theorem will do."""
    bias: StepBias | None = None
    """None where the record cannot say it."""

    @property
    def holds(self) -> bool:
        """True if every check holds. A certificate without checks certifies nothing."""
        return bool(self.checks) and all(check.holds for check in self.checks)

    @property
    def covered(self) -> bool:
        """True if every result that was asked about was checked; by default at least one theorem.

        Lemmas hold where no theorem does: with c = 0.4 every check may hold, and Theorem 2, which
        needs c > 1/2, still promises nothing.
        """
        if self.asked:
            return all(result in self for result in self.asked)
        return bool(self._theorems)

    @property
    def _theorems(self) -> list[str]:
        return list(dict.fromkeys(c.result for c in self.checks if c.result.startswith("Theorem")))

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that do not hold."""
        return tuple(check for check in self.checks if not check.holds)

    @property
    def verdict(self) -> str:
        """One sentence: what holds, and whether a theorem covers the run."""
        if not self.checks:
            return "Nothing was checked."
        if failures := self.failures:
            return f"BROKEN: {', '.join(dict.fromkeys(check.result for check in failures))}."
        if missing := [result for result in self.asked if result not in self]:
            why = "; ".join(f"{r} {self.skipped.get(r, 'was not checked')}" for r in missing)
            return f"Every check holds, but what was asked about does not cover the run: {why}."
        if not self.covered:
            return "Every check holds, but no theorem covers the run."
        return f"Every check holds; covered by {', '.join(self._theorems)}."

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __contains__(self, result: object) -> bool:
        return any(check.result == result for check in self.checks)

    def __getitem__(self, result: str) -> Check:
        """The first check of a result, for instance ``certificate["Theorem 2"]``."""
        for check in self.checks:
            if check.result == result:
                return check
        reason = self.skipped.get(result, "there is no such result")
        raise KeyError(f"{result} was not checked: {reason}")

    def __str__(self) -> str:
        header = ("result", "quantity", "k", "bound", "measured", "slack", "holds")
        body = [header, *(tuple(map(_text, check.row().values())) for check in self.checks)]
        widths = [max(len(line[column]) for line in body) for column in range(len(header))]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in body]
        lines += [f"not checked: {result} {reason}" for result, reason in self.skipped.items()]
        lines += [] if self.bias is None else [str(self.bias)]
        return "\n".join([*lines, self.verdict])


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
