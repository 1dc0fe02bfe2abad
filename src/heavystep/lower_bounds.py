r"""Lower bounds of losses, for ``lower_bound=`` of an optimizer or of its ``step``.

Plain cross-entropy, squared error and every Kullback-Leibler divergence have the bound 0; smoothed
labels, soft targets and mixed labels have a higher one. A bound that depends on the batch is a
0-dim tensor on the device of the targets, which nobody waits for, for ``step(loss=loss,
lower_bound=...)``. Between processes the optimizer averages such bounds as it does losses.

A sum of losses with weights >= 0 has the same sum of their bounds. The negative log-likelihood of a
normal distribution has :math:`\tfrac12 \log v` an element where its variance is at least v.

A cross-entropy is a sum over positions of :math:`-\sum_c a_c \log p_c`, with weights a_c >= 0 that
the targets fix and probabilities p that the model chooses. The least value over all p is

.. math:: \sum_c h(a_c) - h\Big(\sum_c a_c\Big), \qquad h(a) = -a \log a,

reached at p_c proportional to a_c: the entropy of a, if it sums to 1.
"""

from typing import Any

import torch
from torch import Tensor

from heavystep import validation

__all__ = ["cross_entropy", "distillation", "label_smoothing", "mixup"]
REDUCTIONS = ("mean", "sum")


def _tensor_of(name: str, value: Any) -> Tensor:
    """A tensor of what was given: a tensor, an array, or lists of numbers."""
    try:
        return value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a tensor, got {value!r}") from None


def readable(tensor: Tensor) -> bool:
    """True if values can be read without waiting for a device."""
    return tensor.device.type == "cpu"


def _check_labels(name: str, labels: Tensor, classes: int | None, ignore_index: int) -> None:
    """Refuse anything but class indices; indices on another device are not read."""
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(
            f"{name} must be class indices, got {labels.dtype}: probabilities are for cross_entropy"
        )
    if readable(labels):
        wrong = (labels != ignore_index) & ((labels < 0) | (labels >= (classes or torch.inf)))
        if wrong.any():
            below = "" if classes is None else f" and < {classes}"
            raise ValueError(f"{name} must be >= 0{below}, got {int(labels[wrong][0])}")


def _check_options(eps: float, classes: int | None, reduction: str) -> None:
    validation.real("label_smoothing", eps, validation.CLOSED_UNIT)
    validation.choice("reduction", reduction, REDUCTIONS)
    if classes is not None:
        validation.integer("classes", classes, least=1)


def label_smoothing(eps: float, classes: int) -> float:
    r"""Bound of the mean cross-entropy of hard labels that are smoothed.

    .. math:: h(1 - \epsilon + \epsilon/K) + (K - 1)\,h(\epsilon/K), \qquad h(a) = -a \log a,

    the same for each batch. With class weights, or summed instead of averaged, it depends on the
    labels: :func:`cross_entropy`.

    Args:
        eps: epsilon, in [0, 1]; torch's ``label_smoothing``.
        classes: K, >= 1.

    >>> round(label_smoothing(0.1, classes=10), 6)
    0.500288
    >>> label_smoothing(0.0, classes=10)
    0.0
    """
    return cross_entropy(torch.tensor([0]), classes=classes, label_smoothing=eps).item()


