"""A recorder reads nothing on the host; compiled and captured steps."""

import numpy as np
import pytest
import torch
import torch._dynamo.testing

from heavystep import SPS, HeavyStep, SHBArmijo, SHBPolyak
from heavystep.optim import Recorder
from heavystep.optim import recorder as recorder_module
from tests.helpers.recorded import quadratic, start
from tests.helpers.training import flat, loss_of, make_batches, make_net
from tests.optim.test_no_sync import NoHostRead

READS = ("item", "tolist", "numpy", "cpu", "__bool__", "__float__", "__int__", "__index__")
SYNC_FREE = {
    "SHBPolyak": (SHBPolyak, {"weight_decay": 0.1}),
    "objective": (SHBPolyak, {"weight_decay": 0.1, "decay": "objective"}),
    "practical": (SHBPolyak, {"weight_decay": 0.1, "scaling": "practical"}),
    "HeavyStep": (HeavyStep, {"weight_decay": 0.1}),
    "SPS": (SPS, {"steps_per_epoch": 10}),
}


def guarded_steps(opt, net, batches, monkeypatch, **kwargs):
    for batch in batches:
        opt.zero_grad()
        loss = loss_of(net, batch)
        loss.backward()
        with monkeypatch.context() as patched, NoHostRead():
            for method in READS:

                def refuse(*args, method=method, **kwargs):
                    raise AssertionError(f"the step called Tensor.{method}")

                patched.setattr(torch.Tensor, method, refuse)
            opt.step(loss=loss, **kwargs)


@pytest.mark.parametrize("name", SYNC_FREE)
def test_a_polyak_step_still_reads_nothing_on_the_host(name, monkeypatch):
    monkeypatch.setattr(recorder_module, "_BLOCK", 2)
    net, batches = make_net(), make_batches(5)
    cls, options = SYNC_FREE[name]
    lr = torch.tensor(0.5)
    first, *rest = net.parameters()
    opt = cls([{"params": [first]}, {"params": rest}], lr=lr, **options)
    recorder = Recorder(opt)
    guarded_steps(opt, net, batches, monkeypatch, lower_bound=torch.tensor(0.0))
    assert recorder.record().steps == 5
    assert recorder.record().eta.tolist() == [0.5] * 5


def test_the_guard_above_sees_a_read(monkeypatch):
    net, batches = make_net(), make_batches(1)
    opt = SHBPolyak(net.parameters())
    opt.register_step_post_hook(lambda *_: opt.info.step.item())
    with pytest.raises(AssertionError, match=r"called Tensor\.item"):
        guarded_steps(opt, net, batches, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # the compiler warns about its own work
def test_a_compiled_step_is_recorded():
    records = []
    counts = torch._dynamo.testing.CompileCounterWithBackend("eager")
    for compiled in (False, True):
        torch._dynamo.reset()
        theta = start()
        opt = SHBPolyak([theta], momentum=0.5)
        recorder = Recorder(opt)
        step = torch.compile(opt.step, backend=counts) if compiled else opt.step
        for k in range(20):
            opt.zero_grad()
            loss = quadratic(theta, k)
            loss.backward()
            step(loss=loss)
        records.append(recorder.record())
    assert counts.frame_count <= 3  # not one for every row
    assert records[1].steps == 20
    np.testing.assert_allclose(records[1].gamma, records[0].gamma, rtol=1e-12)


on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


@pytest.mark.gpu
@on_gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_synchronisation_on_a_gpu(monkeypatch):
    monkeypatch.setattr(recorder_module, "_BLOCK", 3)
    net, lr = make_net().cuda(), torch.tensor(0.5, device="cuda")
    opt, bound = SHBPolyak(net.parameters(), lr=lr), torch.tensor(0.0, device="cuda")
    recorder, seen = Recorder(opt), []
    for x, y in make_batches(8):
        opt.zero_grad()
        loss = loss_of(net, (x.cuda(), y.cuda()))
        loss.backward()
        torch.cuda.set_sync_debug_mode("error")
        try:
            opt.step(loss=loss, lower_bound=bound)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        seen.append(opt.info.numbers())
    record = recorder.record()
    assert record.gamma[0].tolist() == [info["step"] for info in seen]
    assert record.loss[0].tolist() == [info["loss"] for info in seen]
    assert record.eta.tolist() == [0.5] * 8


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
def test_iterates_on_a_gpu(cls):
    net = make_net().cuda()
    opt = cls(net.parameters(), scaling="practical")
    recorder = Recorder(opt, iterates=True)
    for x, y in make_batches(8):
        opt.step(lambda: loss_of(net, (x.cuda(), y.cuda())))
    assert np.array_equal(recorder.record().iterates[0, -1], flat(net).cpu().double().numpy())


@pytest.mark.gpu
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
