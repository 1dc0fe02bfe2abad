r"""The default rule, all of it: how far one step goes when nothing is set.

In averaged heavy ball (:mod:`heavystep.momentum`) a point z moves, x is an average of all z, and
loss f_k and gradient g_k of a batch are taken between the two, at the parameters theta. From
z_0 = x_0 = theta_0,

.. math:: z_{k+1} = z_k - a_k D_k^{-1} g_k, \quad x_{k+1} = x_k + w_k (z_{k+1} - x_k), \quad
          \theta_{k+1} = (1 - \beta) z_{k+1} + \beta x_{k+1}, \quad w_k = \frac{9}{n_k + 9}

D_k is Adam's diagonal with g_k in it, or 1; ||g||^2 is g' D^{-1} g; n_k is the age of the run, the
number of steps unless the task has changed. Four mechanisms give the length of a move:

.. math:: a_k = \min\Big\{s_k \sqrt{\varphi_k}\,r_k,\ \ s_k \varphi_k m_k,\ \
          \rho\,\frac{\max(|\theta_k|, |\theta_0|)}{\|D_k^{-1} g_k\|}\Big\}

1. *Length.* r_k = tau (f_k - l_k) / ||g_k||^2 is tau Polyak steps to the level l_k, and 0 where the
   loss is below it. tau = 16 / (8 + beta), 1.80 for beta = 0.9, is the largest value for which
   Theorem A (:func:`heavystep.theory.averaged`) allows constant steps.
2. *Noise.* With the mean M of all losses, their recent average A and that of ||g||^2, G,

   .. math:: \varphi_k = \Big(1 + \frac{n_k}{3} N_k^8\Big)^{-1/2}, \quad
             N_k = \min\Big\{\frac{A_k - l_k}{M_k - l_k},\ 1\Big\}, \quad
             m_k = \tau\,\frac{\max(A_k - l_k, 0)}{G_k}

   (N = 1 if M <= l). While the loss falls, N^8 is small. Where it stands still N = 1, and steps
   shrink as sqrt(3/n), as stochastic gradients need. r_k uses the same batch as g_k, which biases
   where the run ends. m_k uses averages, has no such bias, and is the smaller one late in a run.
3. *Trust.* No move is longer than the share rho of the parameters' size |theta|, the mean absolute
   value of their elements times the root of their number. (Most of a transformer's norm is
   LayerNorm's gains.) If |theta_0| = 0, the length of the first move stands for rho |theta_0|. What
   the first batches promise is trusted less, s_k = (n_k + 1)/(n_k + 20): on a vision transformer
   it is a decrease of 4 where the loss is 2.3. ||D^{-1} g|| here is Euclidean.
4. *Level.* l_k is the ``lower_bound``. Where A_k is below it, or none is given, it is estimated:
   min(A_k, f_k) - 8 d_k, with the mean deviation d of losses from A.

At the first batch A = M = f_0, G = ||g_0||^2, d = |f_0 - lower_bound| (|f_0| without one), and an
estimated level is f_0 - d. After batch k, with c = f_k - A_k cut to at most 4 d_k on both sides,

    M += (A + c - M)/(n + 1),   A += w c,   d += w (|c| - d),   G += w (min(||g_k||^2, 16 G) - G),

with w = w_k and the A and d from before; M is never below A, the first batch leaves d as it is. n
grows by 1. While n < 9 nothing is cut, G included, and M = A. If this c and the one before were cut
from above, the task has changed: n becomes n/2 instead. As long as d = 0, n stays 0, and the next
batch is the first again. No unit of losses matters.

``certified=True`` keeps the rule's conditions of Theorem A: tau = 1, a_k <= a (1 + e/(n - 1)) from
n = 2 on with the last a > 0 and e = 9/(1 + beta) - 1, no n that is halved. ``weight_decay`` divides
theta, z and x by 1 + weight_decay/(n_k + 9) just before the move: a weight that no gradient renews
falls as n^(-weight_decay), whatever the steps, the units and the length of a run.
"""

from dataclasses import replace
from math import inf
from typing import Any

from heavystep import validation
from heavystep.momentum import weight_of_next
from heavystep.rules.contract import Option, Rule, Search, Seen, Slot, constants
from heavystep.rules.polyak import LOWER_BOUND
from heavystep.rules.primitives import batch_is_finite, maximum, minimum, polyak_ratio, where

# Each constant has its reason above it. Percentages: the change of the mean training loss of 19
# tasks, docs/results/ablation/ablation.csv.

# rho: flat there (halved +0.2%). A GPT on program text ends at 1.829, without trust at 1.861.
TRUST = 0.2
# s is 1/2 at n = 18. With 1, 10, 20, 30 a vision transformer ends at 71, 59, 54, 52% error.
# Short runs are the price: off -1.1%.
WARM_UP = 20.0
# p of the weights of x, A, d and G (half of them is on the last 7%), and of N in phi: 4 is worse
# (+1.5%), 16 is worse in short runs.
POWER = 8.0
# Steps without gain after which phi is sqrt(1/2): 1.5 is worse (+0.7%). 6 is better on networks
# (-0.4%), and leaves 1.4 times the noise on convex problems.
PATIENCE = 3.0
SPREAD = 4.0  # usual deviations of a loss, or lengths of a gradient, where others are cut: flat
DEPTH = 8.0  # mean deviations from the losses down to an estimated level: flat (4: +0.1%)


def length(options: Any) -> Any:
    """tau, for which Theorem A allows a_k / a_{k-1} = 1: (p + 1)(2 - tau) = 2 - tau (1 - beta)."""
    return 1.0 if options["certified"] else 2.0 * POWER / (POWER + options["momentum"])


