"""The trainer is the loop that anybody would write; it stops, goes on and gives up as promised."""

import copy
import json

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from heavystep import SHBArmijo
from heavystep.experiments.bench_train import made_up_images, plain_step
from heavystep.experiments.figure3 import methods
from heavystep.experiments.training_setup import optimizer_of
from heavystep.training import checkpoint
from heavystep.training.history import EpochRow
from heavystep.training.images import PADDING, DeviceImages, colours, epoch_plan
from heavystep.training.memory import fitting_batch
from heavystep.training.meter import Meter
from heavystep.training.resnet import NETWORKS
from heavystep.training.trainer import BAD_STEPS, DivergedError, Trainer

CPU = torch.device("cpu")
METHODS = methods()
TRAIN, TEST = made_up_images(70), made_up_images(26, seed=1)
BATCH, STEPS = 16, 4
DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU"),
        ],
    ),
]
on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
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


def trainer(name, device="cpu", seed=3, network=Net, train=TRAIN):
    torch.manual_seed(seed)
    return Trainer(
        network(),
        lambda net, steps: optimizer_of(METHODS[name], net, steps, torch.device(device)),
        train,
        TEST,
        batch_size=BATCH,
        seed=seed,
        device=torch.device(device),
    )


def numbers(row):
    """Everything but the time."""
    return row[:-1]


def literal_batch(images, plan, scale):
    """Pad, crop, mirror, normalise; pixel by pixel."""
    found = np.zeros((plan.shape[1], 3, 32, 32), np.float32)
    for place, (which, top, left, flip) in enumerate(plan.T):
        black = np.zeros((3, 32 + 2 * PADDING, 32 + 2 * PADDING))
        black[:, PADDING:-PADDING, PADDING:-PADDING] = images[which]
        crop = black[:, top : top + 32, left : left + 32]
        crop = crop[:, :, ::-1] if flip else crop
        for colour in range(3):
            found[place, colour] = (crop[colour] - scale.mean[colour]) / scale.deviation[colour]
    return found


def literal_epochs(name, epochs, seed=3):
    """The paper's protocol as a plain loop with the optimizers that users import."""
    torch.manual_seed(seed)
    net = Net()
    opt = optimizer_of(METHODS[name], net, STEPS, CPU)
    scale, rows = colours(TRAIN.images), []
    for epoch in range(1, epochs + 1):
        plan, losses, infos = epoch_plan(len(TRAIN.labels), seed, epoch), [], []
        for k in range(STEPS):
            part = plan[:, k * BATCH : (k + 1) * BATCH]
            x = torch.from_numpy(literal_batch(TRAIN.images, part, scale))
            y = torch.from_numpy(TRAIN.labels[part[0]])
            if isinstance(opt, SHBArmijo):
                opt.step(lambda: cross_entropy(net(x), y))
            else:
                opt.zero_grad()
                loss = cross_entropy(net(x), y)
                loss.backward()
                opt.step(loss=loss)
            infos.append(opt.info.numbers())
            losses.append(infos[-1]["loss"])
        net.eval()
        middle = np.array([[i, PADDING, PADDING, 0] for i in range(len(TEST.labels))]).T
        with torch.no_grad():
            logits = net(torch.from_numpy(literal_batch(TEST.images, middle, scale)))
        net.train()
        right = (logits.argmax(dim=1).numpy() == TEST.labels).mean()
        test_loss = float(cross_entropy(logits, torch.from_numpy(TEST.labels)))
        means = [np.mean([info[key] for info in infos]) for key in ("step", "capped", "trials")]
        rows.append((epoch, np.mean(losses), test_loss, right, *means, 0))
    return rows, net


