"""Each bound is the least value of torch's own loss, and no prediction gets below it."""

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


class Labels:
    """Hard labels, with whatever cross_entropy takes."""

    def __init__(self, shape=(7,), ignored=False, weighted=False, **options):
        self.shape, self.ignored, self.weighted, self.options = shape, ignored, weighted, options

    def arguments(self, seed):
        return {**self.options, **({"weight": draw_weights(seed)} if self.weighted else {})}

    def logits_shape(self):
        return (self.shape[0], CLASSES, *self.shape[1:])

    def targets(self, seed):
        return draw_labels(seed, self.shape, self.ignored)

    def loss(self, seed, logits):
        return functional.cross_entropy(logits, self.targets(seed), **self.arguments(seed))

    def bound(self, seed):
        target, options = self.targets(seed), self.arguments(seed)
        return lower_bounds.cross_entropy(target, classes=CLASSES, **options)


class Soft(Labels):
    """Probabilities as targets."""

    def logits_shape(self):
        return self.shape

    def targets(self, seed):
        return draw_probabilities(seed, self.shape)


class Mixed(Labels):
    """Two labels a position, some of them alike."""

    lam = 0.3

    def others(self, seed):
        labels = draw_labels(seed, self.shape)
        others = draw_labels(seed + 1, self.shape, self.ignored)
        others.view(-1)[:2] = labels.view(-1)[:2]
        return others

    def loss(self, seed, logits):
        other = functional.cross_entropy(logits, self.others(seed), **self.arguments(seed))
        return self.lam * super().loss(seed, logits) + (1 - self.lam) * other

    def bound(self, seed):
        return lower_bounds.mixup(
            self.targets(seed), self.others(seed), self.lam, classes=CLASSES, **self.arguments(seed)
        )


class Distilled:
    """A teacher's logits; the student's are divided by the same temperature."""

    def __init__(self, temperature, scaled, reduction="mean"):
        self.temperature, self.scaled, self.reduction = temperature, scaled, reduction

    def logits_shape(self):
        return (6, CLASSES)

    def teacher(self, seed):
        return 3 * torch.randn(6, CLASSES, generator=seeded(seed), dtype=FLOAT64)

    def loss(self, seed, logits):
        T = self.temperature
        q = torch.softmax(self.teacher(seed) / T, dim=1)
        loss = functional.cross_entropy(logits / T, q, reduction=self.reduction)
        return loss * T**2 if self.scaled else loss

    def bound(self, seed):
        return lower_bounds.distillation(
            self.teacher(seed), self.temperature, scaled=self.scaled, reduction=self.reduction
        )


class Gaussian:
    """Mean and variance are predicted; the variance as a square, to which torch's floor is added."""

    def __init__(self, eps, full, reduction="mean"):
        self.options = {"eps": eps, "full": full, "reduction": reduction}
        self.elements = {"sum": 6}.get(reduction)

    def logits_shape(self):
        return (2, 6)

    def loss(self, seed, logits):
        y = torch.randn(6, generator=seeded(seed), dtype=FLOAT64) + 2
        return nn.GaussianNLLLoss(**self.options)(
            logits[0], y, self.options["eps"] + logits[1] ** 2
        )

    def bound(self, seed):
        eps, full, reduction = self.options.values()
        return torch.tensor(
            lower_bounds.gaussian_nll(eps, full=full, reduction=reduction, elements=self.elements),
            dtype=FLOAT64,
        )


class Noisy:
    """Targets clean + s and clean - s at each input: noise of variance s^2 that no input tells."""

    def __init__(self, reduction="mean", factor=1.0):
        self.reduction, self.factor = reduction, factor
        self.elements = {"sum": 8}.get(reduction)

    def logits_shape(self):
        return (4,)

    def loss(self, seed, logits):
        clean = torch.randn(4, generator=seeded(seed), dtype=FLOAT64) + 1
        targets = torch.cat([clean + 0.3, clean - 0.3])
        loss = functional.mse_loss(logits.repeat(2), targets, reduction=self.reduction)
        return self.factor * loss

    def bound(self, seed):
        bound = lower_bounds.squared_error(
            0.09, factor=self.factor, reduction=self.reduction, elements=self.elements
        )
        return torch.tensor(bound, dtype=FLOAT64)


