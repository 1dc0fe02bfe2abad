"""The optimizers that users write, with signatures; every other method by its name."""

import inspect
from functools import cache
from typing import Any, TypeVar

from torch.optim.optimizer import ParamsT

from heavystep.methods import METHODS, Method, method_of
from heavystep.optim.closure import Buffers
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.options import common_options
from heavystep.rules import REQUIRED
from heavystep.validation import args_section

T = TypeVar("T", bound=type)
TEXTS = {
    "params": "parameters to optimize, or dicts that define parameter groups.",
    "buffers": "buffers that a forward pass changes in place, such as BatchNorm statistics: pass "
    "``model.buffers()``, or ``model.buffers`` if the model changes device or format later. They "
    "change once a step, however many trials are made, and not at all if the batch is refused.",
    "process_group": "the processes that train one model together: their losses are averaged and "
    "all take the same step. None: all of torch.distributed, if it is initialised.",
}
"""Arguments of an optimizer besides options."""
OTHER_NAMES = {
    "betas": "momentum", "beta": "momentum", "learning_rate": "lr", "max_lr": "max_step",
    "f_star": "lower_bound",
}  # fmt: skip
"""Names of these options in other optimizers and in the paper."""


def from_row(cls: T) -> T:
    """Make a class with a signature the optimizer of its ``method``.

    The formulas come after the first paragraph of its docstring, the ``Args`` section at the end.
    """
    method: Method = cls.method  # type: ignore[attr-defined]
    signature = inspect.signature(cls.__init__)  # type: ignore[misc]
    names = list(signature.parameters)[2:]  # after self and params

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        for name in [name for name in kwargs if name not in ("params", *names)]:
            if name in method.fixed:
                hint = f"it is always {method.fixed[name]!r} there"
            elif OTHER_NAMES.get(name) in names:
                hint = f"here it is called {OTHER_NAMES[name]}"
            else:
                hint = f"it has {', '.join(names)}"
            raise TypeError(f"{method.name} has no option {name!r}: {hint}")
        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)
        _, params, ranks = given.pop("self"), given.pop("params"), given.pop("process_group")
        RuleOptimizer.__init__(self, params, given, ranks, given.pop("buffers", None))

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    summary, _, rest = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")
    options = (*method.options, *common_options(method))
    arguments = args_section(["params", *names], TEXTS | {o.name: o.text for o in options})
    formulas = "\n\n".join(f".. math:: {formula}" for formula in method.formulas)
    reference = f"Reference: {method.reference}."
    parts = [summary, formulas, method.explained, rest, reference, arguments]
    cls.__doc__ = "\n\n".join(filter(None, parts)) + "\n"
    cls.__init__ = __init__  # type: ignore[misc]
    return cls


# Signatures are written out for readers, editors and type checkers; the registry has the same.


@from_row
class HeavyStep(RuleOptimizer):
    """Averaged heavy ball whose step chooses itself: the optimizer to begin with.

    There is nothing to tune. The rule, :mod:`heavystep.rules.heavystep`, has all of its constants
    with the measurements that chose them; gradients are taken near the average of the run
    (:mod:`heavystep.momentum`), so that nothing is to be switched on for an evaluation.

    A batch with a non-finite loss or gradient changes nothing. Parameters without a gradient are
    left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = HeavyStep([theta])
    >>> for _ in range(300):
    ...     opt.zero_grad()
    ...     loss = ((theta - torch.tensor([1.0, 2.0])) ** 2).sum()
    ...     loss.backward()
    ...     _ = opt.step(loss=loss)
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = METHODS["HeavyStep"]

    def __init__(
        self, params: ParamsT, lr: float = 1.0, momentum: float = 0.9, *,
        lower_bound: float | None = 0.0, max_step: float | None = None,
        diagonal: str | None = "element", certified: bool = False, weight_decay: float = 0.0,
        stochastic_rounding: bool = False, process_group: Any = None,
    ) -> None: ...  # fmt: skip


@from_row
class SHBPolyak(RuleOptimizer):
    """Stochastic heavy ball with the Polyak step size (SHB-PS) of the paper.

    The formulas of cap_k and kappa are in :mod:`heavystep.rules.scaling`;
    :func:`heavystep.paper_settings` has the settings of the paper's experiments. It costs one pass
    over the gradients and never waits for the device. Gradients count as they stand in ``p.grad``:
    clip them before ``step`` and the clipped gradient is both the direction and the norm in the
    rule.

    A batch with a non-finite loss or gradient changes nothing. A vanished gradient or a loss at or
    below ``lower_bound`` takes no gradient step while momentum goes on. Parameters without a
    gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBPolyak([theta], lower_bound=1.0)
    >>> for _ in range(200):
    ...     _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum() + 1.0)
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = METHODS["SHBPolyak"]

    def __init__(
        self, params: ParamsT, lr: float = 1.0, momentum: float = 0.9, *, c: float = 1.0,
        max_step: float = 1.0, lower_bound: float = 0.0, scaling: str = "practical",
        steps_per_epoch: float | None = None, growth: float = 4.0, weight_decay: float = 0.0,
        decay: str = "decoupled", process_group: Any = None,
    ) -> None: ...  # fmt: skip


