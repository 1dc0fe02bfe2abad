r"""The default rule, all of it: how far one step goes when nothing is set.

Averaged heavy ball (:mod:`heavystep.momentum`) moves a point z along the gradient and takes
gradients at theta = (1 - beta) z + beta x, near the average x of all z. This rule chooses the
length of a move, z_{k+1} = z_k - a_k D_k^{-1} g_k, and the weight w_k of z_{k+1} in x:

.. math:: a_k = \min\Big\{\sqrt{\varphi_k}\,r_k,\ \ \varphi_k m_k,\ \
          \rho\,\frac{\|\theta_k\|}{\|D_k^{-1} g_k\|}\Big\}, \qquad w_k = \frac{9}{n_k + 9}

Everything follows from four mechanisms. ||g||^2 is g' D^{-1} g, as everywhere with a diagonal.

1. *Length.* r_k = tau (f_k - l_k) / ||g_k||^2, tau Polyak steps to the level l_k. For a convex loss
   and a known least loss, z gets no further from any solution while tau < 2: Theorem A,
   :func:`heavystep.theory.averaged`. tau = 1.9 is nearly all that it allows.
2. *Noise.* phi_k is 1 while the loss falls and about sqrt(3/k) where it stands still:

   .. math:: \varphi_k = \Big(1 + \frac{n_k}{3} N_k^8\Big)^{-1/2}, \qquad
             N_k = \min\Big\{\frac{A_k - l_k}{M_k - l_k},\ 1\Big\}

   M is the mean of all losses and A their recent average. N = 1: nothing is gained any more, what
   is left is noise, and steps shrink as 1/sqrt(k), as stochastic gradients need. r_k belongs to
   this batch, and a step that stays correlated with its batch ends at a wrong point. So r_k is
   multiplied by the root of phi and m_k, the geometric mean of the r, by phi: in the end m_k
   decides.
3. *Trust.* No move is longer than rho times the size of the parameters. Parameters that begin at 0
   have no size; for them the first move is the measure.
4. *Level.* l is the ``lower_bound``. Where the average loss is below it, or none is given, l is
   estimated: A_k - 2 d_k, with d the mean deviation of the losses from A. It rises again as soon
   as losses spread less.

A, d and log m are averages with the weights of x: whatever a run remembers, it forgets at one
pace. A loss further than 4 d from A counts as 4 d, so that one wild loss does no harm. Two such
rises in a row mean that the task has changed: n, the age of the run, is halved, and with it all
averages and the noise of the past are half forgotten. Losses enter as differences and ratios alone,
so no unit of loss or parameter matters.

``weight_decay`` = lambda divides theta, z and x by 1 + lambda/(n_k + 9) before the move: a weight
that no gradient renews falls as n^(-lambda), whatever the steps, the units and the length of a run.
"""

from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, where

LENGTH = 1.9  # tau: Theorem A needs less than 2
TRUST = 0.05  # rho
POWER = 8.0  # of the weights of x, A, d and m, and of N in phi
PATIENCE = 3.0  # steps without gain after which phi is sqrt(1/2)
OUTLIER = 4.0  # mean deviations from A at which a loss is cut
DEPTH = 2.0  # mean deviations below A at which an estimated level lies


class Outlook(NamedTuple):
    """What memory and batch say together."""

    average: Any
    mean: Any
    deviation: Any
    gap: Any
    noise: Any
    ratio: Any
    typical: Any


