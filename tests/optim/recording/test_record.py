"""A record is what happened: numbers, options, iterates, bounds and formats."""

import math

import numpy as np
import pytest
import torch

from heavystep import SLS, Diminishing, SHBArmijo, SHBPolyak
from heavystep.optim import Recorder
from tests.helpers.cases import ROWS, over
from tests.helpers.recorded import every_adaptive, heavy_ball_of_a_kind, quadratic, run, start
from tests.helpers.training import flat, make_batches, make_net, take_step


@every_adaptive
def test_record_is_the_info_of_every_step(case):
    net, batches = make_net(), make_batches(8)
    opt = case.make(net.parameters())
    recorder, seen = Recorder(opt), []
    for batch in batches:
        take_step(opt, net, batch, case)
        seen.append(opt.info.numbers())
    record = recorder.record()
    for column, name in (
        (record.gamma, "step"),
        (record.loss, "loss"),
        (record.grad_sqnorm, "grad_sqnorm"),
        (record.accepted, "accepted"),
    ):
        assert column.shape == (1, 8)
        assert column[0].tolist() == [info[name] for info in seen]
    options = opt.param_groups[0]
    assert record.rule == case.method.known_as
    wanted = (options.get("scaling", "plain"), options.get("c", 1.0))
    assert (record.scaling, record.c) == wanted
    assert record.omega == options.get("decrease_factor")
    assert record.smooth_reset == (options.get("steps_per_epoch") is not None)
    assert record.eps == torch.finfo(torch.float32).eps
    assert record.accepted.dtype == bool
    assert record.eta.tolist() == [options["lr"]] * 8
    assert record.beta.tolist() == [options["momentum"]] * 8
    cap = options.get("max_step", math.nan)
    cap = math.inf if cap is None else cap  # steady steps have no largest one
    np.testing.assert_array_equal(record.gamma_max, [cap] * 8)
    assert (record.runs, record.steps) == (1, 8)
    assert record.iterates is record.gradients is None


@over([case for case in ROWS if case.adaptive and not case.heavy_ball])
def test_iterates_of_another_recursion_are_refused(case):
    opt = case.make(make_net().parameters())
    with pytest.raises(ValueError, match="iterates=True is for heavy ball"):
        Recorder(opt, iterates=True)


@every_adaptive
def test_recording_changes_nothing(case):
    nets, batches = [make_net(), make_net()], make_batches(6)
    opts = [case.make(net.parameters()) for net in nets]
    Recorder(opts[1], iterates=case.heavy_ball)
    for batch in batches:
        losses = [take_step(opt, net, batch, case) for opt, net in zip(opts, nets, strict=True)]
        assert torch.equal(*losses)
    assert torch.equal(flat(nets[0]), flat(nets[1]))
    states = [opt.state_dict() for opt in opts]
    assert str(states[0]) == str(states[1])


@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
@pytest.mark.parametrize("groups", [1, 2])
def test_recorded_iterates_obey_the_recursion_under_a_schedule(cls, groups):
    a, b = start(), start()
    opt = cls([{"params": [a]}, {"params": [b]}][:groups], scaling="plain", max_step=0.4)
    recorder, thetas = Recorder(opt, iterates=True), [a, b][:groups]
    schedule = Diminishing(opt, horizon=3.0)
    lr, path = [], []
    for k in range(12):
        path.append(torch.cat([t.detach().clone() for t in thetas]))
        lr.append([opt.param_groups[0][name] for name in ("lr", "momentum", "max_step")])
        opt.step(lambda: sum(quadratic(t, k + i) for i, t in enumerate(thetas)))
        schedule.step()
    record = recorder.record()
    assert np.array([record.eta, record.beta, record.gamma_max]).T.tolist() == lr
    assert len(set(record.eta)) == len(set(record.beta)) == len(set(record.gamma_max)) == 12
    theta, g = record.iterates[0], record.gradients[0]
    assert np.array_equal(theta[:-1], torch.stack(path).numpy())
    np.testing.assert_allclose((g**2).sum(axis=1), record.grad_sqnorm[0], rtol=1e-12)
    previous = theta[0]
    for k, (gamma, beta) in enumerate(zip(record.gamma[0], record.beta, strict=True)):
        expected = theta[k] - gamma * g[k] + beta * (theta[k] - previous)
        np.testing.assert_allclose(theta[k + 1], expected, rtol=0.0, atol=1e-12)
        previous = theta[k]
    assert record.gamma.min() > 0.0


