"""Each bound is the least value of torch's own loss, and no prediction gets below it."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from heavystep import lower_bounds

CLASSES = 5
FLOAT64 = torch.float64


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def draw_labels(seed, shape, ignored=False):
    labels = torch.randint(CLASSES, shape, generator=seeded(seed))
    if ignored:
        labels.view(-1)[::4] = -100
    return labels


def draw_weights(seed):
    return torch.rand(CLASSES, generator=seeded(seed + 100), dtype=FLOAT64) * 3


def draw_probabilities(seed, shape):
    logits = 2 * torch.randn(shape, generator=seeded(seed), dtype=FLOAT64)
    return torch.softmax(logits, dim=1 if len(shape) > 1 else 0)


class Case(NamedTuple):
    """A loss of logits and the bound of it, each for a seed of its targets."""

    shape: tuple[int, ...]
    loss: Callable[[int, torch.Tensor], torch.Tensor]
    bound: Callable[[int], torch.Tensor]


def labels(shape=(7,), ignored=False, weighted=False, soft=False, **options):
    """Hard labels or probabilities, with whatever cross_entropy takes."""
    draw = draw_probabilities if soft else lambda seed, s: draw_labels(seed, s, ignored)

    def given(seed):
        return draw(seed, shape), {
            **options,
            **({"weight": draw_weights(seed)} if weighted else {}),
        }

    def loss(seed, logits):
        target, arguments = given(seed)
        return functional.cross_entropy(logits, target, **arguments)

    def bound(seed):
        target, arguments = given(seed)
        return lower_bounds.cross_entropy(target, classes=CLASSES, **arguments)

    return Case(shape if soft else (shape[0], CLASSES, *shape[1:]), loss, bound)


def mixed(ignored=False, weighted=False, **options):
    """Two labels a position, some of them alike."""
    lam = 0.3

    def given(seed):
        one, other = draw_labels(seed, (7,), ignored), draw_labels(seed + 1, (7,), ignored)
        other[:2] = draw_labels(seed, (7,))[:2]
        return (one, other), {**options, **({"weight": draw_weights(seed)} if weighted else {})}

    def loss(seed, logits):
        pair, arguments = given(seed)
        one, other = (functional.cross_entropy(logits, each, **arguments) for each in pair)
        return lam * one + (1 - lam) * other

    def bound(seed):
        pair, arguments = given(seed)
        return lower_bounds.mixup(*pair, lam, classes=CLASSES, **arguments)

    return Case((7, CLASSES), loss, bound)


def distilled(T, scaled, reduction="mean"):
    """A teacher's logits; the student's are divided by the same temperature."""

    def teacher(seed):
        return 3 * torch.randn(6, CLASSES, generator=seeded(seed), dtype=FLOAT64)

    def loss(seed, logits):
        q = torch.softmax(teacher(seed) / T, dim=1)
        return functional.cross_entropy(logits / T, q, reduction=reduction) * (
            T**2 if scaled else 1
        )

    def bound(seed):
        return lower_bounds.distillation(teacher(seed), T, scaled=scaled, reduction=reduction)

    return Case((6, CLASSES), loss, bound)


def gaussian(eps, full, reduction="mean"):
    """Mean and variance are predicted; the variance as a square, to which torch's floor is added."""
    options = {"full": full, "reduction": reduction}

    def loss(seed, logits):
        y = torch.randn(6, generator=seeded(seed), dtype=FLOAT64) + 2
        return nn.GaussianNLLLoss(eps=eps, **options)(logits[0], y, eps + logits[1] ** 2)

    least = lower_bounds.gaussian_nll(eps, **options, elements={"sum": 6}.get(reduction))
    return Case((2, 6), loss, lambda seed: torch.tensor(least, dtype=FLOAT64))


def noisy(reduction="mean", factor=1.0):
    """Targets clean + s and clean - s at each input: noise of variance s^2 that no input tells."""

    def loss(seed, logits):
        clean = torch.randn(4, generator=seeded(seed), dtype=FLOAT64) + 1
        targets = torch.cat([clean + 0.3, clean - 0.3])
        return factor * functional.mse_loss(logits.repeat(2), targets, reduction=reduction)

    elements = {"sum": 8}.get(reduction)
    least = lower_bounds.squared_error(0.09, factor=factor, reduction=reduction, elements=elements)
    return Case((4,), loss, lambda seed: torch.tensor(least, dtype=FLOAT64))


def summed():
    """Of smoothed labels and a teacher, for one student; the teacher agrees with the labels."""
    smooth = labels((6,), label_smoothing=0.2)

    def teacher(seed):
        hot = functional.one_hot(draw_labels(seed, (6,)), CLASSES).to(FLOAT64)
        return torch.log(0.8 * hot + 0.2 / CLASSES)

    def loss(seed, logits):
        other = functional.cross_entropy(logits, teacher(seed).exp())
        return 0.7 * smooth.loss(seed, logits) + 2.0 * other

    def bound(seed):
        other = lower_bounds.distillation(teacher(seed))
        return lower_bounds.weighted_sum([smooth.bound(seed), other], [0.7, 2.0])

    return Case((6, CLASSES), loss, bound)


