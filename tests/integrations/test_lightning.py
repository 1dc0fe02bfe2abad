"""Lightning trains as the literal loop does, and what cannot be right is refused."""

import inspect
from functools import partial

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
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
from tests.helpers.training import flat, loss_of, make_batches, make_net

L = pytest.importorskip("lightning.pytorch")
from lightning.pytorch.callbacks import (  # noqa: E402
    GradientAccumulationScheduler,
    StochasticWeightAveraging,
)
from lightning.pytorch.plugins import MixedPrecision  # noqa: E402

from heavystep.integrations.lightning import HandOverLoss  # noqa: E402

pytestmark = [
    # The data are small on purpose.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    # Lightning 2.6 asks torch in the way of an older release.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),
]
CLOSURES = {False: polyak, True: armijo}
"""By whether a closure is needed."""


class Module(L.LightningModule):
    def __init__(self, make, dtype=torch.float64, seed=0):
        super().__init__()
        self.net = make_net(seed, dtype)
        self.make = make

    def training_step(self, batch):
        return loss_of(self.net, batch)

    def configure_optimizers(self):
        return self.make(self.net.parameters())


class Manual(Module):
    """Calls everything itself, as GANs do."""

    automatic_optimization = False

    def training_step(self, batch):
        opt = self.optimizers()
        opt.zero_grad()
        loss = loss_of(self.net, batch)
        opt.hand_over(loss)
        self.manual_backward(loss)
        opt.step()


