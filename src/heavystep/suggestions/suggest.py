"""The public function."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from heavystep import validation
from heavystep.methods import method_of
from heavystep.suggestions.keeping import Kept
from heavystep.suggestions.suggestion import MAIN, Suggestion, suggestion_of
from heavystep.suggestions.trial import device_of, run_trial


def suggest(
    model: nn.Module,
    loader: Iterable[Any],
    loss_fn: Callable[..., Any],
    *,
    steps: int = 300,
    methods: Iterable[str] = MAIN,
    takes_batch: bool = False,
) -> Suggestion:
    """Try the main methods with nothing set, from the same start, and say which one to use.

    Each takes the same number of steps on the same batches. Methods are compared by the mean loss
    of the last steps after equal work, in which a trial of a line search counts as a forward; if
    noise could explain a difference, the cheaper one wins.

    Afterwards everything is as it was, to the bit, also if something raises: parameters, gradients,
    buffers, attributes and modes of the model; the random streams of torch (CPU and GPUs), numpy
    and Python; the attributes and generators of the loader, its samplers and its data set. Batches
    are copied before the model sees them. A model that is not in training mode is tried in it.

    Args:
        model: on the device where it is to be trained.
        loader: a DataLoader, a list, or anything that gives batches each time it is asked for them.
        loss_fn: called as ``loss_fn(model(*inputs), target)``, where a batch is ``(*inputs,
            target)``. Tensors are moved to the device of the model.
        steps: how many steps each method takes, >= 10.
        methods: names of ``heavystep methods``.
        takes_batch: call ``loss_fn(model, batch)`` instead, for batches of another form.

    Returns:
        A :class:`~heavystep.suggestions.suggestion.Suggestion`: print it for a table of losses,
        times, forwards and memory. ``best`` is the method, ``code`` the line that makes it.

    Raises:
        TypeError: the loader gives batches only once, or a batch has another form.
        ValueError: the loader gives no batches, or there is nothing to train.

    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> model = torch.nn.Linear(3, 1)
    >>> x = torch.randn(64, 3)
    >>> loader = list(zip(x.split(8), (x.sum(1, keepdim=True) + 1).split(8)))
    >>> found = suggest(model, loader, torch.nn.functional.mse_loss, steps=100)
    >>> [trial.method for trial in found.trials], found.best in found.code
    (['SHBPolyak', 'SHBAdam', 'SHBArmijo'], True)
    """
    validation.integer("steps", steps, least=10)
    validation.choice("takes_batch", takes_batch, (False, True))
    names = [methods] if isinstance(methods, str) else list(dict.fromkeys(methods))
    _check(model, loader, loss_fn, names)
    kept = Kept(model, (loader, loss_fn), device_of(model))

    def loss_of(batch: Any) -> Any:
        if takes_batch:
            return loss_fn(model, batch)
        *inputs, target = _pair(batch)
        return loss_fn(model(*inputs), target)

    trials = []
    try:
        for name in names:
            kept.restore()
            kept.drop_gradients()
            if not model.training:
                model.train()
            with torch.enable_grad():
                trials.append(run_trial(name, model, loader, loss_of, steps))
    finally:
        kept.restore()
    return suggestion_of(tuple(trials))


def _check(model: Any, loader: Any, loss_fn: Any, names: list[str]) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {type(model).__name__}")
    if not callable(loss_fn):
        raise TypeError(f"loss_fn must be a function, got {type(loss_fn).__name__}")
    if hasattr(loader, "__next__"):
        raise TypeError(
            f"loader gives its batches only once ({type(loader).__name__}), and every method has "
            "to see them: give a list or a DataLoader"
        )
    if not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__"):
        raise TypeError(f"loader must give batches, got {type(loader).__name__}")
    if not names:
        raise ValueError("methods must name at least one method")
    for name in names:
        method_of(name)
    if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
        raise ValueError("model has lazy parameters: give it a batch first, so that they are there")


def _pair(batch: Any) -> Any:
    if isinstance(batch, (list, tuple)) and len(batch) >= 2:
        return batch
    raise TypeError(
        f"a batch must be (*inputs, target), got {type(batch).__name__}: with takes_batch=True "
        "loss_fn(model, batch) is called instead"
    )
