"""``heavystep.suggest``: everything is as it was afterwards, and the verdict follows from numbers."""

import itertools
import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, TensorDataset

import heavystep
from heavystep.methods import METHODS
from heavystep.optimizers import optimizer_class
from heavystep.rules import REQUIRED
from heavystep.suggestions import BACKWARD, MAIN, Tail, Trial, equal_cost, suggestion_of
from tests.helpers.training import fingerprint, on_gpu

STEPS = 12


class Net(nn.Module):
    """Everything that training changes: parameters, statistics, dropout, random streams."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.BatchNorm1d(8)
        self.drop = nn.Dropout(0.3)
        self.last = nn.Linear(8, 3)
        self.frozen = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        np.random.rand()  # noqa: NPY002
        random.random()
        return self.last(self.drop(torch.relu(self.norm(self.first(x))))) * self.frozen


def data(rows=64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, 4, generator=generator)
    return x, x[:, :3].argmax(dim=1)


BATCHES = list(zip(*(each.split(8) for each in data()), strict=True))


class Drawing:
    """A loader of one's own that draws from every global stream."""

    def __iter__(self):
        for x, y in random.sample(BATCHES, len(BATCHES)):
            yield x + np.random.rand() * 0.1 + torch.rand(()), y  # noqa: NPY002


def loaded(**options):
    return DataLoader(TensorDataset(*data()), batch_size=8, **options)


def made(training=True):
    torch.manual_seed(0)
    net = Net().train(training)
    net.norm.eval()  # frozen on purpose
    for number, parameter in enumerate(net.parameters()):
        parameter.grad = torch.full_like(parameter, float(number)) if number % 2 else None
    return net


@pytest.fixture
def suggest():
    """``heavystep.suggest`` on a model that must be as it was afterwards, whatever happens."""
    net = made()
    before = fingerprint(net)
    yield lambda loader=BATCHES, loss_fn=cross_entropy, steps=STEPS, **given: heavystep.suggest(
        **{"model": net, "loader": loader, "loss_fn": loss_fn, "steps": steps, **given}
    )
    assert fingerprint(net) == before


LOADERS = {
    "shuffled": lambda: loaded(shuffle=True),
    "with a worker": lambda: loaded(num_workers=1, persistent_workers=True),
    "own class": Drawing,
    "iterator": lambda: iter(BATCHES * 2),
}


@pytest.mark.parametrize("name", LOADERS)
@pytest.mark.parametrize("raises_at", [None, 1, STEPS, 2 * STEPS + 3])
def test_everything_is_as_it_was(name, raises_at, suggest):
    calls = itertools.count(1)

    def loss_fn(output, target):
        if next(calls) == raises_at:
            raise KeyError("mine")
        return cross_entropy(output, target)

    if raises_at is not None:
        with pytest.raises(KeyError, match="mine"):
            suggest(LOADERS[name](), loss_fn)
        return
    found = suggest(LOADERS[name](), loss_fn)
    assert [len(trial.losses) for trial in found.trials] == [STEPS] * len(MAIN)
    assert len({trial.losses[0] for trial in found.trials}) == 1  # the same batch and dropout


@pytest.mark.parametrize("training", [True, False])
def test_forwards_are_counted_and_modes_are_as_they_were(training):
    net, modes = made(training=training), []

    def loss_fn(output, target):
        modes.append((net.training, net.norm.training, net.drop.training))
        return cross_entropy(output, target)

    before = fingerprint(net)
    found = heavystep.suggest(net, BATCHES, loss_fn, steps=STEPS)
    assert fingerprint(net) == before
    # In training mode a part that is not stays so; a whole that is not is trained.
    assert set(modes) == {(True, not training, True)}
    assert sum(trial.forwards for trial in found.trials) * STEPS == pytest.approx(len(modes))
    for trial in found.trials:
        assert (trial.forwards > 1.0) == METHODS[trial.method.split("(")[0]].rule.searches


