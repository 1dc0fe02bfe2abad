r"""Cross-entropies whose targets are not one class: their bound is the entropy of the target.

Every loss here is a sum over positions of :math:`-\sum_c a_c \log p_c`, with weights a_c >= 0 that
the targets fix and probabilities p that the model chooses. The least value over all p is

.. math:: \sum_c h(a_c) - h\Big(\sum_c a_c\Big), \qquad h(a) = -a \log a,

reached at p_c proportional to a_c: the entropy of a, if it sums to 1.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heavystep import validation
from heavystep.lower_bounds.targets import check_smoothing, labels_of, tensor_of

REDUCTIONS = ("mean", "sum")


def label_smoothing(eps: float, classes: int) -> float:
    r"""Bound of the mean cross-entropy of hard labels that are smoothed.

    .. math:: h(1 - \epsilon + \epsilon/K) + (K - 1)\,h(\epsilon/K), \qquad h(a) = -a \log a,

    the entropy of the target that ``torch.nn.functional.cross_entropy(..., label_smoothing=eps)``
    makes of every label, and therefore the same for each batch. With class weights, or summed
    instead of averaged, it depends on the labels: :func:`cross_entropy`.

    Args:
        eps: epsilon, in [0, 1]; torch's ``label_smoothing``.
        classes: K, >= 1.

    Returns:
        A number, for ``lower_bound=`` of the optimizer.

    >>> round(label_smoothing(0.1, classes=10), 6)
    0.500288
    >>> label_smoothing(0.0, classes=10)
    0.0
    """
    check_smoothing(eps, classes)
    least: float = _least(eps / classes, [(1.0 - eps, 1.0)], _Classes(float(classes), 0.0))
    return least


def cross_entropy(
    target: Tensor,
    *,
    classes: int | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Bound of ``torch.nn.functional.cross_entropy(logits, target, ...)`` for these targets.

    Of probabilities q, smoothed to :math:`q'_c = (1 - \epsilon) q_c + \epsilon / K` and weighted,
    it is the mean over positions of :math:`\sum_c h(w_c q'_c) - h(\sum_c w_c q'_c)`, which without
    weights is the entropy of q'. Labels are probabilities of 0 and 1, whose mean with class weights
    torch takes by dividing by the sum of :math:`w_{y_i}`.

    Args:
        target: class indices of any shape, or probabilities with classes along dimension 1 (0 if
            there is one dimension only); a teacher's probabilities, say.
        classes: K; needed for class indices that are smoothed without class weights.
        weight: class weights w, >= 0; as of the loss.
        ignore_index: label that does not count; as of the loss. Means nothing to probabilities.
        reduction: ``"mean"`` or ``"sum"``; as of the loss.
        label_smoothing: epsilon, in [0, 1]; as of the loss.

    Returns:
        A 0-dim tensor on the device of the targets, which nothing has waited for; 0 if no target
        counts, where the mean of the loss is NaN.

    >>> soft = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    >>> round(cross_entropy(soft).item(), 6)  # the mean of log 2 and 0
    0.346574
    >>> round(cross_entropy(torch.tensor([0, 2, 1]), classes=3, label_smoothing=0.3).item(), 6)
    0.639032
    """
    check_smoothing(label_smoothing, classes)
    validation.choice("reduction", reduction, REDUCTIONS)
    target = tensor_of("target", target)
    if target.is_floating_point():
        return _of_probabilities(target, weight, reduction, label_smoothing)
    only = {"target": _Part(target, 1.0)}
    return _of_labels(only, classes, weight, ignore_index, reduction, label_smoothing)