class Summed:
    """Of smoothed labels and a teacher, for one student; the teacher agrees with the labels."""

    smooth = Labels((6,), label_smoothing=0.2)

    def logits_shape(self):
        return (6, CLASSES)

    def teacher(self, seed):
        hot = functional.one_hot(self.smooth.targets(seed), CLASSES).to(FLOAT64)
        return torch.log(0.8 * hot + 0.2 / CLASSES)

    def loss(self, seed, logits):
        other = functional.cross_entropy(logits, self.teacher(seed).exp())
        return 0.7 * self.smooth.loss(seed, logits) + 2.0 * other

    def bound(self, seed):
        other = lower_bounds.distillation(self.teacher(seed))
        return lower_bounds.weighted_sum([self.smooth.bound(seed), other], [0.7, 2.0])


CASES = {
    "labels": Labels(),
    "smoothed": Labels(label_smoothing=0.1),
    "smoothed to nothing": Labels(label_smoothing=1.0),
    "smoothed, summed": Labels(label_smoothing=0.1, reduction="sum"),
    "smoothed, ignored": Labels(ignored=True, label_smoothing=0.2),
    "smoothed, ignored, summed": Labels(ignored=True, label_smoothing=0.2, reduction="sum"),
    "weighted": Labels(weighted=True),
    "weighted, smoothed": Labels(weighted=True, label_smoothing=0.3),
    "weighted, smoothed, ignored": Labels(ignored=True, weighted=True, label_smoothing=0.3),
    "weighted, smoothed, summed": Labels(weighted=True, label_smoothing=0.3, reduction="sum"),
    "pictures": Labels((3, 2, 2), ignored=True, weighted=True, label_smoothing=0.3),
    "soft": Soft((6, CLASSES)),
    "soft, one position": Soft((CLASSES,), label_smoothing=0.1),
    "soft, smoothed": Soft((6, CLASSES), label_smoothing=0.1),
    "soft, weighted": Soft((6, CLASSES), weighted=True, label_smoothing=0.1),
    "soft, weighted, summed": Soft((6, CLASSES), weighted=True, reduction="sum"),
    "soft pictures": Soft((2, CLASSES, 2, 2), weighted=True, label_smoothing=0.1),
    "mixed": Mixed(),
    "mixed, summed": Mixed(reduction="sum"),
    "mixed, smoothed": Mixed(label_smoothing=0.1),
    "mixed, ignored": Mixed(ignored=True, label_smoothing=0.1),
    "mixed, weighted": Mixed(ignored=True, weighted=True, label_smoothing=0.1),
    "mixed, weighted, summed": Mixed(weighted=True, label_smoothing=0.1, reduction="sum"),
    "distilled": Distilled(3.0, scaled=True),
    "distilled, not scaled": Distilled(3.0, scaled=False),
    "distilled, summed": Distilled(0.5, scaled=True, reduction="sum"),
    "gaussian": Gaussian(1e-3, full=False),
    "gaussian, full": Gaussian(0.25, full=True),
    "gaussian, summed": Gaussian(0.25, full=True, reduction="sum"),
    "noisy": Noisy(),
    "noisy, summed": Noisy(reduction="sum"),
    "noisy, half": Noisy(factor=0.5),
    "summed": Summed(),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def least_found(case, seed):
    """The least value that a search over all predictions finds."""
    logits = torch.ones(case.logits_shape(), dtype=FLOAT64, requires_grad=True)
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
    logits = torch.randn(case.logits_shape(), generator=seeded(seed + 7), dtype=FLOAT64)
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


def test_a_variance_below_the_floor_counts_as_the_floor():
    y = torch.tensor([1.5, -2.0], dtype=FLOAT64)
    loss = nn.GaussianNLLLoss(eps=1e-3)(y, y, torch.zeros(2, dtype=FLOAT64))
    assert lower_bounds.gaussian_nll(1e-3) == pytest.approx(loss.item(), rel=1e-12)


def test_teacher_along_another_dimension():
    teacher = torch.randn(3, CLASSES, 4, generator=seeded(0), dtype=FLOAT64)
    one = lower_bounds.distillation(teacher, 2.0, dim=1)
    other = lower_bounds.distillation(teacher.transpose(1, 2), 2.0)
    torch.testing.assert_close(one, other)


def test_tensors_in_place_of_numbers():
    floor, count = torch.tensor(0.25, dtype=FLOAT64), torch.tensor(8)
    bound = lower_bounds.gaussian_nll(floor, full=True, reduction="sum", elements=count)
    assert bound.item() == lower_bounds.gaussian_nll(0.25, full=True, reduction="sum", elements=8)
    bound = lower_bounds.squared_error(floor, reduction="sum", elements=count)
    assert bound.item() == 2.0
    bound = lower_bounds.weighted_sum([torch.tensor([3.0]), 1.0], [2.0, torch.tensor(4.0)])
    assert (bound.item(), bound.shape) == (10.0, ())
    assert lower_bounds.weighted_sum([0.25, 0.5]) == 0.75
