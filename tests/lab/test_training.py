"""The trainer is the loop that anybody would write; it goes on, gives up and refuses as promised."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import StepInfo
from heavystep.lab.cost.networks import made_up_images
from heavystep.lab.data import Split
from heavystep.lab.figures.figure3 import method_specs
from heavystep.lab.training import trainer as training
from heavystep.lab.training.epochs import (
    BAD_STEPS,
    LONGEST,
    NOW,
    DivergedError,
    EpochTrainer,
    Meter,
    load_checkpoint,
    save_checkpoint,
)
from heavystep.lab.training.images import PADDING, ImageWork, colours, epoch_plan
from heavystep.lab.training.networks import NETWORKS, Block
from heavystep.lab.training.runs import optimizer_of
from heavystep.lab.training.trainer import usual_step
from tests.helpers import rounding

CPU, METHODS = torch.device("cpu"), method_specs()
TRAIN, TEST = made_up_images(70), made_up_images(26, seed=1)
BATCH, STEPS, SCALE = 16, 4, colours(TRAIN.inputs)
SUMMANDS = 3 * 3 * 3 + BATCH * 8 * 8 + 4 + 10
"""Additions in a row: of a convolution, of BatchNorm over batch and places, of the head."""
every_method = pytest.mark.parametrize("name", METHODS)


class Net(nn.Module):
    """Dropout and BatchNorm in a few hundred parameters."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3, stride=4)
        self.norm = nn.BatchNorm2d(4)
        self.head = nn.Linear(4, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.convolution(x))).mean(dim=(2, 3))
        x = 8.0 * x  # so that a step of 1 is too long, and searches search
        return self.head(nn.functional.dropout(x, 0.2, self.training))


class Spoiled(ImageWork):
    """The losses of some steps, from 0, are NaN."""

    bad = range(0)

    def loss(self):
        return super().loss() * (torch.nan if self.done - 1 in self.bad else 1.0)


def begun(name, device=CPU, seed=3, network=Net, bad=range(0), captured=True):
    torch.manual_seed(seed)
    work = Spoiled(network(), Split(TRAIN, TEST), SCALE, BATCH, seed, device)
    work.bad = bad
    return EpochTrainer(work, optimizer_of(METHODS[name], work), captured=captured)


def literal_batch(images, plan):
    """Pad, crop, mirror, normalise; pixel by pixel."""
    found = np.zeros((plan.shape[1], 3, 32, 32), np.float32)
    for place, (which, top, left, flip) in enumerate(plan.T):
        black = np.zeros((3, 32 + 2 * PADDING, 32 + 2 * PADDING))
        black[:, PADDING:-PADDING, PADDING:-PADDING] = images[which]
        crop = black[:, top : top + 32, left : left + 32]
        crop = crop[:, :, ::-1] if flip else crop
        for colour in range(3):
            found[place, colour] = (crop[colour] - SCALE.mean[colour]) / SCALE.deviation[colour]
    return found


def literal_epochs(name, epochs, seed=3):
    """The paper's protocol as a plain loop with the optimizers that users import."""
    torch.manual_seed(seed)
    work = ImageWork(Net(), Split(TRAIN, TEST), SCALE, BATCH, seed, CPU)
    net, opt, rows = work.network, optimizer_of(METHODS[name], work), []
    for epoch in range(1, epochs + 1):
        plan, losses, infos = epoch_plan(len(TRAIN.targets), seed, epoch), [], []
        for k in range(STEPS):
            part = plan[:, k * BATCH : (k + 1) * BATCH]
            x = torch.from_numpy(literal_batch(TRAIN.inputs, part))
            y = torch.from_numpy(TRAIN.targets[part[0]])
            usual_step(opt, lambda x=x, y=y: cross_entropy(net(x), y))
            infos.append(opt.info.numbers())
            losses.append(infos[-1]["loss"])
        net.eval()
        middle = np.array([[i, PADDING, PADDING, 0] for i in range(len(TEST.targets))]).T
        with torch.no_grad():
            logits = net(torch.from_numpy(literal_batch(TEST.inputs, middle)))
        net.train()
        right = (logits.argmax(dim=1).numpy() == TEST.targets).mean()
        test_loss = float(cross_entropy(logits, torch.from_numpy(TEST.targets)))
        means = [np.mean([info[key] for info in infos]) for key in ("step", "capped", "trials")]
        rows.append((epoch, np.mean(losses), test_loss, right, *means, 0))  # without the time
    return rows, net


