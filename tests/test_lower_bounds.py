"""Bounds of losses: the least value of torch's own loss, never above one, and what makes the step."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from heavystep import lower_bounds
from tests.optim.test_no_sync import NoHostRead

CLASSES, FLOAT64 = 5, torch.float64


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def draw_labels(seed, shape=(7,), ignored=False):
    labels = torch.randint(CLASSES, shape, generator=seeded(seed))
    if ignored:
        labels.view(-1)[::4] = -100
    return labels


def normal(seed, *shape):
    return torch.randn(shape, generator=seeded(seed), dtype=FLOAT64)


def soft(seed, shape):
    return torch.softmax(2 * normal(seed, *shape), dim=1 if len(shape) > 1 else 0)


class Case(NamedTuple):
    """For a seed of its targets: a loss of logits, and the bound of it."""

    shape: tuple[int, ...]
    make: Callable[[int], tuple[Callable[[torch.Tensor], torch.Tensor], torch.Tensor]]


def weights(seed, weighted):
    weight = torch.rand(CLASSES, generator=seeded(seed + 100), dtype=FLOAT64) * 3
    return {"weight": weight} if weighted else {}


def labels(shape=(7,), ignored=False, weighted=False, **options):
    """Hard labels, with whatever cross_entropy takes."""

    def make(seed):
        target, given = draw_labels(seed, shape, ignored), {**options, **weights(seed, weighted)}
        bound = lower_bounds.cross_entropy(target, classes=CLASSES, **given)
        return lambda logits: functional.cross_entropy(logits, target, **given), bound

    return Case((shape[0], CLASSES, *shape[1:]), make)


def probabilities(*shape, weighted=False, **options):
    def make(seed):
        target, given = soft(seed, shape), {**options, **weights(seed, weighted)}
        bound = lower_bounds.cross_entropy(target, **given)
        return lambda logits: functional.cross_entropy(logits, target, **given), bound

    return Case(shape, make)


def mixed(ignored=False, weighted=False, lam=0.3, **options):
    """Two labels a position, some of them alike."""

    def make(seed):
        one, other = draw_labels(seed, ignored=ignored), draw_labels(seed + 1, ignored=ignored)
        other[:2] = draw_labels(seed)[:2]
        given = {**options, **weights(seed, weighted)}

        def loss(logits):
            first, second = (functional.cross_entropy(logits, y, **given) for y in (one, other))
            return lam * first + (1 - lam) * second

        return loss, lower_bounds.mixup(one, other, lam, classes=CLASSES, **given)

    return Case((7, CLASSES), make)


def distilled(T, scaled, reduction="mean"):
    """A teacher's logits; the student's are divided by the same temperature."""

    def make(seed):
        teacher, factor = 3 * normal(seed, 6, CLASSES), T**2 if scaled else 1
        q = torch.softmax(teacher / T, dim=1)
        bound = lower_bounds.distillation(teacher, T, scaled=scaled, reduction=reduction)
        return lambda z: factor * functional.cross_entropy(z / T, q, reduction=reduction), bound

    return Case((6, CLASSES), make)


CASES = {
    "labels": labels(),
    "smoothed to nothing": labels(label_smoothing=1.0),
    "smoothed, summed": labels(label_smoothing=0.1, reduction="sum"),
    "smoothed, ignored": labels(ignored=True, label_smoothing=0.2),
    "weighted": labels(weighted=True),
    "weighted, smoothed, summed": labels(weighted=True, label_smoothing=0.3, reduction="sum"),
    "pictures": labels((3, 2, 2), ignored=True, weighted=True, label_smoothing=0.3),
    "soft": probabilities(6, CLASSES),
    "soft, one position": probabilities(CLASSES, label_smoothing=0.1),
    "soft, weighted, summed": probabilities(6, CLASSES, weighted=True, reduction="sum"),
    "soft pictures": probabilities(2, CLASSES, 2, 2, weighted=True, label_smoothing=0.1),
    "mixed, summed": mixed(reduction="sum"),
    "mixed, ignored": mixed(ignored=True, label_smoothing=0.1),
    "mixed, weighted": mixed(ignored=True, weighted=True, label_smoothing=0.1),
    "mixed, weighted, summed": mixed(weighted=True, label_smoothing=0.1, reduction="sum"),
    "distilled": distilled(3.0, scaled=True),
    "distilled, not scaled": distilled(3.0, scaled=False),
    "distilled, summed": distilled(0.5, scaled=True, reduction="sum"),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_is_the_least_value(case):
    """A search over all predictions finds nothing less."""
    for seed in (0, 1):
        loss, bound = case.make(seed)
        logits = torch.ones(case.shape, dtype=FLOAT64, requires_grad=True)
        opt = torch.optim.LBFGS(
            [logits], max_iter=300, tolerance_grad=1e-9, tolerance_change=1e-13,
            line_search_fn="strong_wolfe",
        )  # fmt: skip

        def closure():
            opt.zero_grad()
            value = loss(logits)
            value.backward()
            return value

        opt.step(closure)
        assert (bound.dtype, bound.ndim) == (FLOAT64, 0)
        torch.testing.assert_close(bound, loss(logits.detach()), rtol=1e-6, atol=1e-6)


@every_case
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 0.1, 1.0, 10.0, 100.0]))
def test_no_loss_is_below(case, seed, spread):
    (loss, bound), logits = case.make(seed), normal(seed + 7, *case.shape)
    value = loss(spread * logits)
    assert bound <= value + 1e-12 * (1 + value.abs())


@given(
    eps=st.floats(0.0, 1.0), classes=st.integers(1, 1000), label=st.integers(0, 999),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_number_for_smoothed_labels(eps, classes, label, seed):
    """The same for all labels and every batch, and the entropy of one target."""
    number = lower_bounds.label_smoothing(eps, classes)
    target = torch.full((classes,), eps / classes, dtype=FLOAT64)
    target[label % classes] += 1.0 - eps
    entropy = torch.distributions.Categorical(target, validate_args=False).entropy().item()
    assert number == pytest.approx(entropy, rel=1e-9, abs=1e-12)
    labels = torch.randint(classes, (9,), generator=seeded(seed))
    bound = lower_bounds.cross_entropy(labels, classes=classes, label_smoothing=eps)
    assert bound.item() == pytest.approx(number, rel=1e-9, abs=1e-12)


LABELS = torch.tensor([0, 2, 1, 2])
SOFT = torch.full((4, 3), 1 / 3, requires_grad=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_targets_in_a_short_format(dtype):
    """They are summed in a long one: the bound is that of the rounded targets."""
    target = soft(0, (4000, CLASSES)).to(dtype)
    for bound_of in (lower_bounds.cross_entropy, lower_bounds.distillation):
        torch.testing.assert_close(bound_of(target), bound_of(target.double()), rtol=1e-6, atol=0)


@pytest.mark.parametrize("call", [
    lambda: lower_bounds.cross_entropy(LABELS, classes=3, label_smoothing=0.1),
    lambda: lower_bounds.cross_entropy(
        LABELS, weight=torch.ones(3), label_smoothing=0.1, ignore_index=1
    ),
    lambda: lower_bounds.cross_entropy(SOFT, label_smoothing=0.1),
    lambda: lower_bounds.mixup(LABELS, LABELS.flip(0), SOFT[0, 0], weight=torch.ones(3)),
    lambda: lower_bounds.distillation(SOFT, 2.0),
])  # fmt: skip
def test_nothing_is_read_on_the_host_and_no_gradient_is_asked_for(call, monkeypatch):
    monkeypatch.setattr(lower_bounds, "readable", lambda tensor: False)  # as on another device
    with NoHostRead():
        assert not call().requires_grad


def test_lists_are_as_good_as_tensors():
    one, other, weight = [0, 2, 1, 2], [2, 2, 1, 0], [1.0, 2.0, 0.5]
    tensors = torch.tensor(one), torch.tensor(other), torch.tensor(0.3, dtype=FLOAT64)
    assert lower_bounds.mixup(one, other, 0.3, weight=weight) == lower_bounds.mixup(
        *tensors, weight=torch.tensor(weight)
    )


@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 1.0])], ids=["", "weighted"])
def test_where_no_target_counts_the_bound_is_0(weight):
    """The mean of such a loss is NaN, and the batch is refused; its bound does no harm."""
    ignored = torch.full((3,), -100)
    options = {"weight": weight, "label_smoothing": 0.1, "classes": 3}
    assert lower_bounds.cross_entropy(ignored, **options) == 0.0
    assert lower_bounds.mixup(ignored, ignored, 0.3, **options) == 0.0


REFUSED = [
    (lower_bounds.label_smoothing, (1.5, 10), {}, r"label_smoothing must be in \[0, 1\], got 1.5"),
    (lower_bounds.label_smoothing, (0.1, 0), {}, "classes must be >= 1, got 0"),
    (lower_bounds.cross_entropy, (LABELS,), {"label_smoothing": 0.1}, "classes must be given"),
    (lower_bounds.cross_entropy, (SOFT,), {"reduction": "none"}, "reduction must be one of 'mean'"),
    (lower_bounds.mixup, (LABELS, LABELS, 1.5), {}, r"lam must be in \[0, 1\], got 1.5"),
    (lower_bounds.mixup, (LABELS, LABELS, torch.rand(4)), {}, "lam must be one number, got 4"),
    (lower_bounds.mixup, (LABELS, LABELS[:2], 0.5), {}, r"the shape of labels, \(4,\), got \(2,\)"),
    (lower_bounds.mixup, (LABELS.float(), LABELS.float(), 0.5), {}, "labels must be class indices"),
    (lower_bounds.mixup, (LABELS, LABELS - 1, 0.5), {}, "others must be >= 0, got -1"),
    (lower_bounds.cross_entropy, (LABELS,), {"weight": [1.0, 2.0]}, "target must be .* < 2, got 2"),
    (lower_bounds.cross_entropy, (LABELS,), {"classes": 2}, "target must be >= 0 and < 2, got 2"),
    (lower_bounds.cross_entropy, ("cats",), {}, "target must be a tensor, got 'cats'"),
    (lower_bounds.distillation, (None,), {}, "teacher_logits must be a tensor, got None"),
    (lower_bounds.distillation, (SOFT, 0.0), {}, "temperature must be > 0 and finite, got 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "arguments", "options", "message"), REFUSED)
def test_refused_in_one_line(function, arguments, options, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