def outlook(memory: Any, seen: Seen) -> Outlook:
    """A, M, d, f - l, N, r and m, all as of this batch."""
    loss, bound = seen.loss, seen.lower_bound
    unknown = bound == -inf
    new = memory.deviation == 0.0  # nothing is known yet: all losses so far were at the level
    average, mean = where(new, loss, memory.average), where(new, loss, memory.mean)
    first_gap = abs(loss - where(unknown, 0.0, bound))
    deviation = where(new, first_gap, memory.deviation)
    width = where(new, 1.0, DEPTH) * deviation
    level = where(unknown | (average < bound), average - width, bound)
    gap = maximum(loss - level, 0.0)
    spread = mean - level
    noise = where(spread > 0.0, (average - level) / where(spread > 0.0, spread, 1.0), 1.0)
    flat = seen.grad_sqnorm == 0.0
    ratio = where(flat, 0.0, LENGTH * gap / where(flat, 1.0, seen.grad_sqnorm))
    typical = where(memory.typical == 0.0, ratio, memory.typical)
    return Outlook(average, mean, deviation, gap, minimum(noise, 1.0), ratio, typical)


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The length of the move of z, and the weight of its end in x."""
    look = outlook(memory, seen)
    share = 1.0 / (1.0 + memory.age / PATIENCE * look.noise**POWER) ** 0.5
    wanted = minimum(share**0.5 * look.ratio, share * look.typical)
    length = seen.pull_sqnorm**0.5
    trusted = allowed(memory, seen, wanted * length) / where(length == 0.0, 1.0, length)
    step = minimum(wanted, trusted)
    weight = weight_of_next(memory.age, POWER)
    return Search(
        step=minimum(step, constants.max_step),
        accepted=batch_is_finite(look.gap, seen.grad_sqnorm),
        capped=step > constants.max_step,
        weight=weight,
        decay=weight / (POWER + 1.0),
    )


def allowed(memory: Any, seen: Seen, wanted: Any) -> Any:
    """How far a move may go: rho ||theta||, or as far as the first one of parameters at 0."""
    trusted = TRUST * seen.position_sqnorm**0.5
    first = where(trusted > 0.0, trusted, wanted)
    return maximum(trusted, where(memory.first_move == 0.0, first, memory.first_move))


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The memory after a step, in the order below."""
    look, weight = outlook(memory, seen), search.weight
    above, reach = seen.loss - look.average, OUTLIER * look.deviation
    cut = minimum(maximum(above, -reach), reach)
    cut = where(weight > 0.5, above, cut)  # the first nine losses may differ and are no mean yet
    rose = where(cut < above, 1.0, 0.0)
    average = look.average + weight * cut
    mean = look.mean + (look.average + cut - look.mean) / (memory.age + 1.0)
    mean = maximum(where(weight > 0.5, average, mean), average)
    spread = look.deviation + weight * (abs(cut) - look.deviation)
    deviation = where(memory.deviation == 0.0, look.deviation, spread)
    known = where(look.typical == 0.0, 1.0, look.typical)
    usual = minimum(maximum(look.ratio / known, 1.0 / OUTLIER), OUTLIER)
    typical = where(look.ratio > 0.0, look.typical * usual**weight, look.typical)
    length = seen.pull_sqnorm**0.5
    first_move = allowed(memory, seen, search.step * length)
    first_move = where(memory.first_move == 0.0, first_move, memory.first_move)
    age = where(rose * memory.rose > 0.0, 0.5 * memory.age, memory.age + 1.0)
    age = where(deviation == 0.0, 0.0, age)
    return age, average, mean, deviation, typical, first_move, rose


KNOWN = Slot(0.0, validation.NON_NEGATIVE)
HEAVYSTEP = Rule(
    name="heavystep",
    formula=r"a_k = \eta_k \min\{\sqrt{\varphi_k}\,\tau (f_k - \ell_k) / \|g_k\|^2,\ "
    r"\varphi_k m_k,\ \rho \|\theta_k\| / \|D_k^{-1} g_k\|\}",
    reference="of this package (heavystep.rules.heavystep)",
    options=(
        replace(LOWER_BOUND, optional=True),
        Option("max_step", None, validation.POSITIVE, "largest a_k, > 0; None: no limit.",
               optional=True),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "pull_sqnorm", "position_sqnorm"}),
    resolve=constants(
        max_step=lambda options: inf if options["max_step"] is None else options["max_step"],
    ),
    memory={
        "age": KNOWN, "average": 0.0, "mean": 0.0, "deviation": KNOWN, "typical": KNOWN,
        "first_move": KNOWN, "rose": KNOWN,
    },
    start=start,
    remember=remember,
)  # fmt: skip