def trainer(epochs=1, callbacks=None, **options):
    return L.Trainer(
        max_epochs=epochs,
        callbacks=[HandOverLoss()] if callbacks is None else callbacks,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


def loader(batches):
    return torch.utils.data.DataLoader(batches, batch_size=None)


def fit(module, batches, ckpt_path=None, **options):
    """The trainer, when it is done; and the module's parameters."""
    found = trainer(**options)
    found.fit(module, loader(batches), ckpt_path=ckpt_path)
    return found, flat(module.net)


@every_optimizer
@pytest.mark.parametrize("callbacks", [None, []], ids=["", "without the callback"])
def test_fit_is_the_literal_loop(case, callbacks):
    batches, net = make_batches(6, dtype=torch.float64), make_net(dtype=torch.float64)
    opt = case.make(net.parameters())
    for _ in range(2):
        by_hand(net, opt, batches, closure=case.needs_closure)
    _, found = fit(Module(case.make), batches, epochs=2, callbacks=callbacks)
    torch.testing.assert_close(found, flat(net), rtol=0.0, atol=1e-12)
    if not case.needs_closure:
        assert_below_caps(opt)


@without_closure
def test_accumulated_batches_are_one_batch(case):
    """Also at the end of an epoch, where Lightning steps with fewer, divided by as many."""
    batches, net = make_batches(8, dtype=torch.float64), make_net(dtype=torch.float64)
    opt = case.make(net.parameters())
    for _ in range(2):
        by_hand(net, opt, batches, micro_batches=3, divisor=3)
    done, found = fit(Module(case.make), batches, epochs=2, accumulate_grad_batches=3)
    assert done.global_step == 6
    torch.testing.assert_close(found, flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


@pytest.mark.parametrize("closure", CLOSURES)
def test_clipped_gradients_are_direction_and_norm(closure):
    batches, net = make_batches(6, dtype=torch.float64), make_net(dtype=torch.float64)
    opt = CLOSURES[closure](net.parameters())
    by_hand(net, opt, batches, closure=closure, clip=0.05)
    _, found = fit(Module(CLOSURES[closure]), batches, gradient_clip_val=0.05)
    torch.testing.assert_close(found, flat(net), rtol=0.0, atol=1e-12)
    if not closure:
        assert_below_caps(opt)


@pytest.mark.parametrize("closure", CLOSURES)
def test_bfloat16(closure):
    batches, net = make_batches(12), make_net()
    eps = {"loss_eps": torch.finfo(torch.bfloat16).eps} if closure else {}
    opt = CLOSURES[closure](net.parameters(), **eps)
    begin = sum(loss_of(net, batch) for batch in batches).item()
    for _ in range(5):
        by_hand(net, opt, batches, closure=closure, context=bf16)
    done, found = fit(
        Module(CLOSURES[closure], torch.float32), batches, epochs=5, precision="bf16-mixed"
    )
    assert torch.equal(found, flat(net))  # the same operations in the same order
    assert sum(loss_of(net, batch) for batch in batches).item() < 0.9 * begin
    group = done.optimizers[0].param_groups[0]
    assert group.get("loss_eps") == (2**-7 if closure else None)
    if not closure:
        assert_below_caps(opt)


def test_a_tolerance_of_the_user_stays():
    make = partial(SHBArmijo, loss_eps=2**-8)
    done, _ = fit(Module(make, torch.float32), make_batches(1), precision="bf16-mixed")
    assert done.optimizers[0].param_groups[0]["loss_eps"] == 2**-8
    done, _ = fit(Module(SHBArmijo, torch.float32), make_batches(1))
    assert done.optimizers[0].param_groups[0]["loss_eps"] is None


@pytest.mark.filterwarnings("ignore:the gradient has norm")  # it is clipped
@pytest.mark.parametrize("scale", [2.0**10, 2.0**40])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_a_grad_scaler_is_invisible(scale, micro_batches):
    """The larger scale overflows at first: steps are skipped, and so are their losses."""
    batches, net = make_batches(40), make_net()
    options = {"device": "cpu", "init_scale": scale, "backoff_factor": 2.0**-8}
    opt = polyak(net.parameters())
    by_hand(
        net, opt, batches, micro_batches=micro_batches, divisor=micro_batches,
        context=fp16, scaler=torch.amp.GradScaler(**options), clip=0.5,
    )  # fmt: skip
    plugin = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler(**options))
    _, found = fit(
        Module(polyak, torch.float32), batches, plugins=[plugin],
        accumulate_grad_batches=micro_batches, gradient_clip_val=0.5,
    )  # fmt: skip
    assert torch.equal(found, flat(net))  # the same operations in the same order
    assert (plugin.scaler.get_scale() < scale) == (scale == 2.0**40)
    assert_below_caps(opt)


@pytest.mark.parametrize(
    ("cls", "options"),
    [(SHBPolyak, {"accumulate_grad_batches": 2}), (SHBArmijo, {"precision": "bf16-mixed"})],
)
def test_a_resumed_fit_is_the_uninterrupted_one(cls, options, tmp_path):
    batches, make = make_batches(6), partial(cls, weight_decay=0.01)
    _, whole = fit(Module(make, torch.float32), batches, epochs=4, **options)
    done, _ = fit(Module(make, torch.float32), batches, epochs=2, **options)
    done.save_checkpoint(tmp_path / "half.ckpt")
    fresh = Module(partial(cls, c=0.9), torch.float32, seed=5)
    found, resumed = fit(fresh, batches, tmp_path / "half.ckpt", epochs=4, **options)
    assert found.global_step == 2 * done.global_step
    assert torch.equal(resumed, whole)


def test_manual_optimization_hands_over_itself():
    batches, net = make_batches(6, dtype=torch.float64), make_net(dtype=torch.float64)
    opt = polyak(net.parameters())
    by_hand(net, opt, batches)
    _, found = fit(Manual(polyak), batches)
    torch.testing.assert_close(found, flat(net), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)


@every_optimizer
def test_what_a_step_did_is_logged(case):
    batches = make_batches(3, dtype=torch.float64)
    done, _ = fit(Module(case.make), batches, callbacks=[HandOverLoss(log=True)])
    info = done.optimizers[0].info.numbers()
    for name in ("step", "base_step", "loss", "grad_sqnorm", "trials", "accepted", "capped"):
        assert float(done.logged_metrics[f"heavystep/{name}"]) == pytest.approx(float(info[name]))


def test_other_optimizers_are_left_alone():
    def sgd(params):
        return torch.optim.SGD(params, lr=0.1)

    done, _ = fit(Module(sgd), make_batches(3, dtype=torch.float64), accumulate_grad_batches=2)
    assert done.global_step == 2


def scaled():
    return {"plugins": [MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))]}


