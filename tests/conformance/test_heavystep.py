"""The default rule is the literal loop of its docstring."""

import numpy as np
import pytest
import torch

from heavystep import HeavyStep
from tests import reference_heavystep

STEPS = 1000
ROUNDING = 2.0**-50
SHAPES = ((3, 2), (4,))


def problem(seed, *, noise=0.3, start=None):
    """Batches of an off-centre least-squares problem, with a slope of its own in each entry."""
    rng = np.random.default_rng(seed)
    dim = sum(int(np.prod(shape)) for shape in SHAPES)
    A = rng.normal(size=(40, dim)) * rng.uniform(0.3, 2.0, size=dim)
    b = A @ rng.normal(2.0, 1.0, size=dim) + noise * rng.normal(size=40)
    samples = rng.integers(0, 40, size=(STEPS, 4))
    theta = [rng.normal(size=shape) if start is None else np.full(shape, start) for shape in SHAPES]
    return A, b, samples, theta


WILD = {200: -1e6, 201: 1e9, 500: 3e4, 501: 1e4, 502: 1e4}
LOSSES = {
    "plain": lambda loss, k: loss,
    "wild": lambda loss, k: WILD.get(k, loss),
    "zeros": lambda loss, k: 0.0 if k < 7 else loss,
    "at its level at times": lambda loss, k: 0.0 if k % 10 == 9 else loss,
    "another task": lambda loss, k: loss + (40.0 if k > 800 else 0.0),
    "below": lambda loss, k: loss - 3.0,
}
"""What becomes of the loss of step k."""
CASES = {
    "plain": ("plain", {}, {}),
    "exact": ("plain", {}, {"noise": 0.0}),
    "wild losses": ("wild", {}, {}),
    "wild losses, no bound": ("wild", {"lower_bound": None}, {}),
    "zeros at the start": ("zeros", {}, {}),
    "another task": ("another task", {}, {}),
    "no bound": ("plain", {"lower_bound": None}, {}),
    "a bound that is missed": ("below", {}, {}),
    "a bound above all losses": ("plain", {"lower_bound": 1000.0}, {}),
    "decay": ("plain", {"weight_decay": 0.3, "lr": 0.5}, {}),
    "max_step": ("plain", {"max_step": 0.01}, {}),
    "certified": ("another task", {"certified": True}, {}),
    "certified, at its level at times": ("at its level at times", {"certified": True}, {}),
    "zeros, begins at 0": ("zeros", {}, {"start": 0.0}),
    "begins at 0": ("plain", {"momentum": 0.7}, {"start": 0.0}),
}


@pytest.mark.filterwarnings("ignore:the loss stays below", "ignore:.* recent steps are max_step")
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("diagonal", [None, "tensor", "element"])
def test_the_default_is_its_literal_loop(name, diagonal):
    change, options, made = CASES[name]
    if options.get("certified") and diagonal:
        with pytest.raises(ValueError, match="certified=True needs diagonal=None"):
            HeavyStep([torch.zeros(1, requires_grad=True)], diagonal=diagonal, **options)
        return
    A, b, samples, theta = problem(sum(map(ord, name)), **made)

    def batch(k):
        def evaluated(parts):
            rows = samples[k]
            residual = A[rows] @ np.concatenate([p.ravel() for p in parts]) - b[rows]
            gradient = residual @ A[rows] / len(rows)
            cuts = np.cumsum([p.size for p in parts])[:-1]
            pieces = np.split(gradient, cuts)
            loss = LOSSES[change](0.5 * float(np.mean(residual**2)), k)
            return loss, [g.reshape(p.shape) for g, p in zip(pieces, parts, strict=True)]

        return evaluated

    def literal(theta):
        batches = map(batch, range(STEPS))
        return reference_heavystep.run(batches, theta, diagonal=diagonal, **options)

    wanted, shaken = literal(theta), literal([p * (1.0 + ROUNDING) for p in theta])
    # What rounding at the start has become by each step, which is what it can become by any.
    grown = np.maximum.accumulate(np.abs(shaken - wanted).max(axis=1, keepdims=True))
    assert grown.max() < 1e-6  # else nothing could fail
    params = [torch.tensor(p, requires_grad=True) for p in theta]
    opt, found = HeavyStep(params, diagonal=diagonal, **options), []
    for k in range(STEPS):
        loss, gradients = batch(k)([p.detach().numpy() for p in params])
        for p, g in zip(params, gradients, strict=True):
            p.grad = torch.from_numpy(g)
        opt.step(loss=loss)
        assert bool(opt.info.capped) == (opt.info.base_step == options.get("max_step"))
        found.append(np.concatenate([p.detach().numpy().ravel() for p in params]))
    assert (np.abs(found - wanted) <= 1e-12 + 10.0 * grown).all()
    assert np.abs(wanted[-1] - wanted[0]).max() > 0.1
