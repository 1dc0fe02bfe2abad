"""Stochastic heavy ball with the modified Armijo line search."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from math import inf
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT

from heavystep import validation
from heavystep.optim.adaptive import AdaptiveHeavyBall, Auto
from heavystep.optim.arguments import documented
from heavystep.optim.base import Decision, Group, Sample
from heavystep.optim.closure import Closure, checked_loss
from heavystep.optim.replay import Replay
from heavystep.optim.torch_primitives import as_scalar
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
    "steps_per_epoch", "growth", "max_trials", "weight_decay", "decay", "buffers", "foreach",
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
    the same random numbers, and afterwards gradients, random streams and ``buffers`` are as
    one forward and backward would have left them.

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

    _ranges: ClassVar[Mapping[str, validation.Interval]] = {
        **AdaptiveHeavyBall._ranges,
        "c": validation.OPEN_UNIT,
        "decrease_factor": validation.OPEN_UNIT,
    }
    _optional: ClassVar[frozenset[str]] = AdaptiveHeavyBall._optional | {"lower_bound"}

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
        foreach: bool | None = None,
    ) -> None:
        self._buffers = _checked_buffers(buffers)
        self._origin: dict[Tensor, Tensor] = {}
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
                "foreach": foreach,
            },
        )

    @torch.no_grad()
    def step(
        self, closure: Closure | None = None, *, loss: Any = None, lower_bound: Any = None
    ) -> Any:
        """Search the step size for this batch and take the step.

        Args:
            closure: returns the loss of the batch at the present parameters; it may call
                ``backward()`` or leave that to the optimizer.
            loss: not enough for a line search; refused.
            lower_bound: lower bound of this batch's loss, instead of the optimizer's.

        Returns:
            The loss before the step, detached.
        """
        if closure is None and loss is not None:
            raise TypeError(
                f"{type(self).__name__} evaluates the loss at trial points and needs "
                "step(closure); SHBPolyak works with step(loss=loss)"
            )
        self._one_source(closure, loss)
        assert closure is not None
        replay = Replay(self._all_params[0].device, self._buffers())
        returned, calls_backward = self._call(closure)
        replay.first_done()
        sample = self._sample(returned)
        test = self._test(sample, returned, lower_bound)

        def trial_loss() -> float:
            with torch.set_grad_enabled(calls_backward):
                value = checked_loss(closure(), "the closure's return value")
            loss = as_scalar(value, sample.grad_sqnorm.dtype, sample.grad_sqnorm.device)
            return (loss + self._decay_term(sample.groups, loss.dtype)).item()

        search = self._search(test, sample, replay, trial_loss)
        decision = self._conclude(test, search)
        if decision.accepted:
            self._apply(sample, decision)
        self._report(test.loss, test.grad_sqnorm, decision)
        return returned

    def _test(self, sample: Sample, returned: Any, lower_bound: Any) -> ArmijoTest:
        options = self._options
        if isinstance(lower_bound, Tensor) and lower_bound.numel() == 1:
            lower_bound = lower_bound.item()
        bound = self._lower_bound(lower_bound)
        assert sample.loss is not None
        loss, grad_sqnorm = torch.stack((sample.loss, sample.grad_sqnorm)).tolist()
        formats = [sample.loss.dtype]
        if isinstance(returned, Tensor) and returned.is_floating_point():
            formats.append(returned.dtype)
        return ArmijoTest(
            loss=loss,
            grad_sqnorm=grad_sqnorm,
            lower_bound=-inf if bound is None else float(bound),
            c=options["c"],
            decrease_factor=options["decrease_factor"],
            max_trials=options["max_trials"],
            loss_eps=max(torch.finfo(dtype).eps for dtype in formats),
        )

    def _search(
        self,
        test: ArmijoTest,
        sample: Sample,
        replay: Replay,
        trial_loss: Callable[[], float],
    ) -> ArmijoSearch:
        search = armijo_start(test, self._cap(self._options["last_step"]) / self._kappa())
        if not search.active:
            return search
        params, grads = sample.params, sample.grads
        with self._restored(params, replay) as restore:
            while search.active:
                loss = inf
                if not cannot_succeed(test, search):
                    restore()
                    torch._foreach_add_(params, grads, alpha=-search.trial)
                    replay.rewind()
                    # A cast cached by an outer autocast is one of other parameter values.
                    torch.clear_autocast_cache()
                    loss = trial_loss()
                search = armijo_advance(test, search, loss)
        return search

    @contextmanager
    def _restored(self, params: list[Tensor], replay: Replay) -> Iterator[Callable[[], None]]:
        """Put ``params``, all gradients and ``replay`` back at the end, whatever happens.

        Yields a function that puts back ``params`` alone, from a copy, so that nothing
        drifts from trial to trial.
        """
        origin = [self._copy_of(param) for param in params]
        torch._foreach_copy_(origin, params)
        gradients = [(param, param.grad) for param in self._all_params]
        moved = False

        def restore() -> None:
            nonlocal moved
            if moved:
                torch._foreach_copy_(params, origin)
            moved = True

        try:
            # A closure that calls backward() must not add to the gradient at theta_k.
            for param, _ in gradients:
                param.grad = None
            yield restore
        finally:
            restore()
            for param, grad in gradients:
                param.grad = grad
            replay.finish()
            torch.clear_autocast_cache()

    def _copy_of(self, param: Tensor) -> Tensor:
        copy = self._origin.get(param)
        same = copy is not None and (copy.device, copy.dtype) == (param.device, param.dtype)
        if copy is None or not same or copy.shape != param.shape:
            copy = self._origin[param] = torch.empty_like(param)
        return copy

    def _conclude(self, test: ArmijoTest, search: ArmijoSearch) -> Decision:
        options = self._options
        step = self._kappa() * search.trial
        options["last_step"] = remember_step(options["last_step"], step, search.accepted)
        if not search.accepted and search.trials:
            warnings.warn(
                f"line search failed after {search.trials} trials (loss {test.loss:g}, squared "
                f"gradient norm {test.grad_sqnorm:g}); the batch was refused. If this goes on, "
                "lower max_step or raise max_trials",
                RuntimeWarning,
                stacklevel=5,  # the line that calls step()
            )
        return Decision(step, search.accepted, search.at_first, search.trials)

    def _check_options(self, options: Group) -> None:
        super()._check_options(options)
        validation.integer("max_trials", options["max_trials"], least=1)

    def __getstate__(self) -> Group:
        return {**super().__getstate__(), "_buffers": self._buffers, "_origin": {}}


class _Listed:
    """Buffers given as a list, behind the same call as ``model.buffers``."""

    def __init__(self, buffers: Iterable[Tensor]) -> None:
        self.buffers = list(buffers)

    def __call__(self) -> Iterable[Tensor]:
        return self.buffers


def _checked_buffers(buffers: Buffers | None) -> Callable[[], Iterable[Tensor]]:
    if isinstance(buffers, (torch.nn.Module, Tensor)):
        raise TypeError(
            f"buffers must be an iterable of tensors or a function that returns one, got "
            f"{type(buffers).__name__}: pass model.buffers()"
        )
    if callable(buffers):
        return buffers
    listed = _Listed(() if buffers is None else buffers)
    for buffer in listed():
        if not isinstance(buffer, Tensor):
            raise TypeError(f"buffers must hold tensors, got {buffer!r}: pass model.buffers()")
    return listed