REFUSED = {
    "accumulation": ({"accumulate_grad_batches": 3}, "needs accumulate_grad_batches=1, got 3"),
    "from the second epoch on": (
        {"callbacks": [HandOverLoss(), GradientAccumulationScheduler({1: 2})], "epochs": 2},
        "needs accumulate_grad_batches=1, got 2: .* use SHBPolyak",
    ),
    "scaler": (scaled(), "needs a closure, which a GradScaler does not take: use precision="),
}


@pytest.mark.parametrize("name", REFUSED)
def test_line_searches_are_refused_where_they_cannot_be_right(name):
    options, message = REFUSED[name]
    module = Module(SHBArmijo, torch.float32)
    before = flat(module.net)
    with pytest.raises(ValueError, match=message):
        fit(module, make_batches(3), **options)
    if options.get("epochs") is None:
        assert torch.equal(flat(module.net), before)


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("strategy", ["FSDPStrategy", "DeepSpeedStrategy"])
def test_strategies_that_hide_gradients_are_refused(strategy, package, monkeypatch):
    """Lightning is published under two names, each with classes of its own."""
    cls = getattr(pytest.importorskip(package).strategies, strategy)
    found = trainer()
    monkeypatch.setattr(found.strategy, "__class__", cls)
    found.strategy._optimizers = [SHBPolyak(make_net().parameters())]
    with pytest.raises(ValueError, match=f"{strategy} keeps shards that heavystep cannot see"):
        HandOverLoss().on_train_start(found, None)


class Normed(Module):
    def __init__(self, make, dtype=torch.float64, seed=0):
        super().__init__(make, dtype, seed)
        self.net = make_net(seed, dtype, norm=True)

    def configure_optimizers(self):
        takes = "buffers" in inspect.signature(self.make).parameters
        buffers = {"buffers": self.net.buffers} if takes else {}
        return self.make(self.net.parameters(), **buffers)


@pytest.mark.parametrize("make", [SHBPolyak, SHBArmijo])
def test_weight_averaging_may_pass_batches_for_their_statistics(make):
    """Its last epoch looks at all batches, as if they were accumulated, and takes no step.

    Lightning calls ``step()`` after it all the same.
    """
    module, averaging = Normed(make), StochasticWeightAveraging(1.0, swa_epoch_start=1)
    batches = make_batches(5, dtype=torch.float64)
    with pytest.warns(RuntimeWarning, match="nothing was updated"):
        _, found = fit(module, batches, epochs=3, callbacks=[HandOverLoss(), averaging])
    assert torch.equal(found, flat(averaging._average_model.net))
    statistics = [buffer for name, buffer in module.net.named_buffers() if "mean" in name]
    assert statistics
    torch.testing.assert_close(statistics[0], mean_input(module.net, batches))


def mean_input(net, batches):
    """What the first norm sees, on average."""
    return torch.stack([net[0](x).mean(dim=0) for x, _ in batches]).mean(dim=0).detach()


def test_two_callbacks_are_refused():
    with pytest.raises(ValueError, match="one HandOverLoss is enough"):
        fit(Module(SHBPolyak), make_batches(1), callbacks=[HandOverLoss(), HandOverLoss(log=True)])


def test_accumulation_without_the_callback_is_not_silent():
    with pytest.warns(RuntimeWarning, match=r"added to gradients that were there"):
        fit(
            Module(SHBPolyak), make_batches(4, dtype=torch.float64), callbacks=[],
            accumulate_grad_batches=2,
        )  # fmt: skip


def test_accumulation_in_a_search_without_the_callback_is_an_error():
    with pytest.raises(ValueError, match=r"added to gradients .* callbacks=\[HandOverLoss\(\)\]"):
        fit(
            Module(SHBArmijo, torch.float32),
            make_batches(4),
            callbacks=[],
            accumulate_grad_batches=2,
        )


def test_a_scaler_without_the_callback_is_an_error():
    with pytest.raises(ValueError, match=r"needs the loss: .*heavystep\.integrations"):
        fit(Module(SHBPolyak, torch.float32), make_batches(2), callbacks=[], **scaled())