@from_row
class SHBArmijo(RuleOptimizer):
    """Stochastic heavy ball with the modified Armijo line search (SHB-ALS) of the paper.

    ``step(closure)`` calls the closure once for loss and gradient and once a trial; a closure that
    leaves ``backward()`` to the optimizer makes trials cheaper, since they then run without
    gradients. All calls of one step see the same random numbers, and afterwards this optimizer's
    gradients, random streams and ``buffers`` are as one forward and backward would have left them.
    (A closure that calls ``backward()`` does so at trial points too, and adds to the gradients of
    parameters that belong to no group here: leave ``backward()`` to the optimizer if there are
    any.) :func:`heavystep.paper_settings` has the settings of the paper's experiments.

    A batch with a non-finite loss or gradient, or whose search fails, changes nothing. A vanished
    gradient or a loss at or below ``lower_bound`` takes no gradient step while momentum goes on.
    Parameters without a gradient are left alone. See ``info``.

    >>> import torch
    >>> theta = torch.tensor([3.0, -1.0], requires_grad=True)
    >>> opt = SHBArmijo([theta])
    >>> for _ in range(200):
    ...     _ = opt.step(lambda: ((theta - torch.tensor([1.0, 2.0])) ** 2).sum())
    >>> print(theta.detach().round(decimals=2))
    tensor([1., 2.])
    """

    method: Method = METHODS["SHBArmijo"]

    def __init__(
        self, params: ParamsT, lr: float = 1.0, momentum: float = 0.9, *, c: float = 0.1,
        max_step: float = 1.0, decrease_factor: float = 0.9, lower_bound: float | None = None,
        scaling: str = "practical", steps_per_epoch: float | None = None, growth: float = 2.0,
        max_trials: int = 100, weight_decay: float = 0.0, decay: str = "decoupled",
        buffers: Buffers | None = None, loss_eps: float | None = None, example_loss: float = 0.0,
        process_group: Any = None,
    ) -> None: ...  # fmt: skip


@from_row
class SPS(RuleOptimizer):
    """Stochastic Polyak step size (Loizou et al. 2021): :class:`SHBPolyak` without momentum.

    kappa is 1; c and max_step are those of the baseline in Appendix E.
    """

    method: Method = METHODS["SPS"]

    def __init__(
        self, params: ParamsT, lr: float = 1.0, *, c: float = 0.1, max_step: float = 1.0,
        lower_bound: float = 0.0, steps_per_epoch: float | None = None, growth: float = 4.0,
        weight_decay: float = 0.0, decay: str = "decoupled", process_group: Any = None,
    ) -> None: ...  # fmt: skip


@from_row
class SLS(RuleOptimizer):
    """Stochastic line search (Vaswani et al. 2019): :class:`SHBArmijo` without momentum.

    kappa is 1; c and max_step are those of the baseline in Appendix E.
    """

    method: Method = METHODS["SLS"]

    def __init__(
        self, params: ParamsT, lr: float = 1.0, *, c: float = 0.1, max_step: float = 1.0,
        decrease_factor: float = 0.9, lower_bound: float | None = None,
        steps_per_epoch: float | None = None, growth: float = 2.0, max_trials: int = 100,
        weight_decay: float = 0.0, decay: str = "decoupled", buffers: Buffers | None = None,
        loss_eps: float | None = None, example_loss: float = 0.0, process_group: Any = None,
    ) -> None: ...  # fmt: skip


@from_row
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

    method: Method = METHODS["SHB"]

    def __init__(
        self, params: ParamsT, lr: float | None = None, momentum: float = 0.9,
        weight_decay: float = 0.0, *, decay: str = "decoupled", process_group: Any = None,
    ) -> None: ...  # fmt: skip


WRITTEN = {cls.method: cls for cls in (HeavyStep, SHBPolyak, SHBArmijo, SPS, SLS, SHB)}


def optimizer_class(name: str) -> type[RuleOptimizer]:
    """The optimizer of a registered method: a class of this file, or one made from its row.

    >>> optimizer_class("SPS").__name__
    'SPS'
    """
    method = method_of(name)
    return WRITTEN.get(method) or _made(method)


def create(name: str, params: ParamsT, **options: Any) -> RuleOptimizer:
    """The optimizer of a method by its name, as ``heavystep methods`` lists it.

    Args:
        name: of the method.
        params: parameters to optimize, or dicts that define parameter groups.
        options: those of the method and of every optimizer.

    >>> import torch
    >>> opt = create("NGNM", [torch.zeros(3, requires_grad=True)], c=3.0)
    >>> opt.param_groups[0]["c"]
    3.0
    """
    kind: Any = optimizer_class(name)
    made: RuleOptimizer = kind(params, **options)
    return made


def searches(optimizer: object) -> bool:
    """True if an optimizer's step evaluates the loss at trial points; never one of torch's."""
    return isinstance(optimizer, RuleOptimizer) and optimizer.method.rule.searches


@cache
def _made(method: Method) -> type[RuleOptimizer]:
    """A class for a row: lr and momentum by position, all else by name."""
    options = [(o.name, o.default) for o in (*method.options, *common_options(method))]
    options += [("buffers", None)] * method.rule.searches + [("process_group", None)]
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in ("self", "params")]
    for name, default in options:
        by_place = name in ("lr", "momentum")
        kind = kinds.POSITIONAL_OR_KEYWORD if by_place else kinds.KEYWORD_ONLY
        parameters.append(
            kinds(name, kind, default=kinds.empty if default is REQUIRED else default)
        )

    def __init__(self: Any) -> None:  # noqa: N807
        """:func:`from_row` only looks at the signature."""

    __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    content = {"__module__": __name__, "__doc__": method.summary, "method": method}
    return from_row(type(method.name, (RuleOptimizer,), content | {"__init__": __init__}))


def __getattr__(name: str) -> Any:  # a class whose options a type checker cannot know
    if name in METHODS:
        return optimizer_class(name)
    raise AttributeError(f"module 'heavystep.optimizers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *METHODS})