def test_options_are_those_of_the_step_though_another_hook_drives_the_schedule():
    theta = start()
    opt = SHBPolyak([theta], scaling="plain", max_step=0.4)
    schedule = Diminishing(opt, horizon=3.0)
    opt.register_step_post_hook(lambda *_: (schedule.step(), opt.zero_grad()))
    recorder = Recorder(opt, iterates=True)
    first = [opt.param_groups[0][name] for name in ("lr", "momentum", "max_step")]
    run(opt, theta, 3)
    record = recorder.record()
    assert [record.eta[0], record.beta[0], record.gamma_max[0]] == first
    assert np.count_nonzero(record.gradients) == record.gradients.size


@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
@pytest.mark.parametrize("iterates", [False, True])
def test_a_nan_batch_is_recorded_as_refused(cls, iterates):
    theta = start()
    opt = cls([theta])
    recorder = Recorder(opt, iterates=iterates)
    for k in range(6):
        opt.step(lambda: quadratic(theta, k) * (math.nan if k == 3 else 1.0))
    record = recorder.record()
    assert record.accepted[0].tolist() == [True, True, True, False, True, True]
    assert record.gamma[0, 3] == 0.0
    assert math.isnan(record.loss[0, 3])
    assert (record.gamma[0, [0, 1, 2, 4, 5]] > 0.0).all()
    if iterates:
        assert np.array_equal(record.iterates[0, 3], record.iterates[0, 4])
        assert not np.array_equal(record.iterates[0, 4], record.iterates[0, 5])


def test_what_changes_in_place_is_recorded_as_it_was():
    theta, lr, bound = start(), torch.tensor(1.0), torch.zeros(3)
    opt = SHBPolyak([theta], lr=lr)
    recorder = Recorder(opt)
    loss = torch.zeros((), dtype=torch.float64)
    for k in range(3):
        lr.fill_(1.0 / (k + 1))
        bound[1] = -float(k)
        theta.grad = torch.ones_like(theta)
        loss.fill_(float(k + 1))
        opt.step(loss=loss, lower_bound=bound[1])
    record = recorder.record()
    assert record.eta == pytest.approx([1.0, 1 / 2, 1 / 3], rel=torch.finfo(torch.float32).eps / 2)
    assert record.f_star.tolist() == [[0.0, -1.0, -2.0]]
    assert record.loss.tolist() == [[1.0, 2.0, 3.0]]


