"""The optimizers of the paper: rows of :mod:`heavystep.methods` with written signatures."""

from typing import Any, Literal

from torch.optim.optimizer import ParamsT

from heavystep import methods
from heavystep.methods import Method
from heavystep.optim.closures.trials import Buffers
from heavystep.optim.documenting import documented
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.unknown import refusing_unknown

Auto = Literal["auto"]


def given(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a constructor, from its ``locals()``."""
    others = {"self", "params", "process_group", "buffers", "__class__"}
    return {name: value for name, value in arguments.items() if name not in others}


@documented
@refusing_unknown
class SHB(RuleOptimizer):
    """Stochastic heavy ball with a step that you choose, the baseline of the paper.

    Without weight decay it equals ``torch.optim.SGD`` while ``lr`` is constant; when a
    scheduler changes it, past steps keep the length they were taken with, whereas SGD rescales
    them. A batch with a non-finite gradient is refused (see ``info.accepted``). ``step()``
    needs no loss.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHB([theta], lr=0.1)
    >>> for _ in range(200):
    ...     opt.zero_grad()
    ...     ((theta - torch.tensor([1.0, 2.0])) ** 2).sum().backward()
    ...     _ = opt.step()
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = methods.SHB

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        *,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group)


@documented
@refusing_unknown
class SHBPolyak(RuleOptimizer):
    """Stochastic heavy ball with the Polyak step size (SHB-PS).

    There is nothing to tune: by default steps are steady (:mod:`heavystep.rules.steady_polyak`),
    begin small, and follow the loss whatever its units, and momentum is an average of the run, near
    which gradients are taken (:mod:`heavystep.momentum.averaged`). The paper's rule, with heavy
    ball, is one argument away, ``scaling="theory"``, ``"practical"`` or ``"plain"``
    (:mod:`heavystep.rules.polyak`, its cap :mod:`heavystep.rules.smooth_reset` and kappa
    :mod:`heavystep.rules.scaling`), and :func:`heavystep.paper_settings` has all of its settings.
    It costs one pass over the gradients and never waits for the device. Gradients count as they
    stand in ``p.grad``: clip them before ``step`` and the clipped gradient is both the direction
    and the norm in the rule.

    A batch with a non-finite loss or gradient changes nothing. A vanished gradient or a loss at
    ``lower_bound`` takes no gradient step while momentum goes on. A loss below it takes none with
    the paper's rules; steady steps take the bound for wrong and estimate another (one above 0,
    which may be of the mean, when the average of the losses is below it). Parameters without a
    gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBPolyak([theta])
    >>> for _ in range(200):
    ...     opt.zero_grad()
    ...     loss = ((theta - torch.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     _ = opt.step(loss=loss)
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = methods.SHB_POLYAK

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        momentum: float = 0.9,
        *,
        c: float = 1.0,
        max_step: float | Auto | None = "auto",
        lower_bound: float | None = 0.0,
        scaling: str = "steady",
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 4.0,
        outlook: float = 3.0,
        alike: float = 0.0,
        reach: float = 3.0,
        total_steps: int | None = None,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group)


@documented
@refusing_unknown
class SHBAdam(RuleOptimizer):
    """Stochastic heavy ball with steady Polyak steps in the norm of Adam's diagonal.

    For transformers and other networks whose layers want different steps; ResNets are trained, too.
    Rule and momentum are those of :class:`SHBPolyak`, :mod:`heavystep.rules.steady_polyak` and
    :mod:`heavystep.momentum.averaged`, with g' D^-1 g for the squared norm, and with shorter steps
    where batches are alike (``alike``); the diagonal D is :mod:`heavystep.momentum.diagonal`. For a
    diagonal that stays the same it is SHBPolyak in other coordinates, with that ``alike`` and
    ``reach``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBAdam([theta])
    >>> for _ in range(300):
    ...     _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum())
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = methods.METHODS["SHBAdam"]

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        momentum: float = 0.9,
        *,
        c: float = 1.0,
        max_step: float | Auto | None = "auto",
        lower_bound: float | None = 0.0,
        outlook: float = 3.0,
        alike: float = 0.006,
        reach: float = 1.0,
        total_steps: int | None = None,
        beta2: float = 0.999,
        diagonal_eps: float = 1e-8,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group)


@documented
@refusing_unknown
class SHBArmijo(RuleOptimizer):
    """Stochastic heavy ball with the modified Armijo line search (SHB-ALS).

    There is nothing to tune: by default steps are steady (:mod:`heavystep.rules.steady_armijo`),
    begin small, and follow the loss whatever its units. The paper's search is one argument away,
    ``scaling="theory"``, ``"practical"`` or ``"plain"`` (:mod:`heavystep.rules.armijo`), and
    :func:`heavystep.paper_settings` has all of its settings. ``step(closure)`` calls the closure
    once for loss and gradient and once a trial; a closure that leaves ``backward()`` to the
    optimizer makes trials cheaper, since they then run without gradients. All calls of one step see
    the same random numbers, and afterwards this optimizer's gradients, random streams and
    ``buffers`` are as one forward and backward would have left them. (A closure that calls
    ``backward()`` does so at trial points too, and adds to the gradients of parameters that
    belong to no group here: leave ``backward()`` to the optimizer if there are any.)

    A batch with a non-finite loss or gradient, or whose search fails, changes nothing. A vanished
    gradient or a loss at ``lower_bound`` takes no gradient step while momentum goes on; one below
    it takes none with the paper's rules, and is searched without the bound by steady ones.
    Parameters without a gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBArmijo([theta])
    >>> for _ in range(200):
    ...     _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum())
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = methods.SHB_ARMIJO

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        momentum: float = 0.9,
        *,
        c: float | Auto = "auto",
        max_step: float | Auto | None = "auto",
        decrease_factor: float = 0.9,
        lower_bound: float | None = None,
        scaling: str = "steady",
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 2.0,
        max_trials: int = 100,
        outlook: float = 3.0,
        total_steps: int | None = None,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        buffers: Buffers | None = None,
        loss_eps: float | None = None,
        example_loss: float = 0.0,
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group, buffers)


@documented
@refusing_unknown
class SPS(RuleOptimizer):
    """Stochastic Polyak step size (Loizou et al. 2021): :class:`SHBPolyak` without momentum.

    kappa is 1; c and max_step are those of the baseline in Appendix E.
    """

    method: Method = methods.SPS

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        *,
        c: float = 0.1,
        max_step: float = 1.0,
        lower_bound: float = 0.0,
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 4.0,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group)


@documented
@refusing_unknown
class SLS(RuleOptimizer):
    """Stochastic line search (Vaswani et al. 2019): :class:`SHBArmijo` without momentum.

    kappa is 1; c and max_step are those of the baseline in Appendix E.
    """

    method: Method = methods.SLS

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1.0,
        *,
        c: float = 0.1,
        max_step: float = 1.0,
        decrease_factor: float = 0.9,
        lower_bound: float | None = None,
        steps_per_epoch: float | Auto | None = "auto",
        growth: float = 2.0,
        max_trials: int = 100,
        weight_decay: float = 0.0,
        decay: str = "decoupled",
        buffers: Buffers | None = None,
        loss_eps: float | None = None,
        example_loss: float = 0.0,
        foreach: bool | None = None,
        process_group: Any = None,
    ) -> None:
        super().__init__(params, given(locals()), process_group, buffers)