@every_method
def test_is_the_literal_loop(name):
    run = trainer(name)
    found = [run.epoch() for _ in range(3)]  # first, since both draw from torch's streams
    rows, net = literal_epochs(name, 3)
    for row, expected in zip(found, rows, strict=True):
        assert numbers(row) == pytest.approx(expected, rel=1e-5)
        assert row.seconds > 0.0
    for one, other in zip(
        net.state_dict().values(), run.network.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SHB-ALS", "SLS"])
def test_the_searches_above_search(name):
    run = trainer(name)
    assert max(run.epoch().trials for _ in range(3)) > 1.0


@every_method
@pytest.mark.parametrize("at", [0, 5, 2 * STEPS - 1])
def test_goes_on_as_if_it_had_never_stopped(name, at, tmp_path):
    whole = trainer(name)
    expected = [numbers(whole.epoch()) for _ in range(4)]
    part, left = trainer(name), at

    def stopped():
        nonlocal left
        left -= 1
        return left < 0

    while (row := part.epoch(stopped)) is not None:
        assert numbers(row) == expected[row.epoch - 1]
    checkpoint.save(tmp_path / "run.pt", "{}", part.state_dict())
    torch.manual_seed(99)
    rest = trainer(name, seed=3, network=Net)
    torch.manual_seed(99)  # as another process would have it
    rest.load_state_dict(checkpoint.load(tmp_path / "run.pt", "{}"))
    while len(rest.history) < 4:
        rest.epoch()
    assert [numbers(row) for row in rest.history] == expected
    for one, other in zip(
        whole.network.state_dict().values(), rest.network.state_dict().values(), strict=True
    ):
        assert torch.equal(one, other)


def test_plans_are_permutations_with_every_crop_and_flip():
    plan = epoch_plan(5000, seed=1, epoch=2)
    assert sorted(plan[0]) == list(range(5000))
    assert {*plan[1]} == {*plan[2]} == set(range(2 * PADDING + 1))
    assert {*plan[3]} == {0, 1}
    assert 0.45 < plan[3].mean() < 0.55
    assert np.array_equal(plan, epoch_plan(5000, 1, 2))
    for other in (epoch_plan(5000, 1, 3), epoch_plan(5000, 2, 2)):
        assert all((mine != theirs).any() for mine, theirs in zip(plan, other, strict=True))


@pytest.mark.parametrize("device", DEVICES)
def test_batches_are_crops_of_the_right_images(device):
    scale = colours(TRAIN.images)
    images = DeviceImages(TRAIN.images, TRAIN.labels, scale, BATCH, torch.device(device))
    plan = epoch_plan(len(TRAIN.labels), 0, 1)
    images.begin(plan)
    assert images.batches == STEPS
    for k in range(STEPS):
        images.load(k)
        images.prepare()
        part = plan[:, k * BATCH : (k + 1) * BATCH]
        expected = literal_batch(TRAIN.images, part, scale)
        np.testing.assert_allclose(images.inputs.cpu(), expected, rtol=1e-5, atol=1e-6)
        assert images.targets.tolist() == TRAIN.labels[part[0]].tolist()


def test_all_test_images_count():
    images = DeviceImages(TEST.images, TEST.labels, colours(TEST.images), 10, CPU)
    parts = list(images.in_order())
    assert [len(targets) for _, targets in parts] == [10, 10, 6]
    assert torch.cat([targets for _, targets in parts]).tolist() == TEST.labels.tolist()


def test_colours_are_those_of_the_pixels():
    found = colours(TRAIN.images)
    pixels = TRAIN.images.transpose(1, 0, 2, 3).reshape(3, -1).astype(float)
    np.testing.assert_allclose(found.mean, pixels.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(found.deviation, pixels.std(axis=1), rtol=1e-12)


def test_resnet18_is_the_usual_one_for_small_images():
    net = NETWORKS["resnet18"](10)
    assert sum(p.numel() for p in net.parameters()) == 11_173_962
    assert sum(isinstance(m, nn.Conv2d) for m in net.modules()) == 20
    assert sum(isinstance(m, nn.BatchNorm2d) for m in net.modules()) == 20
    shapes = []
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda m, i, out: shapes.append(tuple(out.shape[1:])))
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
    assert shapes[0] == (64, 32, 32)
    assert shapes[-1][1:] == (4, 4)


def break_down(run, first, last):
    """Make the losses of some steps NaN."""
    real, taken = run.loss, 0

    def loss():
        value = real()
        taken_now = run._done + STEPS * len(run.history)
        return value * torch.nan if first <= taken_now < last else value

    run.step._step._closure = loss
    return taken


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS", "SHB 0.01"])
def test_gives_up_after_ten_bad_steps_in_a_row(name):
    run = trainer(name)
    break_down(run, 5, 5 + BAD_STEPS - 1)
    rows = [run.epoch() for _ in range(4)]
    assert [row.refused for row in rows] == [0, 3, 4, 2]
    assert np.isfinite([rows[1].loss, rows[3].loss, rows[3].test_loss]).all()
    run = trainer(name)
    break_down(run, 5, 5 + BAD_STEPS)
    before = [run.epoch() for _ in range(3)]
    parameters = copy.deepcopy(run.network.state_dict())
    with pytest.raises(DivergedError, match=r"not finite for 10 steps in a row, in epoch 4"):
        run.epoch()
    assert len(run.history) == len(before)
    for name, value in run.network.named_parameters():
        assert torch.isfinite(value).all(), name
    assert parameters


def test_meter_adds_up_what_was_taken():
    run = trainer("SHB-ALS")
    run.begin_epoch()
    infos = []
    for _ in range(STEPS):
        run.take_step()
        infos.append(run.optimizer.info)
    means = run.meter.means()
    assert means.loss == pytest.approx(np.mean([info.loss for info in infos]))
    assert means.step == pytest.approx(np.mean([info.step for info in infos]))
    assert means.trials == np.mean([info.trials for info in infos])
    run.meter.clear()
    assert np.isnan(run.meter.means().loss)


def test_meters_state_goes_along():
    meter, other = Meter(CPU), Meter(CPU)
    run = trainer("SHB-PS")
    run.begin_epoch()
    run.take_step()
    meter.add(run.optimizer.info)
    other.load_state_dict(meter.state_dict())
    meter.add(run.optimizer.info)
    other.add(run.optimizer.info)
    assert meter.means() == other.means()


@pytest.mark.parametrize("batch_size", [0, 71])
def test_batch_sizes_are_checked(batch_size):
    with pytest.raises(ValueError, match=rf"batch_size must be in 1\.\.70.*got {batch_size}"):
        Trainer(Net(), lambda n, s: None, TRAIN, TEST, batch_size=batch_size, seed=0, device=CPU)


RUN = json.dumps({"run": {"method": {"options": [["c", 1.0]]}}, "precision": "float32"})
OTHER = json.dumps({"run": {"method": {"options": [["c", 0.5]]}}, "precision": "float32"})


def test_checkpoints_of_another_configuration_are_refused(tmp_path):
    path = tmp_path / "run.pt"
    assert checkpoint.load(path, RUN) is None
    checkpoint.save(path, RUN, {"a": torch.ones(2)})
    assert torch.equal(checkpoint.load(path, RUN)["a"], torch.ones(2))
    said = r"another configuration: run\.method\.options\.c is 1\.0 there, 0\.5 here$"
    with pytest.raises(ValueError, match=said):
        checkpoint.load(path, OTHER)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "zeroed", "pickle"])
