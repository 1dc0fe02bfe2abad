"""Accelerate trains as the literal loop does, and what cannot be right is refused."""

from contextlib import nullcontext

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak, log_step
from tests.helpers import rounding
from tests.helpers.by_hand import (
    armijo,
    assert_below_caps,
    bf16,
    by_hand,
    every_optimizer,
    fp16,
    polyak,
    without_closure,
)
from tests.helpers.training import (
    SUMMANDS,
    assert_equal_but_for_rounding,
    flat,
    loss_of,
    make_batches,
    make_net,
)

accelerate = pytest.importorskip("accelerate")
from accelerate.state import AcceleratorState, GradientState, PartialState  # noqa: E402
from accelerate.utils import DistributedType  # noqa: E402

from heavystep.integrations.accelerate import backward, step  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_state():
    """One process has one accelerator's state, whatever another test asked for."""
    yield
    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()


def accelerator(**options):
    return accelerate.Accelerator(cpu=True, **options)


def loader(batches):
    return torch.utils.data.DataLoader(batches, batch_size=None)


def prepared(found, net, make, batches, **options):
    return found.prepare(net, make(net.parameters(), **options), loader(batches))


def train(found, model, opt, batches, clip=None, context=nullcontext):
    """The loop of Accelerate's own documentation, with one word changed."""
    for batch in batches:
        with found.accumulate(model):
            with context():
                loss = loss_of(model, batch)
            backward(found, opt, loss)
            if found.sync_gradients and clip is not None:
                found.clip_grad_norm_(model.parameters(), clip)
            opt.step()
            opt.zero_grad()


def search(found, model, opt, batches):
    return [step(found, opt, lambda: loss_of(model, batch)) for batch in batches]


@every_optimizer
def test_training_is_the_literal_loop(case):
    batches, nets = make_batches(8), [make_net(), make_net()]
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, batches, closure=case.needs_closure)
    found = accelerator()
    run = search if case.needs_closure else train
    run(found, *prepared(found, nets[1], case.make, batches))
    assert_equal_but_for_rounding(*nets, steps=len(batches))
    if not case.needs_closure:
        assert_below_caps(opt)


@without_closure
def test_accumulated_batches_are_one_batch(case):
    """Also at the end of the data, where Accelerate steps with fewer, divided by as many."""
    batches = make_batches(8, dtype=torch.float64)
    nets = [make_net(dtype=torch.float64) for _ in range(2)]
    opt = case.make(nets[0].parameters())
    found = accelerator(gradient_accumulation_steps=3)
    model, wrapped, data = prepared(found, nets[1], case.make, batches)
    for _ in range(2):
        by_hand(nets[0], opt, batches, micro_batches=3, divisor=3, clip=0.5)
        train(found, model, wrapped, data, clip=0.5)
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


@pytest.mark.parametrize("closure", [False, True])
def test_bfloat16(closure):
    batches, nets = make_batches(12), [make_net(), make_net()]
    begin = sum(loss_of(nets[0], batch) for batch in batches).item()
    make, run = (armijo, search) if closure else (polyak, train)
    eps = {"loss_eps": torch.finfo(torch.bfloat16).eps} if closure else {}
    opt = make(nets[0].parameters(), **eps)
    found = accelerator(mixed_precision="bf16")
    model, wrapped, data = prepared(found, nets[1], make, batches)
    for _ in range(5):
        by_hand(nets[0], opt, batches, closure=closure, context=bf16)
        run(found, model, wrapped, data)
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the same operations in the same order
    assert sum(loss_of(nets[1], batch) for batch in batches).item() < 0.9 * begin
    assert wrapped.param_groups[0].get("loss_eps") == (2**-7 if closure else None)
    if not closure:
        assert_below_caps(opt)


def test_a_tolerance_of_the_user_stays():
    batches, net, found = make_batches(1), make_net(), accelerator(mixed_precision="bf16")
    model, opt, data = prepared(found, net, SHBArmijo, batches, loss_eps=2**-8)
    search(found, model, opt, data)
    assert opt.param_groups[0]["loss_eps"] == 2**-8


@pytest.mark.filterwarnings("ignore:the gradient has norm")  # it is clipped
@pytest.mark.parametrize("scale", [2.0**10, 2.0**40])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_grad_scaler_is_invisible(scale, micro_batches):
    """The larger scale overflows at first: steps are skipped, and so are their losses."""
    batches, nets = make_batches(40), [make_net(), make_net()]
    options = {"device": "cpu", "init_scale": scale, "backoff_factor": 2.0**-8}
    opt = polyak(nets[0].parameters())
    by_hand(
        nets[0], opt, batches, micro_batches=micro_batches,
        divisor=micro_batches, scaler=torch.amp.GradScaler(**options), clip=0.5, context=fp16,
    )  # fmt: skip
    found = accelerator(gradient_accumulation_steps=micro_batches)
    # On a CPU Accelerate offers no float16, but works with a scaler that is there.
    found.scaler = torch.amp.GradScaler(**options)
    model, wrapped, data = prepared(found, nets[1], polyak, batches)
    found.native_amp = True
    found.state._mixed_precision = "fp16"  # so that clipping unscales
    train(found, model, wrapped, data, clip=0.5, context=fp16)
    assert torch.equal(flat(nets[1]), flat(nets[0]))  # the same operations in the same order
    assert (found.scaler.get_scale() < scale) == (scale == 2.0**40)
    assert_below_caps(opt)