@every_method
def test_is_the_literal_loop(name):
    run = begun(name)
    found = [run.epoch() for _ in range(3)]  # first, since both draw from torch's streams
    rows, net = literal_epochs(name, 3)
    parameters = torch.cat([value.flatten() for value in net.parameters()])
    apart = rounding.of_a_run(3 * STEPS, SUMMANDS, parameters)
    for row, expected in zip(found, rows, strict=True):
        assert row[:-1] == pytest.approx(expected, rel=apart)
        assert row.seconds > 0.0
    torch.testing.assert_close(
        run.work.network.state_dict(), net.state_dict(), rtol=apart, atol=apart
    )


@every_method
@pytest.mark.parametrize("at", [0, 5, 2 * STEPS - 1])
def test_goes_on_as_if_it_had_never_stopped(name, at, tmp_path):
    whole, part, path = begun(name), begun(name), tmp_path / "run.pt"
    torch.manual_seed(7)
    expected = [whole.epoch()[:-1] for _ in range(4)]

    def keep():
        if part.work.done == at:
            save_checkpoint(path, "it", part.state_dict())

    torch.manual_seed(7)
    keep()
    assert [part.epoch(keep)[:-1] for _ in range(2)] == expected[:2]
    rest = begun(name)
    torch.manual_seed(99)  # as another process would have it
    rest.load_state_dict(load_checkpoint(path, "it"))
    while len(rest.history) < 4:
        rest.epoch()
    assert [row[:-1] for row in rest.history] == expected
    found = rest.work.network.state_dict()
    torch.testing.assert_close(whole.work.network.state_dict(), found, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS", "SHB 0.01"])
def test_gives_up_after_ten_bad_steps_in_a_row(name):
    run = begun(name, bad=range(5, 5 + BAD_STEPS - 1))
    rows = [run.epoch() for _ in range(4)]
    assert [row.refused for row in rows] == [0, 3, 4, 2]
    assert np.isfinite([rows[1].loss, rows[3].loss, rows[3].test_loss]).all()
    run = begun(name, bad=range(5, 5 + BAD_STEPS))
    with pytest.raises(DivergedError, match=r"not finite for 10 steps in a row, in epoch 4"):
        [run.epoch() for _ in range(4)]
    assert len(run.history) == 3
    assert all(torch.isfinite(value).all() for value in run.work.network.parameters())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@every_method
def test_replayed_graphs_are_the_plain_loop_on_a_gpu(name):
    gpu = torch.device("cuda")
    runs = [
        begun(name, gpu, network=lambda: NETWORKS["small"](10), captured=captured)
        for captured in (True, False)
    ]
    for epoch in range(3):
        rows = [run.epoch() for run in runs]
        assert rows[0].loss == pytest.approx(rows[1].loss, rel=0.02)
        assert rows[0].step == pytest.approx(rows[1].step, rel=0.05)
        assert rows[0].refused == rows[1].refused == 0, epoch


def test_a_compiled_network_trains_and_the_network_itself_is_evaluated(monkeypatch):
    def compiled(network, dynamic=False):
        return lambda x: used.append(network.training) or network(x)

    used, rows = [], []
    monkeypatch.setattr(torch, "compile", compiled)
    for compiles in (False, True):
        run = begun("SHB-ALS")
        if compiles:
            run.work.compile()
        torch.manual_seed(5)
        rows.append(run.epoch()[:-1])
    assert rows[0] == rows[1]
    assert len(used) >= STEPS
    assert all(used)
    assert not training.compiles.__wrapped__(CPU)  # a function is no network: it raises
    monkeypatch.setattr(torch, "compile", lambda function: function)
    assert training.compiles.__wrapped__(CPU)


def test_plans_are_permutations_with_every_crop_and_flip():
    plan = epoch_plan(5000, seed=1, epoch=2)
    assert sorted(plan[0]) == list(range(5000))
    assert {*plan[1]} == {*plan[2]} == set(range(2 * PADDING + 1))
    assert {*plan[3]} == {0, 1}
    assert 0.45 < plan[3].mean() < 0.55
    assert np.array_equal(plan, epoch_plan(5000, 1, 2))
    for other in (epoch_plan(5000, *of) for of in ((1, 3), (2, 2), (2, 1))):
        assert all((mine != theirs).any() for mine, theirs in zip(plan, other, strict=True))


@pytest.mark.parametrize("number", [torch.tensor, float])
def test_meter_tells_refused_from_bad(number):
    def step(loss, accepted):
        size = number(0.5 if accepted else 0.0)
        taken = accepted if number is float else torch.tensor(accepted)
        return StepInfo(size, size, number(loss), None, 3, taken, number(0.0))

    meter, nan = Meter(CPU), float("nan")
    steps = [(1.0, True), (nan, False), (nan, False), (9.0, False), (nan, False), (5.0, True)]
    for (loss, accepted), longest in zip(steps, [0, 1, 2, 2, 2, 2], strict=True):
        meter.add(step(loss, accepted))
        assert meter.streak(LONGEST) == longest
        assert (meter.streak(NOW) > 0) == np.isnan(loss)
    assert meter.means() == (3.0, 0.5, 0.0, 3.0, 4)
    for _ in range(3):
        meter.add(step(2.0, False))  # a search that fails has a finite loss
    assert meter.streak(LONGEST) == 2


def test_resnet18_is_the_usual_one_for_small_images():
    net, shapes = NETWORKS["resnet18"](10), []
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, i, out: shapes.append(tuple(out.shape[1:])))
    net(torch.zeros(2, 3, 32, 32))
    assert (len(shapes), shapes[0], shapes[-1][1:]) == (20, (64, 32, 32), (4, 4))