CASES = {
    "labels": labels(),
    "smoothed": labels(label_smoothing=0.1),
    "smoothed to nothing": labels(label_smoothing=1.0),
    "smoothed, summed": labels(label_smoothing=0.1, reduction="sum"),
    "smoothed, ignored": labels(ignored=True, label_smoothing=0.2),
    "smoothed, ignored, summed": labels(ignored=True, label_smoothing=0.2, reduction="sum"),
    "weighted": labels(weighted=True),
    "weighted, smoothed": labels(weighted=True, label_smoothing=0.3),
    "weighted, smoothed, ignored": labels(ignored=True, weighted=True, label_smoothing=0.3),
    "weighted, smoothed, summed": labels(weighted=True, label_smoothing=0.3, reduction="sum"),
    "pictures": labels((3, 2, 2), ignored=True, weighted=True, label_smoothing=0.3),
    "soft": labels((6, CLASSES), soft=True),
    "soft, one position": labels((CLASSES,), soft=True, label_smoothing=0.1),
    "soft, smoothed": labels((6, CLASSES), soft=True, label_smoothing=0.1),
    "soft, weighted": labels((6, CLASSES), soft=True, weighted=True, label_smoothing=0.1),
    "soft, weighted, summed": labels((6, CLASSES), soft=True, weighted=True, reduction="sum"),
    "soft pictures": labels((2, CLASSES, 2, 2), soft=True, weighted=True, label_smoothing=0.1),
    "mixed": mixed(),
    "mixed, summed": mixed(reduction="sum"),
    "mixed, smoothed": mixed(label_smoothing=0.1),
    "mixed, ignored": mixed(ignored=True, label_smoothing=0.1),
    "mixed, weighted": mixed(ignored=True, weighted=True, label_smoothing=0.1),
    "mixed, weighted, summed": mixed(weighted=True, label_smoothing=0.1, reduction="sum"),
    "distilled": distilled(3.0, scaled=True),
    "distilled, not scaled": distilled(3.0, scaled=False),
    "distilled, summed": distilled(0.5, scaled=True, reduction="sum"),
    "gaussian": gaussian(1e-3, full=False),
    "gaussian, full": gaussian(0.25, full=True),
    "gaussian, summed": gaussian(0.25, full=True, reduction="sum"),
    "noisy": noisy(),
    "noisy, summed": noisy(reduction="sum"),
    "noisy, half": noisy(factor=0.5),
    "summed": summed(),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def least_found(case, seed):
    """The least value that a search over all predictions finds."""
    logits = torch.ones(case.shape, dtype=FLOAT64, requires_grad=True)
    opt = torch.optim.LBFGS(
        [logits], max_iter=300, tolerance_grad=1e-9, tolerance_change=1e-13,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure():
        opt.zero_grad()
        loss = case.loss(seed, logits)
        loss.backward()
        return loss

    opt.step(closure)
    return case.loss(seed, logits.detach())


@every_case
def test_is_the_least_value(case):
    for seed in (0, 1):
        found, bound = least_found(case, seed), case.bound(seed)
        assert bound.dtype == FLOAT64
        assert bound.ndim == 0
        torch.testing.assert_close(bound, found, rtol=1e-6, atol=1e-6)


@every_case
@given(seed=st.integers(0, 10**6), spread=st.sampled_from([0.0, 0.1, 1.0, 10.0, 100.0]))
def test_no_loss_is_below(case, seed, spread):
    logits = torch.randn(case.shape, generator=seeded(seed + 7), dtype=FLOAT64)
    loss, bound = case.loss(seed, spread * logits), case.bound(seed)
    assert bound <= loss + 1e-12 * (1 + loss.abs())


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


@given(lam=st.floats(0.0, 1.0))
def test_mixed_labels_by_hand(lam):
    labels, others = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 2, 1, 3])
    pair = torch.tensor([lam, 1.0 - lam], dtype=FLOAT64)
    expected = torch.special.entr(pair).sum() / 2  # two of four positions differ
    for given_lam in (lam, torch.tensor(lam, dtype=FLOAT64), torch.tensor([lam], dtype=FLOAT64)):
        torch.testing.assert_close(lower_bounds.mixup(labels, others, given_lam), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_targets_in_a_short_format(dtype):
    """They are summed in a long one: the bound is that of the rounded targets."""
    target = draw_probabilities(0, (4000, CLASSES)).to(dtype)
    bound = lower_bounds.cross_entropy(target)
    assert bound.dtype == FLOAT64
    torch.testing.assert_close(
        bound, lower_bounds.cross_entropy(target.to(FLOAT64)), rtol=1e-6, atol=0
    )
    torch.testing.assert_close(
        lower_bounds.distillation(target), lower_bounds.distillation(target.to(FLOAT64)),
        rtol=1e-6, atol=0,
    )  # fmt: skip


def test_tensors_in_place_of_numbers():
    floor, count = torch.tensor(0.25, dtype=FLOAT64), torch.tensor(8)
    bound = lower_bounds.gaussian_nll(floor, full=True, reduction="sum", elements=count)
    assert bound.item() == lower_bounds.gaussian_nll(0.25, full=True, reduction="sum", elements=8)
    bound = lower_bounds.squared_error(floor, reduction="sum", elements=count)
    assert bound.item() == 2.0
    bound = lower_bounds.weighted_sum([torch.tensor([3.0]), 1.0], [2.0, torch.tensor(4.0)])
    assert (bound.item(), bound.shape) == (10.0, ())
    assert lower_bounds.weighted_sum([0.25, 0.5]) == 0.75