@pytest.mark.parametrize("closure", [False, True])
def test_a_resumed_run_is_the_uninterrupted_one(closure, tmp_path):
    batches, run = make_batches(8), search if closure else train
    make = SHBArmijo if closure else SHBPolyak
    found, net = accelerator(), make_net()
    model, opt, _ = prepared(found, net, make, batches, weight_decay=0.01)
    run(found, model, opt, batches[:4])
    found.save_state(str(tmp_path))
    run(found, model, opt, batches[4:])

    again, other = accelerator(), make_net(seed=5)
    model, opt, _ = prepared(again, other, make, batches, c=0.9)
    again.load_state(str(tmp_path))
    run(again, model, opt, batches[4:])
    assert torch.equal(flat(other), flat(net))


def test_the_step_is_logged_in_one_line(tmp_path):
    found, net = accelerator(log_with="tensorboard", project_dir=str(tmp_path)), make_net()
    found.init_trackers("run")
    model, opt, _ = prepared(found, net, SHBPolyak, batches := make_batches(1))
    train(found, model, opt, batches)
    log_step(found, opt, 1)
    found.end_training()
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    written = board.EventAccumulator(str(tmp_path / "run")).Reload()
    (row,) = written.Scalars("heavystep/step")
    assert (row.step, row.value) == (1, pytest.approx(opt.optimizer.info.step))


def test_step_returns_the_loss_before_it():
    batches, net, found = make_batches(3), make_net(), accelerator()
    model, opt, data = prepared(found, net, SHBArmijo, batches)
    expected = loss_of(net, batches[0]).item()
    assert search(found, model, opt, data)[0] == pytest.approx(
        expected, rel=rounding.of_a_sum(SUMMANDS)
    )


def test_other_optimizers_take_their_gradients_alone():
    batches, nets = make_batches(4), [make_net(), make_net()]
    for batch in batches:
        nets[0].zero_grad()
        loss_of(nets[0], batch).backward()
        with torch.no_grad():
            for param in nets[0].parameters():
                param -= 0.1 * param.grad
    found = accelerator()
    train(found, *prepared(found, nets[1], torch.optim.SGD, batches, lr=0.1))
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]))
    with pytest.raises(TypeError, match="step is for optimizers of heavystep, got SGD"):
        step(found, torch.optim.SGD(nets[1].parameters(), lr=0.1), lambda: 0.0)


def refused_accumulation():
    return accelerator(gradient_accumulation_steps=4), "gradient_accumulation_steps=1, got 4: .*"


def refused_scaler():
    found = accelerator()
    found.scaler = torch.amp.GradScaler("cpu")
    return found, "does not go with a GradScaler: use mixed_precision='bf16'"


def refused_in_the_middle():
    """What an accumulate() leaves behind that was left early."""
    found = accelerator()
    found.gradient_state._set_sync_gradients(False)
    return found, "in the middle of an accumulated gradient"


@pytest.mark.parametrize("refused", [refused_accumulation, refused_scaler, refused_in_the_middle])
@pytest.mark.parametrize("cls", [SHBArmijo, SHBPolyak])
def test_closures_are_refused_where_they_cannot_be_right(cls, refused):
    found, message = refused()
    net, batches = make_net(), make_batches(2)
    model, opt, data = prepared(found, net, cls, batches)
    before = flat(net)
    with pytest.raises(ValueError, match=rf"{cls.__name__} with a closure .*{message}"):
        search(found, model, opt, data)
    assert torch.equal(flat(net), before)


def test_a_line_search_needs_step():
    found, net, batches = accelerator(), make_net(), make_batches(1)
    with pytest.raises(TypeError, match=r"needs step\(closure\); SHBPolyak works with"):
        train(found, *prepared(found, net, SHBArmijo, batches))


def test_backward_of_the_accelerator_alone_is_an_error():
    found, batches = accelerator(), make_batches(1)
    model, opt, _ = prepared(found, make_net(), SHBPolyak, batches)
    found.backward(loss_of(model, batches[0]))
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.integrations"):
        opt.step()


@pytest.mark.parametrize("kind", ["DEEPSPEED", "MEGATRON_LM", "FSDP"])
def test_shards_out_of_sight_are_refused(kind, monkeypatch):
    found = accelerator()
    opt = SHBPolyak(make_net().parameters())
    monkeypatch.setattr(type(found), "distributed_type", DistributedType[kind])
    for call in (backward, step):
        with pytest.raises(ValueError, match=f"{kind} keeps shards .* fsdp_version=2"):
            call(found, opt, torch.tensor(1.0))