def test_damaged_checkpoints_are_refused(damage, tmp_path):
    path = tmp_path / "run.pt"
    checkpoint.save(path, RUN, {"a": torch.arange(5000)})
    content = bytearray(path.read_bytes())
    if damage == "pickle":
        torch.save({"format": 1, "run": RUN, "state": Net}, path)
    else:
        changed = {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "text": b"not a checkpoint",
            "zeroed": bytes(len(content)),
        }[damage]
        path.write_bytes(changed)
    with pytest.raises(ValueError, match=r"is no whole checkpoint: remove it to begin again"):
        checkpoint.load(path, RUN)


def test_a_checkpoint_that_cannot_be_written_leaves_the_last_one(tmp_path):
    path = tmp_path / "run.pt"
    checkpoint.save(path, RUN, {"a": 1})
    with pytest.raises(Exception, match="pickle"):
        checkpoint.save(path, RUN, {"a": lambda: None})
    assert checkpoint.load(path, RUN) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["run.pt"]


def test_the_batch_that_would_fit():
    tried = []

    def attempt(batch):
        tried.append(batch)
        if batch > 70:
            raise torch.OutOfMemoryError("no")

    assert fitting_batch(attempt, 512) == 64
    assert tried == [256, 128, 64]
    assert fitting_batch(lambda batch: attempt(1000), 4) is None


def test_history_has_the_columns_that_are_stored():
    row = trainer("SPS").epoch()
    assert isinstance(row, EpochRow)
    assert row.epoch == 1


@pytest.mark.gpu
@on_gpu
@every_method
def test_replayed_graphs_are_the_plain_loop_on_a_gpu(name):
    runs = [trainer(name, "cuda", network=lambda: NETWORKS["small"](10)) for _ in range(2)]
    runs[1].step = plain_step(runs[1])
    for epoch in range(3):
        rows = [run.epoch() for run in runs]
        assert rows[0].loss == pytest.approx(rows[1].loss, rel=0.02)
        assert rows[0].step == pytest.approx(rows[1].step, rel=0.05)
        assert rows[0].refused == rows[1].refused == 0, epoch


@pytest.mark.gpu
@on_gpu
@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_resume_on_a_gpu(name, tmp_path):
    """The next epoch within 2%: kernels add in an order of their own."""
    train = made_up_images(640)
    make = lambda: trainer(name, "cuda", network=lambda: NETWORKS["small"](10), train=train)  # noqa: E731
    run = make()
    run.epoch()
    checkpoint.save(tmp_path / "run.pt", RUN, run.state_dict())
    other = make()
    other.load_state_dict(checkpoint.load(tmp_path / "run.pt", RUN))
    assert numbers(other.history[0]) == numbers(run.history[0])
    assert other.epoch().loss == pytest.approx(run.epoch().loss, rel=0.02)
