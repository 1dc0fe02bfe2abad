"""A method without a search never waits for the device; on a GPU its step can be a CUDA graph."""

import warnings
from contextlib import contextmanager, nullcontext
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from heavystep import SHB, SPS, SHBArmijo, SHBPolyak
from tests.helpers.cases import ROWS
from tests.helpers.training import (
    Run,
    flat,
    loss_of,
    make_batches,
    make_net,
    on_gpu,
)

MAKERS = {
    "SHB decay": lambda p: SHB(p, lr=0.1, weight_decay=0.1),
    "SHBPolyak decay": lambda p: SHBPolyak(p, weight_decay=0.1),
    "SHBPolyak objective": lambda p: SHBPolyak(p, weight_decay=0.1, decay="objective"),
    "SHBPolyak with a tensor lr": lambda p: SHBPolyak(p, lr=torch.tensor(0.5)),
    "SPS reset": lambda p: SPS(p, c=0.5, steps_per_epoch=10),
    **{case.id: case.make for case in ROWS if not case.needs_closure},
}
every_maker = pytest.mark.parametrize("name", MAKERS)


class NoHostRead(TorchDispatchMode):
    """Refuses the operation behind every way of reading a tensor's value.

    Within it an optimizer takes the CPU for a device whose numbers are not there yet.
    """

    def __enter__(self):
        places = ("measure", "optimizer", "update")
        names = [f"heavystep.optim.{place}.reads_for_free" for place in places]
        self._far = [mock.patch(name, return_value=False) for name in names]
        for patch in self._far:
            patch.start()
        return super().__enter__()

    def __exit__(self, *exception):
        for patch in self._far:
            patch.stop()
        return super().__exit__(*exception)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten._local_scalar_dense.default:
            raise AssertionError("the step read a tensor on the host")
        return func(*args, **(kwargs or {}))


@every_maker
@pytest.mark.parametrize("handed_over", [False, True])
def test_step_reads_nothing_on_the_host(name, handed_over):
    net, bound = make_net(), torch.tensor(0.0)
    opt = MAKERS[name](net.parameters())
    told = {"lower_bound": bound} if "lower_bound" in opt.method.rule.reads else {}
    for batch in make_batches(3):
        opt.zero_grad()
        loss = loss_of(net, batch)
        loss.backward()
        with NoHostRead():
            if handed_over:
                opt.hand_over(loss)
            opt.step(**told, **({} if handed_over else {"loss": loss}))
    assert opt.info.accepted


@every_maker
def test_a_step_decided_on_the_host_is_that_of_the_device(name):
    """Where reading is free, the formulas run on numbers; only roundings may differ.

    A batch that is refused changes nothing, here and there.
    """
    runs = [Run(MAKERS[name], {"dtype": torch.float64}) for _ in range(2)]
    for k, batch in enumerate(make_batches(30, dtype=torch.float64)):
        for run, guard in zip(runs, (nullcontext(), NoHostRead()), strict=True):
            run.opt.zero_grad()
            loss = loss_of(run.net, batch) * (torch.nan if k == 7 else 1.0)
            loss.backward()
            with guard:
                run.opt.step(loss=loss)
    torch.testing.assert_close(runs[0].theta, runs[1].theta, rtol=1e-9, atol=1e-12)
    for field in ("step", "accepted", "capped"):
        one, other = (getattr(run.opt.info, field) for run in runs)
        assert float(one) == pytest.approx(float(other), rel=1e-9)


@pytest.mark.parametrize("guard", [nullcontext, NoHostRead])
def test_a_step_beyond_the_format_of_the_parameters_is_its_largest_number(guard):
    """A number of the host could hold it, a tensor cannot."""
    theta = torch.ones(2, requires_grad=True)
    opt = SHBPolyak([theta], scaling="plain", max_step=1e300)
    theta.grad = torch.full((2,), 1e-18)
    with guard():
        opt.step(loss=torch.tensor(1e5))
    largest = torch.finfo(torch.float32).max
    assert opt.info.base_step == opt.param_groups[0]["last_step"] == largest


def test_the_guard_above_sees_a_line_search():
    net, batch = make_net(), make_batches(1)[0]
    opt = SHBArmijo(net.parameters())
    with pytest.raises(AssertionError, match="read a tensor on the host"), NoHostRead():
        opt.step(lambda: loss_of(net, batch))


@contextmanager
def no_synchronisation():
    """torch refuses every operation that waits for the GPU, and warns that it will."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")


@on_gpu
@every_maker
def test_no_synchronisation_on_a_gpu(name):
    net, (x, y) = make_net().cuda(), make_batches(1)[0]
    opt, batch = MAKERS[name](net.parameters()), (x.cuda(), y.cuda())
    for _ in range(4):
        opt.zero_grad()
        loss = loss_of(net, batch)
        loss.backward()
        with no_synchronisation():
            opt.step(loss=loss)
    assert bool(opt.info.accepted)
    with pytest.raises(RuntimeError, match="synchronizing"), no_synchronisation():
        batch[0].sum().item()


@on_gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("decay", ["decoupled", "objective"])
def test_gpu_and_cpu_agree(dtype, decay):
    batches = make_batches(6, dtype=dtype)
    paper = {"scaling": "practical", "steps_per_epoch": 5}
    choices = ((SHBPolyak, {}), (SHBPolyak, paper), (SHBArmijo, paper), (SHB, {"lr": 0.1}))
    for cls, options in choices:
        runs = []
        for device in ("cpu", "cuda"):
            net = make_net(dtype=dtype).to(device)
            opt = cls(net.parameters(), weight_decay=0.1, decay=decay, **options)
            for x, y in batches[: 1 if dtype == torch.bfloat16 else 6]:
                batch = (x.to(device), y.to(device))
                opt.step(lambda: loss_of(net, batch))
            assert bool(opt.info.accepted)
            runs.append(flat(net).cpu())
        tolerance = {torch.float64: 1e-11, torch.float32: 1e-3, torch.bfloat16: 3e-2}[dtype]
        for run in runs[1:]:
            torch.testing.assert_close(runs[0], run, rtol=tolerance, atol=tolerance)


@on_gpu
def test_random_streams_of_cpu_and_gpu_advance_once():
    net = make_net(dropout=0.5).cuda()
    x, y = (t.cuda() for t in make_batches(1)[0])

    def forward():
        noise = torch.rand(1).item() * 0.0  # uses the CPU stream too
        return loss_of(net, (x, y)) + noise

    opt = SHBArmijo(net.parameters(), scaling="practical", max_step=100.0)
    torch.manual_seed(3)
    forward()
    expected = torch.get_rng_state(), torch.cuda.get_rng_state()
    torch.manual_seed(3)
    opt.step(forward)
    assert opt.info.trials > 1
    assert torch.equal(torch.get_rng_state(), expected[0])
    assert torch.equal(torch.cuda.get_rng_state(), expected[1])
