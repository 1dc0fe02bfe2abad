r"""The modified Armijo line search, as a state that each trial loss advances once.

.. math:: t_k = \max\{\,t \in \{\tfrac{\mathrm{cap}_k}{\kappa}\,\omega^j,\ j = 0, 1, \dots\} :
          f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2\,\},
          \qquad \gamma_k / \eta_k = \kappa\,t_k

The trial moves along the gradient only, without momentum, and its step t is larger than
the step kappa * t that is then applied. A back end supplies the trial losses::

    search = armijo_start(test, first_trial)
    while search.active:
        loss = inf if cannot_succeed(test, search) else trial_loss(search.trial)
        search = armijo_advance(test, search, loss)

Reference: Zhang, Shi and Gu, eqs. (shb-ls) and (shb-ls-parameters); Section 4 with kappa = 1.
"""

from typing import Any, NamedTuple

from heavystep.rules.polyak import batch_is_finite
from heavystep.rules.primitives import is_finite, where

TOLERANCE_ULPS = 4.0


class ArmijoTest(NamedTuple):
    """What stays fixed during one search."""

    loss: Any
    """f(theta_k; x_k)."""
    grad_sqnorm: Any
    """Squared norm of its gradient."""
    lower_bound: Any
    """A lower bound of the sampled loss; -inf if none is known."""
    c: Any
    """Sufficient decrease constant, in (0, 1)."""
    decrease_factor: Any
    """omega, in (0, 1)."""
    max_trials: Any
    """How many trial losses may be evaluated."""
    loss_eps: Any
    """Machine epsilon of the number format in which the losses were computed."""


class ArmijoSearch(NamedTuple):
    """What changes from trial to trial."""

    trial: Any
    """The step t to try next; once the search is over, the accepted t or 0."""
    trials: Any
    """How many trial losses were evaluated."""
    at_first: Any
    """Whether ``trial`` is the first point of the grid, that is, the cap."""
    active: Any
    """Whether another trial loss is wanted."""
    accepted: Any
    """Whether the step may be applied. False: the batch is refused."""


def sufficient_loss(test: ArmijoTest, trial: Any) -> Any:
    """The largest loss that makes a trial step acceptable.

    Differs from the paper: losses are compared with a tolerance of a few units in the
    last place of the loss. Near a minimiser the decrease asked for is smaller than the
    rounding of the loss, and without it a search fails there on rounding alone.

    >>> sufficient_loss(ArmijoTest(3.0, 2.0, 0.0, 0.5, 0.5, 10, 0.0), trial=0.25)
    2.75
    """
    tolerance = TOLERANCE_ULPS * test.loss_eps * abs(test.loss)
    return test.loss - test.c * trial * test.grad_sqnorm + tolerance


def cannot_succeed(test: ArmijoTest, search: ArmijoSearch) -> Any:
    """Whether the next trial must fail, because it asks for a loss below the lower bound.

    By Lemma 1 an accepted t satisfies c t ||g||^2 <= f_k - l_k. The comparison is made
    on the very threshold that the trial loss would meet, so leaving the evaluation out
    changes no accepted step, not by a bit.
    """
    return sufficient_loss(test, search.trial) < test.lower_bound


def skip_impossible(test: ArmijoTest, search: ArmijoSearch) -> ArmijoSearch:
    """Pass over all trials that cannot succeed at once, for back ends that work on numbers.

    What :func:`armijo_advance` does with one infinite loss after another: thresholds only rise
    as trials shrink, so that after the first trial that may succeed none needs to be skipped.
    """
    trial, possible = search.trial, True
    while search.active and possible and sufficient_loss(test, trial) < test.lower_bound:
        smaller = trial * test.decrease_factor
        # The smallest positive number times omega may round to itself.
        possible = (smaller > 0.0) & (smaller < trial)
        trial = smaller if possible else 0.0
    return ArmijoSearch(
        trial=trial,
        trials=search.trials,
        at_first=search.at_first & (trial == search.trial),
        active=search.active & possible,
        accepted=search.accepted & possible,
    )


def armijo_start(test: ArmijoTest, first_trial: Any) -> ArmijoSearch:
    """Begin a search at ``first_trial`` = cap / kappa.

    There is nothing to search, and the step is 0, if the gradient vanished or the loss
    lies at or below its lower bound. A non-finite loss or gradient is refused at once.
    """
    finite = batch_is_finite(test.loss, test.grad_sqnorm)
    active = finite & (test.c * test.grad_sqnorm > 0.0) & (test.loss > test.lower_bound)
    return ArmijoSearch(
        trial=where(active, first_trial, 0.0),
        trials=0,
        at_first=active,
        active=active,
        accepted=finite,
    )


def armijo_advance(test: ArmijoTest, search: ArmijoSearch, trial_loss: Any) -> ArmijoSearch:
    """Take in the loss at ``search.trial``; infinity for a trial that cannot succeed.

    A trial loss that is not finite fails, and the search goes on to smaller steps.
    """
    accepted = is_finite(trial_loss) & (trial_loss <= sufficient_loss(test, search.trial))
    trials = search.trials + where(cannot_succeed(test, search), 0, 1)
    next_trial = search.trial * test.decrease_factor
    # The smallest positive number times omega may round to itself.
    underflow = (next_trial == 0.0) | (next_trial == search.trial)
    exhausted = (trials >= test.max_trials) | underflow
    return ArmijoSearch(
        trial=where(accepted, search.trial, where(exhausted, 0.0, next_trial)),
        trials=trials,
        at_first=search.at_first & accepted,
        active=where(accepted | exhausted, False, True),
        accepted=accepted,
    )