def mixup(
    labels: Tensor,
    others: Tensor,
    lam: float | Tensor,
    *,
    classes: int | None = None,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Bound of ``lam * ce(logits, labels) + (1 - lam) * ce(logits, others)``: mixup, cutmix.

    Without smoothing and class weights, a position whose two labels differ has
    :math:`h(\lambda) + h(1 - \lambda)`, and one whose labels agree has 0. Otherwise it is the least
    value for the mixture of both targets, each as ``cross_entropy`` makes it. Images mixed with a
    lam of their own have targets of their own: give those to :func:`cross_entropy`.

    Args:
        labels: class indices.
        others: class indices of the same shape.
        lam: lambda, in [0, 1]; a number, or a tensor with one element.
        classes: K; needed with smoothing and without class weights.
        weight: class weights, >= 0; as of both losses.
        ignore_index: label that does not count; as of both losses.
        reduction: ``"mean"`` or ``"sum"``; as of both losses.
        label_smoothing: epsilon, in [0, 1]; as of both losses.

    Returns:
        A 0-dim tensor on the device of the labels, which nothing has waited for.

    >>> labels = torch.tensor([0, 1, 2, 2])
    >>> round(mixup(labels, labels.flip(0), 0.5).item(), 6)  # all four differ: log 2
    0.693147
    >>> round(mixup(labels, labels, 0.5).item(), 6)
    0.0
    """
    check_smoothing(label_smoothing, classes)
    validation.choice("reduction", reduction, REDUCTIONS)
    if isinstance(lam, Tensor):
        if lam.numel() != 1:
            raise ValueError(
                f"lam must be one number, got {lam.numel()}: give targets that are mixed one by "
                "one to cross_entropy, as probabilities"
            )
        lam = lam.detach().reshape(())
    else:
        validation.real("lam", lam, validation.CLOSED_UNIT)
    labels, others = tensor_of("labels", labels), tensor_of("others", others)
    if labels.shape != others.shape:
        raise ValueError(
            f"others must have the shape of labels, {tuple(labels.shape)}, got "
            f"{tuple(others.shape)}"
        )
    parts = {"labels": _Part(labels, lam), "others": _Part(others, 1.0 - lam)}
    return _of_labels(parts, classes, weight, ignore_index, reduction, label_smoothing)


def distillation(
    teacher_logits: Tensor,
    temperature: float = 1.0,
    *,
    scaled: bool = True,
    reduction: str = "mean",
    dim: int = -1,
) -> Tensor:
    r"""Bound of the cross-entropy with a teacher's probabilities at a temperature.

    .. math:: T^2\,\frac1N \sum_i H(q_i), \qquad q_i = \mathrm{softmax}(z_i / T)

    for the loss :math:`T^2\,\mathrm{ce}(\text{student}/T, q)`. As a Kullback-Leibler divergence,
    which leaves the entropy out, the loss has the bound 0.

    Args:
        teacher_logits: z.
        temperature: T, > 0.
        scaled: whether the loss is multiplied by T^2, as usual.
        reduction: ``"mean"`` over positions, or ``"sum"``.
        dim: the dimension of classes.

    Returns:
        A 0-dim tensor on the device of the logits, which nothing has waited for.

    >>> teacher = torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    >>> round(distillation(teacher, 2.0).item(), 6)
    2.550701
    >>> round(distillation(teacher, 2.0, scaled=False).item(), 6)
    0.637675
    """
    validation.real("temperature", temperature, validation.POSITIVE)
    validation.choice("scaled", scaled, (False, True))
    validation.choice("reduction", reduction, REDUCTIONS)
    q = torch.softmax(_wide(tensor_of("teacher_logits", teacher_logits)) / temperature, dim)
    entropies: Tensor = torch.special.entr(q).sum(dim, dtype=_exact(q.device))
    bound = entropies.mean() if reduction == "mean" else entropies.sum()
    return temperature**2 * bound if scaled else bound


class _Classes(NamedTuple):
    """What of all class weights enters: their sum, and the sum of their h."""

    total: Any
    entropy: Any


class _Part(NamedTuple):
    """One of the cross-entropies with hard labels that a loss adds up."""

    labels: Tensor
    share: Any


def _h(a: Any) -> Any:
    """-a log a, 0 at 0."""
    if isinstance(a, Tensor):
        return torch.special.entr(a)
    return -a * math.log(a) if a else 0.0


def _least(base: Any, peaks: Sequence[tuple[Any, Any]], classes: _Classes) -> Any:
    """The least value for a_c = base w_c, and ``peak`` more at each class of some.

    Args:
        base: what smoothing gives to every class, before its weight.
        peaks: how much more a class has, and its weight w_c, for different classes.
        classes: all of them; h(base w) = base h(w) + w h(base) spares the sum over classes.
    """
    entropies = base * classes.entropy + classes.total * _h(base)
    total = base * classes.total
    for peak, weight in peaks:
        entropies = entropies - _h(base * weight) + _h(base * weight + peak)
        total = total + peak
    return entropies - _h(total)


def _of_labels(
    named: dict[str, _Part],
    classes: int | None,
    weight: Tensor | None,
    ignore_index: int,
    reduction: str,
    eps: float,
) -> Tensor:
    """The bound for labels; the mean of each part is its own."""
    parts = list(named.values())
    dtype = _exact(parts[0].labels.device)
    if weight is not None:
        weight = tensor_of("weight", weight).to(parts[0].labels.device, dtype)
        classes = len(weight)
    elif classes is None and eps:
        raise ValueError("classes must be given: smoothing spreads over all of them")
    for name, part in named.items():
        labels_of(name, part.labels, classes, ignore_index)
    count = 1 if classes is None else classes  # of no account without smoothing
    base: Any = 0.0
    peaks: list[tuple[Any, Any]] = []
    for labels, share in parts:
        counts = labels != ignore_index
        own = counts.to(dtype)
        if weight is not None:
            own = own * weight[torch.where(counts, labels, 0)]
        total = own.sum()
        # Nothing counts: the mean is 0 / 0, and any bound will do.
        scale = share / torch.where(total > 0.0, total, 1.0) if reduction == "mean" else share
        base = base + counts * (scale * eps / count)
        peaks.append(((1.0 - eps) * scale * own, own))
    if len(parts) == 2:
        # Where labels agree, one class has both peaks. An ignored label has none, nor a class.
        (one, first), (other, second) = peaks
        agree = parts[0].labels == parts[1].labels
        peaks = [(one + other * agree, first), (other * ~agree, second)]
    if weight is None:
        every = _Classes(float(count), 0.0)
    else:
        every = _Classes(weight.sum(), _h(weight).sum())
    bound: Tensor = _least(base, peaks, every).sum()
    return bound


def _of_probabilities(q: Tensor, weight: Tensor | None, reduction: str, eps: float) -> Tensor:
    """The bound for probabilities; a mean is over positions, whatever their weights."""
    dim = 1 if q.ndim > 1 else 0
    a = _wide(q)
    if eps:
        a = (1.0 - eps) * a + eps / a.shape[dim]
    if weight is not None:
        weight = tensor_of("weight", weight).to(a.device, a.dtype)
        a = a * weight.reshape(-1, *[1] * (a.ndim - dim - 1))
    dtype = _exact(a.device)
    least: Tensor = torch.special.entr(a).sum(dim, dtype=dtype) - _h(a.sum(dim, dtype=dtype))
    return least.mean() if reduction == "mean" else least.sum()


def _wide(tensor: Tensor) -> Tensor:
    """In float32 at least."""
    return tensor.detach().to(torch.promote_types(tensor.dtype, torch.float32))


def _exact(device: torch.device) -> torch.dtype:
    """The format of sums: float64 where there is one."""
    return torch.float32 if device.type == "mps" else torch.float64