def cross_entropy(
    target: Tensor, *, classes: int | None = None, weight: Tensor | None = None,
    ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    r"""Bound of ``torch.nn.functional.cross_entropy(logits, target, ...)`` for these targets.

    Of probabilities q, smoothed to :math:`q'_c = (1 - \epsilon) q_c + \epsilon / K` and weighted,
    it is the mean over positions of :math:`\sum_c h(w_c q'_c) - h(\sum_c w_c q'_c)`, which without
    weights is the entropy of q'. Labels are probabilities of 0 and 1, whose mean with class weights
    torch takes by dividing by the sum of :math:`w_{y_i}`.

    Args:
        target: class indices of any shape, or probabilities with classes along dimension 1 (0 if
            there is one dimension only); a teacher's probabilities, say.
        classes: K; needed for class indices that are smoothed without class weights.
        weight: class weights w, >= 0, of the loss.
        ignore_index: that of the loss; means nothing to probabilities.
        reduction: that of the loss, ``"mean"`` or ``"sum"``.
        label_smoothing: epsilon of the loss, in [0, 1].

    Returns:
        A 0-dim tensor on the device of the targets; 0 if no target counts, where the mean of the
        loss is NaN.

    >>> soft = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    >>> round(cross_entropy(soft).item(), 6)  # the mean of log 2 and 0
    0.346574
    >>> round(cross_entropy(torch.tensor([0, 2, 1]), classes=3, label_smoothing=0.3).item(), 6)
    0.639032
    """
    _check_options(label_smoothing, classes, reduction)
    target = _tensor_of("target", target)
    if target.is_floating_point():
        return _of_probabilities(target, weight, reduction, label_smoothing)
    hard = {"target": (target, 1.0)}
    return _of_labels(hard, classes, weight, ignore_index, reduction, label_smoothing)


def mixup(
    labels: Tensor, others: Tensor, lam: float | Tensor, *, classes: int | None = None,
    weight: Tensor | None = None, ignore_index: int = -100, reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    r"""Bound of ``lam * ce(logits, labels) + (1 - lam) * ce(logits, others)``: mixup, cutmix.

    Without smoothing and class weights, a position whose two labels differ has
    :math:`h(\lambda) + h(1 - \lambda)`, and one whose labels agree has 0. Images mixed with a lam
    of their own have targets of their own: give those to :func:`cross_entropy`.

    Args:
        labels: class indices.
        others: class indices of the same shape.
        lam: lambda, in [0, 1]; a number, or a tensor with one element.
        classes: this and the others are those of both losses, as for :func:`cross_entropy`.
        weight: see there.
        ignore_index: see there.
        reduction: see there.
        label_smoothing: see there.

    >>> labels = torch.tensor([0, 1, 2, 2])
    >>> round(mixup(labels, labels.flip(0), 0.5).item(), 6)  # all four differ: log 2
    0.693147
    >>> round(mixup(labels, labels, 0.5).item(), 6)
    0.0
    """
    _check_options(label_smoothing, classes, reduction)
    if isinstance(lam, Tensor):
        if lam.numel() != 1:
            raise ValueError(
                f"lam must be one number, got {lam.numel()}: give targets that are mixed one by "
                "one to cross_entropy, as probabilities"
            )
        lam = lam.detach().reshape(())
    else:
        validation.real("lam", lam, validation.CLOSED_UNIT)
    labels, others = _tensor_of("labels", labels), _tensor_of("others", others)
    if labels.shape != others.shape:
        shape, got = tuple(labels.shape), tuple(others.shape)
        raise ValueError(f"others must have the shape of labels, {shape}, got {got}")
    parts = {"labels": (labels, lam), "others": (others, 1.0 - lam)}
    return _of_labels(parts, classes, weight, ignore_index, reduction, label_smoothing)


def distillation(
    teacher_logits: Tensor, temperature: float = 1.0, *, scaled: bool = True,
    reduction: str = "mean", dim: int = -1,
) -> Tensor:  # fmt: skip
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

    >>> teacher = torch.tensor([[2.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    >>> round(distillation(teacher, 2.0).item(), 6)
    2.550701
    >>> round(distillation(teacher, 2.0, scaled=False).item(), 6)
    0.637675
    """
    validation.real("temperature", temperature, validation.POSITIVE)
    validation.choice("scaled", scaled, (False, True))
    validation.choice("reduction", reduction, REDUCTIONS)
    q = torch.softmax(_wide(_tensor_of("teacher_logits", teacher_logits)) / temperature, dim)
    entropies: Tensor = torch.special.entr(q).sum(dim, dtype=_exact(q.device))
    bound = entropies.mean() if reduction == "mean" else entropies.sum()
    return temperature**2 * bound if scaled else bound


_h = torch.special.entr  # -a log a, 0 at 0


def _of_labels(
    parts: dict[str, tuple[Tensor, Any]], classes: int | None, weight: Tensor | None,
    ignore_index: int, reduction: str, eps: float,
) -> Tensor:  # fmt: skip
    """The bound for a sum of losses, (labels, share) each; the mean of each is its own.

    It is the least value for a_c = base w_c, and ``peak`` more at some classes. That
    h(base w) = base h(w) + w h(base) spares the sum over classes.
    """
    device = next(iter(parts.values()))[0].device
    dtype = _exact(device)
    if weight is not None:
        weight = _tensor_of("weight", weight).to(device, dtype)
        classes = len(weight)
    elif classes is None and eps:
        raise ValueError("classes must be given: smoothing spreads over all of them")
    count = 1 if classes is None else classes  # plays no part without smoothing
    base = torch.zeros((), device=device, dtype=dtype)
    peaks = []
    for name, (labels, share) in parts.items():
        _check_labels(name, labels, classes, ignore_index)
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
        agree = torch.eq(*(labels for labels, _ in parts.values()))
        peaks = [(one + other * agree, first), (other * ~agree, second)]
    weights, entropy = (float(count), 0.0) if weight is None else (weight.sum(), _h(weight).sum())
    entropies, total = base * entropy + weights * _h(base), base * weights
    for peak, own in peaks:
        entropies = entropies - _h(base * own) + _h(base * own + peak)
        total = total + peak
    bound: Tensor = (entropies - _h(total)).sum()
    return bound


def _of_probabilities(q: Tensor, weight: Tensor | None, reduction: str, eps: float) -> Tensor:
    """The bound for probabilities; a mean is over positions, whatever their weights."""
    dim = 1 if q.ndim > 1 else 0
    a = _wide(q)
    if eps:
        a = (1.0 - eps) * a + eps / a.shape[dim]
    if weight is not None:
        weight = _tensor_of("weight", weight).to(a.device, a.dtype)
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
