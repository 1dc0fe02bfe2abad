"""From the name of a method to its optimizer."""

from functools import cache
from typing import Any

from torch.optim.optimizer import ParamsT

from heavystep.methods import Method, method_of
from heavystep.optim import optimizers
from heavystep.optim.documenting import documented, signature_of
from heavystep.optim.optimizer import RuleOptimizer
from heavystep.optim.unknown import refuse_unknown


def optimizer_class(name: str) -> type[RuleOptimizer]:
    """The optimizer of a registered method: a class of this package, or one made from its row.

    >>> optimizer_class("SPS").__name__
    'SPS'
    """
    return _class_of(method_of(name))


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
    """Whether an optimizer's step evaluates the loss at trial points; never one of torch's."""
    return isinstance(optimizer, RuleOptimizer) and optimizer.method.rule.searches


@cache
def _class_of(method: Method) -> type[RuleOptimizer]:
    written = getattr(optimizers, method.name, None)
    if written is not None and written.method is method:
        found: type[RuleOptimizer] = written
        return found

    def __init__(self: Any, params: ParamsT, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        refuse_unknown(method, kwargs, signature.parameters)
        bound = signature.bind(params, *args, **kwargs).arguments
        del bound["params"]
        apart = {name: bound.pop(name, None) for name in ("process_group", "buffers")}
        RuleOptimizer.__init__(self, params, bound, **apart)

    signature = signature_of(method)
    content = {
        "__doc__": method.summary,
        "__init__": __init__,
        "__module__": __name__,
        "__signature__": signature,
        "__reduce__": _reduced,
        "method": method,
    }
    return documented(type(method.name, (RuleOptimizer,), content))


def _reduced(self: RuleOptimizer) -> Any:
    if type(self) is not _class_of(self.method):  # a subclass, which pickle finds by its name
        return object.__reduce_ex__(self, 2)
    # Pickle cannot find a class that was made here by its name alone.
    return _made, (self.method.name,), self.__getstate__()


def _made(name: str) -> RuleOptimizer:
    kind = optimizer_class(name)
    return kind.__new__(kind)