@pytest.mark.parametrize(("inputs", "stride"), [(6, 1), (4, 1), (6, 2)])
def test_a_block_is_its_formula(inputs, stride):
    torch.manual_seed(1)
    block = Block(inputs, 6, stride).double().eval()
    x = torch.randn(2, inputs, 8, 8, dtype=torch.float64)

    def layer(part, x, stride=1):
        weight = part[0].weight
        y = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
        return y / (1.0 + 1e-5) ** 0.5  # as BatchNorm begins

    inner = layer(block.first, x, stride).clamp(min=0.0)
    same = inputs == 6 and stride == 1
    outer = layer(block.second, inner) + (x if same else layer(block.shortcut, x, stride))
    torch.testing.assert_close(block(x), outer.clamp(min=0.0), rtol=1e-12, atol=1e-12)


# Checkpoints


def test_checkpoints_that_are_damaged_or_of_another_run_are_refused(tmp_path):
    """Damage in the pickle makes torch raise AttributeError and AssertionError, too."""
    path = tmp_path / "run.pt"
    assert load_checkpoint(path, "mine") is None
    save_checkpoint(path, "mine", {"a": torch.arange(6.0), "b": [1, 2.5, None]})
    with pytest.raises(Exception, match="pickle"):
        save_checkpoint(path, "mine", {"a": lambda: None})
    assert load_checkpoint(path, "mine")["b"] == [1, 2.5, None]  # the last one is left
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]
    with pytest.raises(ValueError, match="of another run, version or precision"):
        load_checkpoint(path, "other")
    content = path.read_bytes()
    flipped = (
        content[:at] + bytes([content[at] ^ 16]) + content[at + 1 :]
        for at in range(0, len(content), 41)
    )
    for damage in (content[: len(content) // 2], b"", bytes(len(content)), *flipped):
        path.write_bytes(damage)
        with pytest.raises(ValueError, match=r"is no whole checkpoint: remove it to begin again"):
            load_checkpoint(path, "mine")
