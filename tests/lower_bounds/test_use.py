"""Bounds in the hands of an optimizer: nothing waits for the device, and they make the step."""

import pytest
import torch
from torch.nn import functional

from heavystep import SHBPolyak, lower_bounds
from tests.helpers.training import make_batches, make_net
from tests.optim.test_no_sync import NoHostRead

LABELS = torch.tensor([0, 2, 1, 2])
SOFT = torch.full((4, 3), 1 / 3)
OF_A_BATCH = {
    "labels": lambda: lower_bounds.cross_entropy(LABELS, classes=3, label_smoothing=0.1),
    "weighted": lambda: lower_bounds.cross_entropy(
        LABELS, weight=torch.ones(3), label_smoothing=0.1, ignore_index=1
    ),
    "soft": lambda: lower_bounds.cross_entropy(SOFT, label_smoothing=0.1),
    "mixed": lambda: lower_bounds.mixup(
        LABELS, LABELS.flip(0), torch.rand(()), weight=torch.ones(3)
    ),
    "distilled": lambda: lower_bounds.distillation(SOFT, 2.0),
}


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_nothing_is_read_on_the_host(name, monkeypatch):
    monkeypatch.setattr(lower_bounds, "readable", lambda tensor: False)  # as on another device
    with NoHostRead():
        bound = OF_A_BATCH[name]()
    assert not bound.requires_grad


def test_lists_are_as_good_as_tensors():
    weight, others = [1.0, 2.0, 0.5], [2, 2, 1, 0]
    for of_lists, of_tensors in (
        (lower_bounds.cross_entropy(SOFT.tolist()), lower_bounds.cross_entropy(SOFT)),
        (
            lower_bounds.mixup(LABELS.tolist(), others, 0.3, weight=weight),
            lower_bounds.mixup(LABELS, torch.tensor(others), 0.3, weight=torch.tensor(weight)),
        ),
        (lower_bounds.distillation(SOFT.tolist(), 2.0), lower_bounds.distillation(SOFT, 2.0)),
    ):
        assert torch.equal(of_lists, of_tensors)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("weight", [None, torch.tensor([0.5, 2.0, 1.0])], ids=["", "weighted"])
def test_where_no_target_counts_the_bound_is_0(reduction, weight):
    """The mean of such a loss is NaN, and the batch is refused; its bound does no harm."""
    ignored = torch.full((3,), -100)
    options = {"weight": weight, "reduction": reduction, "label_smoothing": 0.1, "classes": 3}
    assert lower_bounds.cross_entropy(ignored, **options) == 0.0
    assert lower_bounds.mixup(ignored, ignored, 0.3, **options) == 0.0


def test_bounds_do_not_ask_for_gradients():
    soft = SOFT.clone().requires_grad_()
    assert not lower_bounds.cross_entropy(soft).requires_grad
    assert not lower_bounds.distillation(soft).requires_grad
    assert not lower_bounds.weighted_sum([soft.sum()], [soft[0, 0]]).requires_grad
    assert not lower_bounds.gaussian_nll(soft[0, 0]).requires_grad
    assert not lower_bounds.squared_error(soft[0, 0]).requires_grad
    assert not lower_bounds.mixup(LABELS, LABELS.flip(0), soft[0, 0]).requires_grad


def test_the_step_is_that_of_the_gap():
    """Polyak's ratio for the mixed labels of a batch, from the loss less its least value."""
    net, (x, y) = make_net(dtype=torch.float64), make_batches(1, dtype=torch.float64)[0]
    others, lam = y.flip(0), 0.3
    loss = lam * functional.cross_entropy(net(x), y)
    loss = loss + (1 - lam) * functional.cross_entropy(net(x), others)
    opt = SHBPolyak(net.parameters(), c=1.0, max_step=1e6, scaling="plain")
    loss.backward()
    sqnorm = sum(p.grad.square().sum() for p in net.parameters())
    opt.step(loss=loss, lower_bound=lower_bounds.mixup(y, others, lam))
    entropy = torch.special.entr(torch.tensor([lam, 1 - lam], dtype=torch.float64)).sum()
    gap = loss.detach() - entropy * (y != others).double().mean()
    torch.testing.assert_close(torch.as_tensor(opt.info.step).double(), gap / sqnorm)


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
    (lower_bounds.gaussian_nll, (0.0,), {}, "variance_floor must be > 0 and finite, got 0.0"),
    (lower_bounds.gaussian_nll, (), {"reduction": "sum"}, "elements must be given"),
    (lower_bounds.gaussian_nll, (), {"elements": 3}, "elements is for reduction='sum'"),
    (lower_bounds.squared_error, (-1.0,), {}, "noise_variance must be >= 0 and finite, got -1.0"),
    (
        lower_bounds.weighted_sum,
        ([0.0], [-0.5]),
        {},
        r"weights\[0\] must be >= 0 and finite, got -0.5",
    ),
    (lower_bounds.weighted_sum, ([0.0], [torch.tensor(-0.5)]), {}, r"weights\[0\] must be >= 0"),
    (lower_bounds.weighted_sum, ([1.0, None],), {}, r"bounds\[1\] must be a real number"),
    (
        lower_bounds.weighted_sum,
        ([torch.ones(2)],),
        {},
        r"bounds\[0\] must have one element, got 2",
    ),
    (lower_bounds.weighted_sum, ([1.0], [1.0, 2.0]), {}, "one weight a bound, got 2 for 1"),
]


@pytest.mark.parametrize(("function", "arguments", "options", "message"), REFUSED)
def test_refused_in_one_line(function, arguments, options, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
