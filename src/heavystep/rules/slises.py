r"""SLiSeS: Barzilai and Borwein's step on a batch that is kept for several steps, with a search.

.. math:: t_0 = \mathrm{clip}\Big(\frac{\langle s_k, s_k\rangle}{\langle s_k, y_k\rangle},\
          \gamma_{\min}, \gamma_{\max}\Big), \qquad s_k = \theta_k - \theta_{k-1}, \quad
          y_k = g_k - g_{k-1}

where both gradients are of the same batch; at the first step of a new batch, and where
<s_k, y_k> <= 0, t_0 is the last one. The step is the largest omega^j t_0 with Armijo's decrease.

Without momentum s_k points against g_{k-1}, so that <s_k, g_{k-1}> = -||s_k|| ||g_{k-1}|| and no
gradient need be kept. With another ``lr`` in each group, or weight decay beside the step, this is
only a bound, and t_0 comes out smaller: a first trial, which the search judges all the same. A
batch that is refused is refused each time that it is kept, so that the count of its steps stays
right; a run that goes on from a checkpoint has to go on with that batch too, as the state of
:class:`heavystep.batches.PersistentBatches` does. Not verified: only the abstract (arXiv
2306.07379v3) was at hand; its own safeguards of the search are not here.
"""

from dataclasses import replace
from typing import Any

from heavystep import validation
from heavystep.rules.armijo import sufficient_loss
from heavystep.rules.backtracking import OPTIONS, READS, advance_below, begin, skip_below
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, Whole, constants
from heavystep.rules.ponos import MIN_STEP, min_step
from heavystep.rules.primitives import maximum, minimum, where
from heavystep.rules.smooth_reset import MAX_STEP


def coefficient(constants: Any, memory: Any, seen: Seen) -> Any:
    """t_0."""
    curvature = seen.drift + (seen.buffer_sqnorm * memory.last_sqnorm) ** 0.5
    known = (memory.count > 0.0) & (curvature > 0.0)
    found = where(known, seen.buffer_sqnorm / where(known, curvature, 1.0), memory.coefficient)
    return maximum(minimum(found, constants.max_step), constants.min_step)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """Begin at t_0."""
    return begin(constants, seen, seen.lower_bound, coefficient(constants, memory, seen))


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """t_0, ||g_k||^2, and how often the batch was used."""
    count = where(memory.count + 1.0 >= constants.kept, 0.0, memory.count + 1.0)
    return coefficient(constants, memory, seen), seen.grad_sqnorm, count


SLISES = Rule(
    name="slises",
    formula=r"\gamma_k = \eta_k t_k, \qquad t_k \text{ the largest } t \in \{t_0 \omega^j\} "
    r"\text{ with } f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2, \quad "
    r"t_0 = \mathrm{clip}(\|s_k\|^2 / \langle s_k, y_k\rangle)",
    reference="Bellavia, Krejic, Krklec Jerinkic and Raydan (2024)",
    options=(
        Option("c", 0.1, validation.OPEN_UNIT, "sufficient decrease constant c, in (0, 1)."),
        replace(MAX_STEP, default=100.0),
        MIN_STEP,
        Option("kept", 5, Whole(1), "for how many steps a batch is kept, >= 1.", symbol="m"),
        *OPTIONS,
    ),
    reads=READS | {"drift", "buffer_sqnorm"},
    resolve=constants("c", "max_step", "kept", "decrease_factor", "max_trials",
                      min_step=min_step),
    memory={"coefficient": Slot(1.0, validation.POSITIVE),
            **dict.fromkeys(("last_sqnorm", "count"), Slot(0.0, validation.NON_NEGATIVE))},
    start=start, skip=skip_below(sufficient_loss),
    advance=advance_below(sufficient_loss),
    remember=remember,
)  # fmt: skip
