"""What is particular to Lightning; the rest is in ``test_frameworks.py``."""

import pytest
import torch

from heavystep import SHBArmijo, SHBPolyak
from tests.helpers.by_hand import assert_below_caps, by_hand, every_optimizer
from tests.helpers.training import flat, loss_of, make_batches, make_net
from tests.integrations.frameworks import lightning, lightning_module, lightning_trainer, loader

pytest.importorskip("lightning.pytorch")
from lightning.pytorch.callbacks import (
    StochasticWeightAveraging,
)

from heavystep.integrations.lightning import HandOverLoss

pytestmark = [
    # The data are small on purpose.
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    # Lightning 2.6 asks torch in the way of an older release.
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),
]
BATCHES = make_batches(6, dtype=torch.float64)


def net64(**options):
    return make_net(dtype=torch.float64, **options)


@every_optimizer
def test_without_accumulation_the_callback_is_not_needed(case):
    """Lightning's own closure is enough; and with the callback the step can be logged."""
    nets = [net64(), net64()]
    opt = case.make(nets[0].parameters())
    by_hand(nets[0], opt, BATCHES, closure=case.needs_closure)
    lightning(nets[1], case.make, BATCHES, callbacks=[])
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=1e-12)
    found = lightning_trainer(max_epochs=1, callbacks=[HandOverLoss(log=True)])
    found.fit(lightning_module(net64(), case.make), loader(BATCHES))
    info, logged = found.optimizers[0].info.numbers(), found.logged_metrics
    for name in ("step", "base_step", "loss", "grad_sqnorm", "trials", "accepted", "capped"):
        assert float(logged[f"heavystep/{name}"]) == pytest.approx(float(info[name]))


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
@pytest.mark.parametrize("strategy", ["FSDPStrategy", "DeepSpeedStrategy"])
def test_strategies_that_hide_gradients_are_refused(strategy, package, monkeypatch):
    """Lightning is published under two names, each with classes of its own."""
    cls = getattr(pytest.importorskip(package).strategies, strategy)
    found = lightning_trainer()
    monkeypatch.setattr(found.strategy, "__class__", cls)
    found.strategy._optimizers = [SHBPolyak(make_net().parameters())]
    with pytest.raises(ValueError, match=f"{strategy} keeps shards that heavystep cannot see"):
        HandOverLoss().on_train_start(found, None)


@pytest.mark.parametrize("cls", [SHBPolyak, SHBArmijo])
def test_weight_averaging_may_pass_batches_for_their_statistics(cls):
    """Its last epoch looks at all batches, as if they were accumulated, and takes no step.

    Lightning calls ``step()`` after it all the same.
    """
    net, averaging = net64(norm=True), StochasticWeightAveraging(1.0, swa_epoch_start=1)
    options = {"buffers": net.buffers} if cls.method.rule.searches else {}
    with pytest.warns(RuntimeWarning, match="nothing was updated"):
        lightning(
            net, lambda params: cls(params, **options), BATCHES, epochs=3,
            callbacks=[HandOverLoss(), averaging],
        )  # fmt: skip
    assert torch.equal(flat(net), flat(averaging._average_model.net))
    seen = torch.stack([net[0](x).mean(dim=0) for x, _ in BATCHES]).mean(dim=0).detach()
    torch.testing.assert_close(net[1].running_mean, seen)


SCALED = {"scaler": torch.amp.GradScaler("cpu")}
MISTAKES = {
    "two callbacks": (SHBPolyak, {"callbacks": [HandOverLoss(), HandOverLoss(log=True)]}, "one Han"),
    "accumulation": (SHBArmijo, {"micro_batches": 2, "callbacks": []}, r"added to gradients .* callbacks=\[HandOverLoss\(\)\]"),
    "a scaler": (SHBPolyak, {"callbacks": [], **SCALED}, r"needs the loss: .*heavystep\.integrations"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_missing_callback_is_an_error(mistake):
    cls, options, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        lightning(make_net(), cls, make_batches(4), **options)


def test_manual_optimization_hands_over_itself():
    nets = [net64(), net64()]
    opt = SHBPolyak(nets[0].parameters())
    by_hand(nets[0], opt, BATCHES)
    module = lightning_module(nets[1], SHBPolyak)
    module.automatic_optimization = False

    def training_step(batch):
        opt = module.optimizers()
        opt.zero_grad()
        loss = loss_of(module.net, batch)
        opt.hand_over(loss)
        module.manual_backward(loss)
        opt.step()

    module.training_step = training_step
    lightning_trainer(max_epochs=1).fit(module, loader(BATCHES))
    torch.testing.assert_close(flat(nets[1]), flat(nets[0]), rtol=0.0, atol=1e-12)
    assert_below_caps(opt)
