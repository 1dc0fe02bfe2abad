"""A record is what happened, is no record of two methods, and costs the run nothing."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torch._dynamo.testing

from heavystep import SHB, SLS, Diminishing, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.optim import Recorder
from heavystep.optim import recorder as recorder_module
from tests.helpers.cases import OPTIMIZERS, ROWS, over
from tests.helpers.training import (
    Run,
    equal_states,
    loss_of,
    make_batches,
    make_net,
    on_gpu,
)
from tests.optim.test_no_sync import NoHostRead

both_of_the_paper = pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
every_adaptive = over([case for case in OPTIMIZERS if case.adaptive])


def quadratic(theta, k):
    """Losses of a changing batch, off-centre and anisotropic, with minimum 0."""
    weights = torch.linspace(1.0, 4.0, theta.numel(), dtype=theta.dtype) * (1.0 + 0.1 * (k % 3))
    return 0.5 * (weights * (theta - 0.3 * (k % 2) - 2.0) ** 2).sum()


def run(opt, theta, steps, first=0, **kwargs):
    for k in range(first, first + steps):
        opt.step(lambda: quadratic(theta, k), **kwargs)


def start(dtype=torch.float64):
    return torch.tensor([3.0, -1.0, 0.5], dtype=dtype, requires_grad=True)


def recorded(cls, dtype=torch.float64, iterates=False, **options):
    """Parameters, their optimizer, and what records it."""
    theta = start(dtype)
    opt = cls([theta], **options)
    return theta, opt, Recorder(opt, iterates=iterates)


@every_adaptive
def test_record_is_the_info_of_every_step_and_changes_nothing(case):
    plain, run, seen = Run(case.make), Run(case.make), []
    recorder = Recorder(run.opt, iterates=case.heavy_ball)
    for batch in make_batches(8):
        assert torch.equal(plain.step(batch), run.step(batch))
        seen.append(run.opt.info.numbers())
    assert torch.equal(plain.theta, run.theta)
    assert equal_states(plain.opt.state_dict(), run.opt.state_dict())
    record, options = recorder.record(), run.opt.param_groups[0]
    names = {"gamma": "step", "loss": "loss", "grad_sqnorm": "grad_sqnorm", "accepted": "accepted"}
    for column, name in names.items():
        assert getattr(record, column).tolist() == [[info[name] for info in seen]]
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
    np.testing.assert_array_equal(record.gamma_max, [math.inf if cap is None else cap] * 8)
    assert (record.runs, record.steps) == (1, 8)
    assert (record.iterates is None) != case.heavy_ball


@both_of_the_paper
@pytest.mark.parametrize("groups", [1, 2])
def test_recorded_iterates_obey_the_recursion_under_a_schedule(cls, groups):
    a, b = start(), start()
    opt = cls([{"params": [a]}, {"params": [b]}][:groups], scaling="plain", max_step=0.4)
    schedule = Diminishing(opt, horizon=3.0)
    # Another hook drives the schedule: options are those of the step all the same.
    opt.register_step_post_hook(lambda *_: (schedule.step(), opt.zero_grad()))
    recorder, thetas = Recorder(opt, iterates=True), [a, b][:groups]
    options, path = [], []
    for k in range(12):
        path.append(torch.cat([t.detach().clone() for t in thetas]))
        options.append([opt.param_groups[0][name] for name in ("lr", "momentum", "max_step")])
        opt.step(lambda: sum(quadratic(t, k + i) for i, t in enumerate(thetas)))
    record = recorder.record()
    assert np.array([record.eta, record.beta, record.gamma_max]).T.tolist() == options
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


@both_of_the_paper
def test_a_nan_batch_is_recorded_as_refused(cls):
    theta, opt, recorder = recorded(cls, iterates=True)
    for k in range(6):
        opt.step(lambda: quadratic(theta, k) * (math.nan if k == 3 else 1.0))
    record = recorder.record()
    assert record.accepted[0].tolist() == [k != 3 for k in range(6)]
    assert (record.gamma[0] > 0.0).tolist() == [k != 3 for k in range(6)]
    assert math.isnan(record.loss[0, 3])
    moved = (np.diff(record.iterates[0], axis=0) != 0.0).any(axis=1)
    assert moved.tolist() == [k != 3 for k in range(6)]


def test_what_changes_in_place_is_recorded_as_it_was():
    lr, bound = torch.tensor(1.0), torch.zeros(3)
    theta, opt, recorder = recorded(SHBPolyak, lr=lr)
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


@pytest.mark.parametrize(("cls", "given", "expected"), [
    (SHBPolyak, None, -0.5),
    (SHBPolyak, torch.tensor([-0.125]), -0.125),
    (SLS, None, -0.5),
    (SHBArmijo, -0.25, -0.25),
    (SHBArmijo, torch.tensor(-0.125), -0.125),
])  # fmt: skip
def test_bound_is_the_one_that_the_rule_used(cls, given, expected):
    theta, opt, recorder = recorded(cls, lower_bound=-0.5)
    run(opt, theta, 1, lower_bound=given)
    run(opt, theta, 1)
    assert recorder.record().f_star.tolist() == [[expected, -0.5]]


@both_of_the_paper
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_decay_in_the_objective_is_recorded_as_the_rule_saw_it(cls, dtype):
    theta, frozen = start(dtype), torch.ones(2, dtype=dtype)
    frozen.grad = torch.full_like(frozen, 7.0)  # left from before it was frozen
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
    assert (record.gradients[0, :, 3:] == 0.0).all()
    assert (record.iterates[0, :, 3:] == 1.0).all()


@pytest.mark.parametrize(("param", "loss_dtype", "coarsest"), [
    (torch.float64, torch.float64, torch.float64),
    (torch.bfloat16, torch.float32, torch.bfloat16),
    (torch.float32, torch.float16, torch.float16),
])  # fmt: skip
def test_eps_is_of_the_coarsest_format(param, loss_dtype, coarsest):
    theta, opt, recorder = recorded(SHBPolyak, param)
    theta.grad = torch.ones_like(theta)
    opt.step(loss=torch.tensor(1.0, dtype=torch.float64))
    opt.step(closure=lambda: torch.tensor(1.0, dtype=loss_dtype))
    assert recorder.record().eps == torch.finfo(coarsest).eps


def test_eps_counts_autocast_and_what_the_user_says():
    theta, opt, recorder = recorded(SHBArmijo, loss_eps=1e-3)
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


def test_it_comes_and_goes(monkeypatch):
    """What was recorded stays as it was, in whatever blocks."""
    records = []
    for block in (1024, 3):
        monkeypatch.setattr(recorder_module, "_BLOCK", block)
        theta, opt, recorder = recorded(SHBPolyak, iterates=True, scaling="practical")
        with recorder:
            run(opt, theta, 4)
            early = recorder.record()
            before = early.iterates.copy()
            run(opt, theta, 4, lower_bound=torch.tensor(-1.0))  # numbers and tensors in a column
        run(opt, theta, 3)
        assert not opt._optimizer_step_pre_hooks
        assert not opt._optimizer_step_post_hooks
        records.append(recorder.record())
        assert (early.steps, records[-1].steps) == (4, 8)
        assert np.array_equal(early.iterates, before)
        assert np.array_equal(records[-1].iterates[:, :5], before)
    assert records[0].f_star.tolist() == [[0.0] * 4 + [-1.0] * 4]
    for name in ("gamma", "loss", "grad_sqnorm", "f_star", "accepted", "eta", "beta"):
        assert np.array_equal(*(getattr(record, name) for record in records)), name


def test_a_step_that_raised_is_not_recorded():
    theta, opt, recorder = recorded(SHBArmijo, iterates=True, max_step=50.0)
    for scales in ([], [1.0]):  # it fails at theta, and at the first trial
        left = iter(scales)
        with pytest.raises(StopIteration):
            opt.step(lambda: next(left) * quadratic(theta, 0))
        with pytest.raises(ValueError, match=r"^nothing recorded"):
            recorder.record()
    run(opt, theta, 2)
    assert recorder.record().iterates.shape == (1, 3, 3)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda opt: pickle.loads(pickle.dumps(opt))])
def test_copies_know_nothing_of_it(copied):
    theta, opt, recorder = recorded(HeavyStep)
    run(opt, theta, 1)
    twin = copied(opt)
    run(twin, twin.param_groups[0]["params"][0], 1)
    assert twin.info.accepted
    assert recorder.record().steps == 1


def two_groups(cls=SHBPolyak, scaling="practical", **second):
    return cls([{"params": [start()]}, {"params": [start()], **second}], scaling=scaling)


BAD_OPTIMIZERS = {
    "fixed step": (lambda: SHB([start()], lr=0.1), {}, TypeError, r"chooses its step \(SHBPolyak, SHBArmijo, SPS, SLS or another\), got SHB$"),
    "foreign": (lambda: torch.optim.SGD([start()], lr=0.1), {}, TypeError, "got SGD$"),
    "lr by group": (lambda: two_groups(lr=0.5), {}, ValueError, r"lr \(eta\) must be the same in all parameter groups, got 1.0, 0.5$"),
    "decoupled decay": (lambda: SHBPolyak([start()], scaling="plain", weight_decay=0.1), {"iterates": True}, ValueError, r"iterates=True needs weight_decay 0 or decay='objective', got 0.1"),
    "iterates": (lambda: SHBPolyak([start()]), {"iterates": "yes"}, ValueError, "iterates must be one of False, True, got 'yes'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_OPTIMIZERS)
def test_what_cannot_be_recorded_is_refused(name):
    make, options, error, message = BAD_OPTIMIZERS[name]
    opt = make()
    with pytest.raises(error, match=message) as caught:
        Recorder(opt, **options)
    assert "\n" not in str(caught.value)
    assert not getattr(opt, "_optimizer_step_post_hooks", None)  # nothing stays attached


@over([case for case in ROWS if case.adaptive and not case.heavy_ball])
def test_iterates_of_another_recursion_are_refused(case):
    opt = case.make(make_net().parameters())
    unlike = "(has the momentum form '.*'|divides it by the diagonal '.*')"
    with pytest.raises(ValueError, match=f"iterates=True is for heavy ball, and .* {unlike}$"):
        Recorder(opt, iterates=True)


def set_option(name, value):
    def change(opt, thetas):
        for group in opt.param_groups:
            group[name] = value

    return change


def move(opt, thetas):
    with torch.no_grad():
        thetas[0][0] += 1e-9


def forget_momentum(opt, thetas):
    fresh = two_groups(type(opt), opt.param_groups[0]["scaling"])
    opt.load_state_dict(fresh.state_dict())


def add_group(opt, thetas):
    thetas.append(start())
    opt.add_param_group({"params": thetas[-1:]})


CHANGES = {
    "c": (SHBPolyak, False, set_option("c", 0.75), r"step 3 cannot be recorded: c changed during the run, from 1.0 to 0.75$"),
    "scaling": (SHBPolyak, False, set_option("scaling", "plain"), "scaling changed during the run, from 'practical' to 'plain'$"),
    "omega": (SHBArmijo, False, set_option("decrease_factor", 0.5), r"decrease_factor \(omega\) changed during the run, from 0.9 to 0.5$"),
    "lr of a group": (SHBPolyak, False, lambda opt, _: opt.param_groups[1].update(lr=0.5), r"step 3 .*lr \(eta\) must be the same"),
    "parameters": (SHBPolyak, True, move, r"step 3 cannot be recorded: something else than step\(\) had changed"),
    "displacements": (SHBPolyak, True, forget_momentum, "step 3 is no heavy-ball step"),
    "gradients": (SHBArmijo, True, lambda opt, thetas: thetas[1].requires_grad_(False), "step 3 is no heavy-ball step"),
    "weight decay": (SHBPolyak, True, set_option("weight_decay", 1e-6), "step 3 is no heavy-ball step"),
    "groups": (SHBPolyak, True, add_group, r"step 3 cannot be recorded: something else than step\(\) had changed"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_method_during_the_run_is_found(name):
    cls, iterates, change, message = CHANGES[name]
    opt = two_groups(cls)
    thetas = [param for group in opt.param_groups for param in group["params"]]
    recorder = Recorder(opt, iterates=iterates)
    for k in range(6):
        if k == 3:
            assert recorder.record().steps == 3
            change(opt, thetas)
        opt.step(lambda: sum(quadratic(theta, k) for theta in thetas))
    with pytest.raises(ValueError, match=message) as caught:
        recorder.record()
    assert "\n" not in str(caught.value)


def test_a_step_still_reads_nothing_on_the_host(monkeypatch):
    monkeypatch.setattr(recorder_module, "_BLOCK", 2)
    for cls, decay in ((HeavyStep, {}), (SHBPolyak, {}), (SHBPolyak, {"decay": "objective"})):
        net = make_net()
        first, *rest = net.parameters()
        groups = [{"params": [first]}, {"params": rest}]
        opt = cls(groups, lr=torch.tensor(0.5), weight_decay=0.1, **decay)
        recorder = Recorder(opt)
        for batch in make_batches(5):
            opt.zero_grad()
            loss = loss_of(net, batch)
            loss.backward()
            with NoHostRead():
                opt.step(loss=loss, lower_bound=torch.tensor(0.0))
        assert recorder.record().eta.tolist() == [0.5] * 5


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own work
def test_a_compiled_step_is_recorded():
    records = []
    counts = torch._dynamo.testing.CompileCounterWithBackend("eager")
    for compiled in (False, True):
        torch._dynamo.reset()
        theta, opt, recorder = recorded(SHBPolyak, momentum=0.5)
        step = torch.compile(opt.step, backend=counts) if compiled else opt.step
        for k in range(20):
            opt.zero_grad()
            loss = quadratic(theta, k)
            loss.backward()
            step(loss=loss)
        records.append(recorder.record())
    assert counts.frame_count <= 3  # not one for every row
    np.testing.assert_allclose(records[1].gamma, records[0].gamma, rtol=1e-12)


@on_gpu
def test_a_cuda_graph_is_found():
    theta = torch.ones(3, device="cuda", requires_grad=True)
    opt = SHBPolyak([theta])
    recorder = Recorder(opt)
    theta.grad, loss = torch.ones(3, device="cuda"), torch.tensor(1.0, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        opt.step(loss=loss)
    torch.cuda.current_stream().wait_stream(side)
    assert recorder.record().steps == 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step(loss=loss)
    graph.replay()
    with pytest.raises(ValueError, match="a CUDA graph was captured"):
        recorder.record()