def test_batches_are_copied(suggest):
    loader = [(torch.ones(4, 4), torch.zeros(4, dtype=torch.long))]

    def loss_fn(model, batch):
        loss = cross_entropy(model(batch[0]), batch[1])
        batch[0].data.mul_(3.0)
        return loss

    suggest(loader, loss_fn, takes_batch=True)
    assert torch.equal(loader[0][0], torch.ones(4, 4))


LAZY, FROZEN = nn.LazyLinear(3), nn.Linear(2, 2).requires_grad_(False)
BAD = [
    ({"loader": []}, ValueError, "it gave no batch"),
    ({"loader": iter(BATCHES)}, ValueError, "it gave 8 batches once, and none the second time"),
    ({"loader": 3}, TypeError, "'int' object is not iterable"),
    ({"loader": [torch.ones(3, 4)]}, TypeError, r"a batch must be \(\*inputs, target\)"),
    ({"steps": 0}, ValueError, "steps must be >= 10, got 0"),
    ({"methods": ["SHBPolyk"]}, ValueError, "nearest: SHBPolyak"),
    ({"methods": []}, ValueError, "methods must name at least one"),
    ({"loss_fn": "mse"}, TypeError, "'str' object is not callable"),
    ({"model": FROZEN}, ValueError, "no parameter that is to be trained"),
    ({"model": LAZY}, ValueError, "lazy parameters"),
    ({"validation_loader": 3}, TypeError, "'int' object is not iterable"),
    ({"validation_loader": iter([])}, ValueError, "validation_loader must give batches"),
]


@pytest.mark.parametrize(("given", "error", "message"), BAD)
def test_bad_input_is_one_line(given, error, message, suggest):
    with pytest.raises(error, match=message) as raised:
        suggest(**given)
    assert "\n" not in str(raised.value)


@on_gpu
def test_on_a_gpu():
    net, stream = made().cuda(), torch.cuda.get_rng_state()
    weights = [p.detach().clone() for p in net.parameters()]
    heavystep.suggest(net, BATCHES, cross_entropy, steps=STEPS)
    assert torch.equal(torch.cuda.get_rng_state(), stream)
    assert all(map(torch.equal, net.parameters(), weights))


def test_a_trial_is_what_the_optimizer_does():
    """The same loop by hand: the losses are equal to the bit."""
    found = heavystep.suggest(made(), BATCHES, cross_entropy, steps=STEPS, methods="SHBPolyak")
    net = made()
    opt = heavystep.SHBPolyak(p for p in net.parameters() if p.requires_grad)
    losses = []
    for x, y in (BATCHES * 2)[:STEPS]:
        opt.step(lambda: cross_entropy(net(x), y))
        losses.append(float(opt.info.loss))
    assert found.trials[0].losses == tuple(losses)
    kept = [t for s in opt.state.values() for t in s.values() if isinstance(t, torch.Tensor)]
    assert found.trials[0].state_memory == sum(t.numel() * t.element_size() for t in kept) > 0


def test_what_goes_wrong_is_in_the_table(suggest):
    """A loss below the bound of 0 is told once, by the methods that have that bound."""

    def loss_fn(output, target):
        return -mse_loss(output, nn.functional.one_hot(target, 3).float())

    found = suggest(loss_fn=loss_fn, steps=40)
    assert any("lower_bound" in text for trial in found.trials for text in trial.warnings)
    assert all(f"{t.method}: {text}" in str(found) for t in found.trials for text in t.warnings)
    found = suggest([(torch.full((8, 4), float("nan")), torch.zeros(8, dtype=torch.long))])
    assert [trial.refused for trial in found.trials] == [STEPS] * len(MAIN)
    assert (found.best, found.code) == (None, "")
    assert "No method got below where it began" in str(found)


def trial(method, losses, cost=1.0):
    costs = (cost + BACKWARD,) * len(losses)
    code = f"opt = heavystep.{method}(model.parameters())"
    return Trial(method, tuple(losses), costs, 1e-3, 0, 2**20, (), (), code)


