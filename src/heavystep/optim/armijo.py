"""Stochastic heavy ball with the modified Armijo line search."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from heavystep import validation
from heavystep.optim.adaptive import AdaptiveHeavyBall, Auto
from heavystep.optim.arguments import documented
from heavystep.optim.closures.closure import Closure
from heavystep.optim.closures.trials import ParameterCopies, TrialPoints
from heavystep.optim.options import Group
from heavystep.optim.sample import Decision, Sample
from heavystep.rules import (
    ArmijoSearch,
    ArmijoTest,
    armijo_advance,
    armijo_start,
    cannot_succeed,
    remember_step,
)

Buffers = Iterable[Tensor] | Callable[[], Iterable[Tensor]]


@documented(
    "params", "lr", "momentum", "c", "max_step", "decrease_factor", "lower_bound", "scaling",
    "steps_per_epoch", "growth", "max_trials", "weight_decay", "decay", "buffers", "loss_eps",
    "foreach", "process_group",
    c="sufficient decrease constant c, in (0, 1).",
    lower_bound="a lower bound l of the sampled loss, or None. With one (0 for cross-entropy), "
    "trials that cannot succeed are not evaluated; the accepted step is the same to the bit. "
    "``step(..., lower_bound=)`` overrides it for one batch.",
)  # fmt: skip
class SHBArmijo(AdaptiveHeavyBall):
    r"""Stochastic heavy ball with the modified Armijo line search (SHB-ALS).

    .. math:: \gamma_k = \eta_k \kappa t_k, \qquad t_k \text{ the largest } t \in
              \{\mathrm{cap}_k \omega^j / \kappa\} \text{ with }
              f(\theta_k - t g_k; x_k) \le f(\theta_k; x_k) - c\,t\,\|g_k\|^2

    The search is :mod:`heavystep.rules.armijo`. ``step(closure)`` calls the closure once for
    loss and gradient and once a trial; a closure that leaves ``backward()`` to the optimizer
    makes trials cheaper, since they then run without gradients. All calls of one step see
    the same random numbers, and afterwards this optimizer's gradients, random streams and
    ``buffers`` are as one forward and backward would have left them. (A closure that calls
    ``backward()`` does so at trial points too, and adds to the gradients of parameters that
    belong to no group here: leave ``backward()`` to the optimizer if there are any.)

    A batch with a non-finite loss or gradient, or whose search fails, changes nothing. A
    vanished gradient or a loss at or below ``lower_bound`` takes no gradient step while
    momentum goes on. Parameters without a gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBArmijo([theta])
    >>> for _ in range(200):
    ...     _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum())
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])

    Reference: Zhang, Shi and Gu, Section 2 ("theory"), Section 4 ("plain"), Appendix E
    ("practical").
    """

    _searches: ClassVar[bool] = True
    _ranges: ClassVar[Mapping[str, validation.Interval]] = {
        **AdaptiveHeavyBall._ranges,
        "c": validation.OPEN_UNIT,
        "decrease_factor": validation.OPEN_UNIT,
        "loss_eps": validation.UNIT,
    }
    _optional: ClassVar[frozenset[str]] = AdaptiveHeavyBall._optional | {"lower_bound", "loss_eps"}

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        momentum: float = 0.9,
        *,
        c: float = 0.1,
        max_step: float = 1.0,
        decrease_factor: float = 0.9,
        lower_bound: float | None = None,
        scaling: str = "practical",
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 2.0,
        max_trials: int = 100,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        buffers: Buffers | None = None,
        loss_eps: float | None = None,
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        self._buffers = checked_buffers(buffers)
        self._copies = ParameterCopies()
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "c": c,
                "max_step": max_step,
                "decrease_factor": decrease_factor,
                "lower_bound": lower_bound,
                "scaling": scaling,
                "steps_per_epoch": steps_per_epoch,
                "growth": growth,
                "max_trials": max_trials,
                "weight_decay": weight_decay,
                "decay": decay,
                "loss_eps": loss_eps,
                "foreach": foreach,
            },
            process_group,
        )

    def hand_over(self, loss: Any) -> None:
        """Refused: one loss is not enough for a line search.

        Args:
            loss: any.
        """
        raise self._needs_closure()

    def _needs_closure(self) -> TypeError:
        return TypeError(
            f"{type(self).__name__} evaluates the loss at trial points and needs "
            "step(closure); SHBPolyak works with step(loss=loss) and hand_over(loss)"
        )

    def _one_source(self, closure: Closure | None, loss: Any) -> None:
        if closure is None:
            raise self._needs_closure()
        super()._one_source(closure, loss)

    def _evaluate(self, closure: Closure | None, loss: Any) -> tuple[Any, Sample]:
        assert closure is not None
        trials = TrialPoints(closure, self._all_params, self._buffers(), self._copies)
        returned, calls_backward = self._call(closure)
        trials.first_evaluation_done(calls_backward)
        sample = self._sample(returned)
        return returned, sample._replace(trials=trials.along(sample.params, sample.grads))

    def _decide(self, sample: Sample, lower_bound: Any) -> Decision:
        trials = sample.trials
        assert trials is not None
        assert sample.loss is not None
        loss, grad_sqnorm = torch.stack((sample.loss, sample.grad_sqnorm)).tolist()
        test = self._test(sample, loss, grad_sqnorm, lower_bound)
        search = armijo_start(test, self._first_trial(sample))
        if search.active:
            with trials:
                search = self._searched(test, search, lambda t: self._trial_loss(sample, trials, t))
        if not search.accepted:
            trials.forget_batch()
        return self._decision(test, search)

    def _searched(
        self, test: ArmijoTest, search: ArmijoSearch, trial_loss: Callable[[float], float]
    ) -> ArmijoSearch:
        """The search at its end."""
        while search.active:
            loss = inf if cannot_succeed(test, search) else trial_loss(search.trial)
            search = armijo_advance(test, search, loss)
        return search

    def _decision(self, test: ArmijoTest, search: ArmijoSearch) -> Decision:
        """What a finished search decided; the smooth reset remembers it."""
        if not search.accepted:
            self._warn_if_failed(test, search)
        options, step = self._options, self._kappa() * search.trial
        options["last_step"] = remember_step(options["last_step"], step, search.accepted)
        return Decision(
            step, search.accepted, search.at_first, test.loss, test.grad_sqnorm, search.trials
        )

    def _test(
        self, sample: Sample, loss: float, grad_sqnorm: float, lower_bound: Any
    ) -> ArmijoTest:
        options = self._options
        if isinstance(lower_bound, Tensor) and lower_bound.numel() == 1:
            lower_bound = lower_bound.item()
        bound = self._lower_bound(lower_bound)
        given = options["loss_eps"]
        return ArmijoTest(
            loss=loss,
            grad_sqnorm=grad_sqnorm,
            lower_bound=-inf if bound is None else float(bound),
            c=options["c"],
            decrease_factor=options["decrease_factor"],
            max_trials=options["max_trials"],
            loss_eps=self._coarsest_eps(sample) if given is None else given,
        )

    def _coarsest_eps(self, sample: Sample) -> float:
        """Machine epsilon of the coarsest format that the loss is known to pass through."""
        formats = {param.dtype for param in sample.params} | {sample.loss_dtype}
        kind = sample.grad_sqnorm.device.type
        if torch.is_autocast_enabled(kind):
            formats.add(torch.get_autocast_dtype(kind))
        return max(torch.finfo(dtype).eps for dtype in formats)

    def _first_trial(self, sample: Sample) -> float:
        trial: float = self._cap(self._options["last_step"]) / self._kappa()
        largest = min((torch.finfo(param.dtype).max for param in sample.params), default=inf)
        return min(trial, largest)

    def _trial_loss(self, sample: Sample, trials: TrialPoints, trial: float) -> float:
        dtype, device = sample.grad_sqnorm.dtype, sample.grad_sqnorm.device
        share = trials.loss_at(
            trial, lambda loss: self._loss_share(loss, sample.groups, dtype, device)
        )
        (loss,) = self._ranks.total(share)
        return loss.item()

    def _warn_if_failed(self, test: ArmijoTest, search: ArmijoSearch) -> None:
        if search.trials:
            warnings.warn(
                f"line search failed after {search.trials} trials (loss {test.loss:g}, squared "
                f"gradient norm {test.grad_sqnorm:g}) and the batch was refused. If this goes "
                "on, give a lower_bound (0 for most losses), which skips trials that cannot "
                "succeed, lower max_step or raise max_trials",
                RuntimeWarning,
                stacklevel=7,  # the line that calls step()
            )

    def _check_options(self, options: Group) -> None:
        super()._check_options(options)
        validation.integer("max_trials", options["max_trials"], least=1)

    def __getstate__(self) -> Group:
        return {**super().__getstate__(), "_buffers": self._buffers, "_copies": ParameterCopies()}


class _Listed:
    """Buffers given as a list, behind the same call as ``model.buffers``."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        self.buffers = list(buffers)

    def __call__(self) -> Iterable[Tensor]:
        return self.buffers


def checked_buffers(buffers: Buffers | None) -> Callable[[], Iterable[Tensor]]:
    """What gives the buffers anew at each step, or a refusal of what are none."""
    if callable(buffers) and not isinstance(buffers, torch.nn.Module):
        return buffers
    if isinstance(buffers, (torch.nn.Module, Tensor)) or not isinstance(buffers, Iterable | None):
        raise TypeError(
            f"buffers must be an iterable of tensors or a function that returns one, got "
            f"{type(buffers).__name__}: pass model.buffers()"
        )
    listed = _Listed(buffers or ())
    for buffer in listed():
        if not isinstance(buffer, Tensor):
            raise TypeError(f"buffers must hold tensors, got {buffer!r}: pass model.buffers()")
    return listed