BOUNDS = {
    "Polyak's own": (SHBPolyak, {"lower_bound": -0.5}, None, -0.5),
    "Polyak, one step": (SHBPolyak, {"lower_bound": -0.5}, -0.25, -0.25),
    "Polyak, a tensor": (SHBPolyak, {}, torch.tensor([-0.1]), float(torch.tensor(-0.1))),
    "Armijo without": (SHBArmijo, {}, None, -math.inf),
    "Armijo's own": (SLS, {"lower_bound": -0.5}, None, -0.5),
    "Armijo, one step": (SHBArmijo, {"lower_bound": -0.5}, -0.25, -0.25),
    "Armijo, a tensor": (SHBArmijo, {}, torch.tensor(-0.1), float(torch.tensor(-0.1))),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bound_is_the_one_that_the_rule_used(name):
    cls, options, given, expected = BOUNDS[name]
    theta = start()
    opt = cls([theta], **options)
    recorder = Recorder(opt)
    run(opt, theta, 1, lower_bound=given)
    run(opt, theta, 1)
    own = options.get("lower_bound", opt.defaults["lower_bound"])
    assert recorder.record().f_star.tolist() == [[expected, -math.inf if own is None else own]]


@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_decay_in_the_objective_is_recorded_as_the_rule_saw_it(cls, dtype):
    theta, frozen = start(dtype), torch.ones(2, dtype=dtype, requires_grad=True)
    opt = cls([theta, frozen], scaling="practical", weight_decay=0.2, decay="objective", c=0.7)
    recorder = Recorder(opt, iterates=True)
    run(opt, theta, 6)
    record, eps = recorder.record(), torch.finfo(dtype).eps
    for k in range(6):
        point = torch.tensor(record.iterates[0, k, :3], requires_grad=True)
        loss = quadratic(point, k) + 0.1 * (point**2).sum()
        loss.backward()
        np.testing.assert_allclose(record.loss[0, k], loss.item(), rtol=16 * eps)
        np.testing.assert_allclose(record.gradients[0, k, :3], point.grad, rtol=0, atol=64 * eps)
        assert (record.gradients[0, k, 3:] == 0.0).all()
    assert (record.iterates[0, :, 3:] == 1.0).all()


def test_a_frozen_parameter_has_gradient_zero():
    theta, frozen = start(), torch.ones(2, dtype=torch.float64)
    frozen.grad = torch.full_like(frozen, 7.0)  # left from before it was frozen
    opt = SHBPolyak([theta, frozen], scaling="practical")
    recorder = Recorder(opt, iterates=True)
    for k in range(3):
        theta.grad = None
        loss = quadratic(theta, k)
        loss.backward()
        opt.step(loss=loss)
    record = recorder.record()
    assert (record.gradients[0, :, 3:] == 0.0).all()
    np.testing.assert_allclose((record.gradients**2).sum(axis=2), record.grad_sqnorm, rtol=1e-12)


def test_decoupled_decay_is_recorded_without_iterates():
    theta = start()
    opt = SHBPolyak([theta], weight_decay=0.1, scaling="plain", c=2.0)
    recorder = Recorder(opt)
    run(opt, theta, 4)
    record = recorder.record()
    ratio = 0.5 * record.loss / record.grad_sqnorm
    np.testing.assert_allclose(record.gamma, np.minimum(ratio, 1.0), rtol=1e-12)


FORMATS = {
    "float64": (torch.float64, torch.float64, torch.float64),
    "float32": (torch.float32, torch.float32, torch.float32),
    "half parameters": (torch.bfloat16, torch.float32, torch.bfloat16),
    "half loss": (torch.float32, torch.float16, torch.float16),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("way", ["loss", "closure", "closure by name"])
def test_eps_is_of_the_coarsest_format(name, way):
    param, loss_dtype, expected = FORMATS[name]
    theta = start(param)
    opt = SHBPolyak([theta])
    recorder = Recorder(opt)
    theta.grad = torch.ones_like(theta)
    loss = torch.tensor(1.0, dtype=loss_dtype)
    ways = {
        "loss": lambda: opt.step(loss=loss),
        "closure": lambda: opt.step(lambda: loss),
        "closure by name": lambda: opt.step(closure=lambda: loss),
    }
    ways[way]()
    assert recorder.record().eps == torch.finfo(expected).eps


def test_eps_counts_autocast_and_what_the_user_says():
    theta = start()
    opt = SHBArmijo([theta], loss_eps=1e-3)
    recorder = Recorder(opt)
    run(opt, theta, 1)
    before = opt.info.loss
    assert recorder.record().eps == 1e-3
    opt.param_groups[0]["example_loss"] = 4 * opt.info.loss
    run(opt, theta, 1)
    assert recorder.record().eps == pytest.approx(1e-3 * (4 * before / opt.info.loss) ** 0.5)
    opt.param_groups[0]["example_loss"] = 0.0
    with torch.autocast("cpu", torch.bfloat16):
        run(opt, theta, 1)
    assert recorder.record().eps == torch.finfo(torch.bfloat16).eps


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@heavy_ball_of_a_kind
def test_rounding_alone_is_no_deviation_from_the_recursion(case, dtype):
    net, batches = make_net(dtype=dtype), make_batches(10, dtype=dtype)
    opt = case.make(net.parameters())
    recorder = Recorder(opt, iterates=True)
    with torch.no_grad():
        net[0].bias.zero_()
    for batch in batches:
        take_step(opt, net, batch, case)
    record = recorder.record()
    assert record.iterates.dtype == record.gradients.dtype == np.float64
    assert np.array_equal(record.iterates[0, -1], flat(net).double().numpy())
