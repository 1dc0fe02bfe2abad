"""The trainer is the loop that anybody would write; it stops, goes on and gives up as promised."""

import copy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from heavystep.bench.train import made_up_images, plain_step
from heavystep.optim import searches
from heavystep.paper.appendix_e import ADAPTIVE
from heavystep.training import checkpoint
from heavystep.training import trainer as training_loop
from heavystep.training.images import PADDING, colours, epoch_plan
from heavystep.training.resnet import NETWORKS
from heavystep.training.setup import optimizer_of
from heavystep.training.trainer import BAD_STEPS, DivergedError, Trainer
from tests.helpers import rounding
from tests.helpers.image_training import (
    BATCH,
    CPU,
    METHODS,
    RUN,
    STEPS,
    SUMMANDS,
    TEST,
    TRAIN,
    Net,
    literal_batch,
    trainer,
)

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
every_method = pytest.mark.parametrize("name", METHODS)


def numbers(row):
    """Everything but the time."""
    return row[:-1]


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
            if searches(opt):
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
    parameters = torch.cat([value.flatten() for value in net.parameters()])
    apart = rounding.of_a_run(3 * STEPS, SUMMANDS, parameters)
    for row, expected in zip(found, rows, strict=True):
        assert numbers(row) == pytest.approx(expected, rel=apart)
        assert row.seconds > 0.0
    for one, other in zip(
        net.state_dict().values(), run.network.state_dict().values(), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=apart, atol=apart)


@pytest.mark.parametrize("name", ["SHB-ALS", "SLS"])
def test_the_searches_above_search(name):
    run = trainer(name)
    assert max(run.epoch().trials for _ in range(3)) > 1.0
    assert run.network.norm.num_batches_tracked == 3 * STEPS  # trials are not batches


@every_method
def test_resets_know_how_many_steps_an_epoch_has(name):
    options = trainer(name).optimizer.param_groups[0]
    assert options.get("steps_per_epoch") == (STEPS if name in ADAPTIVE else None)


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


def test_an_evaluation_leaves_no_trace():
    run = trainer("SHB-PS")
    run.epoch()
    before = copy.deepcopy(run.network.state_dict())
    assert run.evaluate() == run.evaluate()
    assert run.network.training
    assert all(map(torch.equal, before.values(), run.network.state_dict().values()))


def break_down(run, first, last):
    """Make the losses of some steps NaN."""
    real = run.loss

    def loss():
        value = real()
        taken = run._done + STEPS * len(run.history)
        return value * torch.nan if first <= taken < last else value

    run.step._step._closure = loss


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
    parameters = [value.detach().clone() for value in run.network.parameters()]
    with pytest.raises(DivergedError, match=r"not finite for 10 steps in a row, in epoch 4"):
        run.epoch()
    assert len(run.history) == len(before)
    # The last of the ten is followed by a good step, before anybody looks.
    assert all(torch.isfinite(value).all() for value in run.network.parameters())
    assert not all(map(torch.equal, run.network.parameters(), parameters))


def test_bad_steps_are_seen_amid_an_epoch(monkeypatch):
    monkeypatch.setattr(training_loop, "LOOK_EVERY", 5)
    run = trainer("SHB-PS", train=made_up_images(14 * BATCH))
    break_down(run, 0, BAD_STEPS)
    with pytest.raises(DivergedError):
        run.epoch()
    assert run._done == BAD_STEPS


def test_the_time_of_an_epoch_is_that_of_its_parts(monkeypatch):
    """Up to a stop and after the checkpoint; what is in between does not count."""
    now = SimpleNamespace(seconds=0.0)
    clock = SimpleNamespace(perf_counter=lambda: now.seconds)
    monkeypatch.setattr(training_loop, "time", clock)

    def second(share):
        now.seconds += 1.0

    run, rest = trainer("SHB-PS"), trainer("SHB-PS")
    assert run.epoch(lambda: now.seconds == 1.0, second) is None
    now.seconds = 50.0
    assert run.epoch(lambda: now.seconds == 51.0, second) is None
    now.seconds = 100.0
    rest.load_state_dict(run.state_dict())
    assert rest.epoch(advance=second).seconds == STEPS
    assert rest.epoch(advance=second).seconds == STEPS


@pytest.mark.parametrize("batch_size", [0, 71])
def test_batch_sizes_are_checked(batch_size):
    with pytest.raises(ValueError, match=rf"batch_size must be in 1\.\.70.*got {batch_size}"):
        Trainer(Net(), lambda n, s: None, TRAIN, TEST, batch_size=batch_size, seed=0, device=CPU)


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


@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_a_compiled_network_trains_and_the_network_itself_is_evaluated(name, monkeypatch):
    used = []

    def compiled(network, **options):
        used.append(options)
        return lambda images: used.append(network.training) or network(images)

    monkeypatch.setattr(torch, "compile", compiled)
    plain, other = (trainer(name, compiled=wanted) for wanted in (False, True))
    assert (plain.compiled, other.compiled) == (False, True)
    torch.manual_seed(5)
    expected = [numbers(plain.epoch()) for _ in range(2)]
    torch.manual_seed(5)
    assert [numbers(other.epoch()) for _ in range(2)] == expected
    assert used[0] == {"dynamic": False}
    assert len(used) - 1 >= 2 * STEPS
    assert all(used[1:])
    assert list(other.network.state_dict()) == list(plain.network.state_dict())


@pytest.mark.gpu
@on_gpu
@pytest.mark.filterwarnings("ignore")  # of the compiler
@pytest.mark.parametrize("name", ["SHB-PS", "SHB-ALS"])
def test_compiling_changes_roundings_only(name):
    make = lambda compiled: trainer(  # noqa: E731
        name, "cuda", network=lambda: NETWORKS["small"](10), compiled=compiled
    )
    rows = [run.epoch() for run in map(make, (False, True))]
    assert rows[1].loss == pytest.approx(rows[0].loss, rel=0.01)
    assert rows[1].step == pytest.approx(rows[0].step, rel=0.05)
    assert rows[1].test_loss == pytest.approx(rows[0].test_loss, rel=0.05)