def end(level):
    """Eighty steps from 9 to 2, then twenty about a level."""
    return [*np.linspace(9.0, 2.0, 80), *(level + each for each in 10 * (0.1, -0.1))]


def test_the_lowest_loss_wins_unless_noise_could_explain_it():
    """Then the cheaper method does. A run that ends in infinity never wins."""
    cheap, dear = trial("SHBPolyak", end(1.0)), trial("SHBArmijo", end(1.0), cost=1.01)
    found = suggestion_of((cheap, trial("SPS", end(0.5))))
    assert found.best == "SPS"
    assert "lowest training loss" in found.reason
    assert "No unseen data" in found.reason
    assert found.code == "opt = heavystep.SPS(model.parameters())"
    found = suggestion_of((dear, cheap))
    assert found.best == "SHBPolyak"
    assert "SHBArmijo" in found.reason
    lost = trial("SHBPolyak", [*end(1.0)[:-1], float("nan")])
    assert suggestion_of((lost, trial("SPS", end(3.0)))).best == "SPS"


def test_a_dear_step_counts_for_its_cost():
    """After equal work a method with twice the cost has made half of the steps."""
    cheap = trial("SHBPolyak", np.linspace(9.0, 1.0, 100))
    dear = trial("SHBArmijo", np.linspace(9.0, 0.1, 100), cost=1.0 + 3.0)
    assert equal_cost((cheap, dear)) == 300.0
    found = suggestion_of((cheap, dear))
    assert found.best == "SHBPolyak"
    _, loss, equal, *_ = str(found).splitlines()[2].split()
    assert float(loss) == pytest.approx(Tail.of(dear.losses[-20:]).mean, rel=1e-3)
    assert float(equal) == pytest.approx(Tail.of(dear.losses[40:50]).mean, rel=1e-3)


FREE = [m.name for m in METHODS.values() if all(o.default is not REQUIRED for o in m.options)]


@pytest.mark.parametrize("name", FREE)
def test_the_line_to_write_makes_the_optimizer(name):
    """Also of methods that are no classes of ``heavystep`` itself."""
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    found = heavystep.suggest(model, BATCHES, cross_entropy, steps=10, methods=[name])
    namespace = {"heavystep": heavystep, "model": model}
    exec(found.trials[0].code, namespace)
    assert isinstance(namespace["opt"], optimizer_class(name))


def test_unseen_data_decide_where_they_are_given():
    """The batches that are trained on have random labels; what lowers their loss does harm."""
    learned, unseen = ([(torch.eye(4), torch.tensor(y))] for y in ([0, 1, 2, 0], [1, 2, 0, 1]))
    torch.manual_seed(0)
    model, seen = nn.Linear(4, 3), set()

    def loss_fn(output, target):
        seen.add((int(target[0]), model.training, torch.is_grad_enabled()))
        return cross_entropy(output, target)

    def found(**options):
        methods = [("SHBPolyak", {"max_step": 1e-3}), ("SHBPolyak", {})]
        return heavystep.suggest(model, learned, loss_fn, steps=40, methods=methods, **options)

    before, plain, harmed = fingerprint(model), found(), found(validation_loader=unseen)
    assert plain.best == "SHBPolyak"
    assert "training loss" in plain.reason
    assert harmed.best is None  # both get worse on them
    assert "No method got below" in harmed.reason
    assert seen == {(0, True, True), (1, False, False)}
    assert [at for at, _ in harmed.trials[0].validated] == [0, 8, 16, 24, 32, 40]
    same = found(validation_loader=learned)
    assert same.best == "SHBPolyak"
    assert "the lowest validation loss" in same.reason
    assert same.code == "opt = heavystep.SHBPolyak(model.parameters())"
    assert same.trials[0].code == "opt = heavystep.SHBPolyak(model.parameters(), max_step=0.001)"
    assert fingerprint(model) == before
