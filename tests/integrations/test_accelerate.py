"""What is particular to Accelerate; the rest is in ``test_frameworks.py``."""

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak, log_step
from tests.helpers import rounding
from tests.helpers.training import SUMMANDS, flat, loss_of, make_batches, make_net
from tests.integrations.frameworks import accelerator

pytest.importorskip("accelerate")
from accelerate.utils import DistributedType

from heavystep.integrations.accelerate import backward, step

BATCHES = make_batches(2)


def prepared(cls, **options):
    found, net = accelerator(**options), make_net()
    return found, *found.prepare(net, cls(net.parameters()))


def test_the_step_is_logged_in_one_line(tmp_path):
    found, model, opt = prepared(SHBPolyak, log_with="tensorboard", project_dir=str(tmp_path))
    found.init_trackers("run")
    backward(found, opt, loss_of(model, BATCHES[0]))
    opt.step()
    log_step(found, opt, 1)
    found.end_training()
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    written = board.EventAccumulator(str(tmp_path / "run")).Reload()
    (row,) = written.Scalars("heavystep/step")
    assert (row.step, row.value) == (1, pytest.approx(opt.optimizer.info.step))


def test_step_returns_the_loss_before_it():
    found, model, opt = prepared(SHBArmijo)
    expected = loss_of(model, BATCHES[0]).item()
    returned = step(found, opt, lambda: loss_of(model, BATCHES[0]))
    assert returned == pytest.approx(expected, rel=rounding.of_a_sum(SUMMANDS))


@pytest.mark.parametrize("cls", [SHBArmijo, SHBPolyak])
def test_a_closure_in_the_middle_of_a_gradient_is_refused(cls):
    """What an accumulate() leaves behind that was left early."""
    found, model, opt = prepared(cls)
    found.gradient_state._set_sync_gradients(False)
    before = flat(model)
    with pytest.raises(ValueError, match=rf"{cls.__name__} with a closure .* middle of an accum"):
        step(found, opt, lambda: loss_of(model, BATCHES[0]))
    assert torch.equal(flat(model), before)


def test_what_is_not_a_step_of_it_is_refused():
    sgd = torch.optim.SGD(make_net().parameters(), lr=0.1)
    with pytest.raises(TypeError, match="step is for optimizers of heavystep, got SGD"):
        step(accelerator(), sgd, lambda: 0.0)
    found, model, opt = prepared(SHBArmijo)
    with pytest.raises(TypeError, match=r"needs step\(closure\); SHBPolyak works with"):
        backward(found, opt, loss_of(model, BATCHES[0]))
    found, model, opt = prepared(SHBPolyak)
    found.backward(loss_of(model, BATCHES[0]))
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.integrations"):
        opt.step()


@pytest.mark.parametrize("kind", ["DEEPSPEED", "MEGATRON_LM", "FSDP"])
def test_shards_out_of_sight_are_refused(kind, monkeypatch):
    found, opt = accelerator(), SHBPolyak(make_net().parameters())
    monkeypatch.setattr(type(found), "distributed_type", DistributedType[kind])
    for call in (backward, step):
        with pytest.raises(ValueError, match=f"{kind} keeps shards .* fsdp_version=2"):
            call(found, opt, torch.tensor(1.0))