def growth(options: Any) -> Any:
    """The exponent e with which steps may grow for tau = 1: a_k / a_{k-1} <= 1 + e / (k - 1)."""
    if not options["certified"]:
        return inf
    if options.get("diagonal") is not None:
        raise ValueError("certified=True needs diagonal=None: no theorem covers a rising diagonal")
    return (POWER + 1.0) / (1.0 + options["momentum"]) - 1.0


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The length of the move of z, and the weight of its end in x."""
    loss, bound, unknown = seen.loss, seen.lower_bound, seen.lower_bound == -inf
    new = memory.deviation == 0.0  # nothing is known yet: all losses so far were at the level
    first = loss, loss, abs(loss - where(unknown, 0.0, bound)), 1.0
    known = memory.average, memory.mean, memory.deviation, DEPTH
    average, mean, deviation, depth = where(new, first, known)
    squares = where(new | (memory.squares == 0.0), seen.grad_sqnorm, memory.squares)
    # Level
    estimate = minimum(average, loss) - depth * deviation
    level = where(unknown | (average < bound), estimate, bound)
    # Length, and what noise makes of it: polyak is r_k, usual m_k, noise N_k
    gap = loss - level
    polyak = polyak_ratio(gap, seen.grad_sqnorm, constants.length)
    usual = polyak_ratio(average - level, squares, constants.length)
    spread = mean - level
    noise = where(spread > 0.0, (average - level) / where(spread > 0.0, spread, 1.0), 1.0)
    phi = 1.0 / (1.0 + memory.age / PATIENCE * minimum(noise, 1.0) ** POWER) ** 0.5
    # Trust
    warm = (memory.age + 1.0) / (memory.age + WARM_UP)  # s_k
    wanted = warm * minimum(phi**0.5 * polyak, phi * usual)
    far = seen.pull_sqnorm**0.5
    allowed = maximum(TRUST * seen.size, first_length(memory, seen, wanted * far))
    step = minimum(wanted, allowed / where(far == 0.0, 1.0, far))
    # What Theorem A allows
    free = (constants.growth == inf) | (memory.age < 2.0) | (memory.last == 0.0)
    more = constants.growth / maximum(memory.age - 1.0, 1.0)
    step = minimum(step, where(free, inf, memory.last * (1.0 + more)))
    weight = weight_of_next(memory.age, POWER)
    return Search(
        step=minimum(step, constants.max_step),
        accepted=batch_is_finite(gap, seen.grad_sqnorm),
        capped=step > constants.max_step,
        weight=weight,
        decay=weight / (POWER + 1.0),
        known=(average, mean, deviation, squares),
    )


def first_length(memory: Any, seen: Seen, wanted: Any) -> Any:
    """The length rho |theta_0|, or that of the first move of parameters at 0."""
    trusted = TRUST * seen.size
    return where(memory.first_move == 0.0, where(trusted > 0.0, trusted, wanted), memory.first_move)


def remember(constants: Any, memory: Any, seen: Seen, search: Search) -> tuple[Any, ...]:
    """The memory after a step, in the order below."""
    (average, mean, deviation, squares), weight = search.known, search.weight
    above, reach = seen.loss - average, SPREAD * deviation
    cut = minimum(maximum(above, -reach), reach), minimum(seen.grad_sqnorm, SPREAD**2 * squares)
    begins = weight > 0.5  # the first nine batches may differ, and are no average yet
    change, square = where(begins, (above, seen.grad_sqnorm), cut)
    rose = where(change < above, 1.0, 0.0)
    mean = mean + (average + change - mean) / (memory.age + 1.0)
    average = average + weight * change
    mean = maximum(where(begins, average, mean), average)
    spread = deviation + weight * (abs(change) - deviation)
    deviation = where(memory.deviation == 0.0, deviation, spread)
    squares = squares + weight * (square - squares)
    first_move = first_length(memory, seen, search.step * seen.pull_sqnorm**0.5)
    again = (rose * memory.rose > 0.0) & (constants.growth == inf)
    age = where(again, 0.5 * memory.age, memory.age + 1.0)
    age = where(deviation == 0.0, 0.0, age)
    last = where(search.step > 0.0, search.step, memory.last)
    return age, average, mean, deviation, squares, first_move, rose, last


KNOWN = Slot(0.0, validation.NON_NEGATIVE)
HEAVYSTEP = Rule(
    name="heavystep",
    formula=r"a_k = \eta_k \min\{s_k \sqrt{\varphi_k}\,\tau (f_k - \ell_k) / \|g_k\|^2,\ "
    r"s_k \varphi_k m_k,\ \rho \max(|\theta_k|, |\theta_0|) / \|D_k^{-1} g_k\|\}",
    reference="of this package (heavystep.rules.heavystep)",
    options=(
        replace(LOWER_BOUND, optional=True),
        Option("max_step", None, validation.POSITIVE, "largest a_k, > 0; None: no limit.",
               optional=True),
        Option("certified", False, (False, True), "keep Theorem A's conditions at all steps."),
    ),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "pull_sqnorm", "size"}),
    resolve=constants(
        length=length,
        growth=growth,
        max_step=lambda options: inf if options["max_step"] is None else options["max_step"],
    ),
    memory={
        "age": KNOWN, "average": 0.0, "mean": 0.0, "deviation": KNOWN, "squares": KNOWN,
        "first_move": KNOWN, "rose": KNOWN, "last": KNOWN,
    },
    start=start,
    remember=remember,
)  # fmt: skip
