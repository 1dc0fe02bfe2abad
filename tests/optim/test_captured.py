"""A step in recordable parts is the optimizer's step; on a GPU, replayed, it still is."""

import gc
import warnings
from contextlib import contextmanager
from functools import partial

import pytest
import torch

from heavystep import SLS, CapturedStep, Recorder, SHBArmijo, SHBPolyak
from heavystep.optimizers import searches
from tests.helpers.cases import every_row
from tests.helpers.training import (
    DEVICES,
    equal_states,
    flat,
    loss_of,
    make_batches,
    make_net,
    on_gpu,
)


def practical(**options):
    """The line search of the paper, with the buffers of the network."""
    return lambda net: SHBArmijo(
        net.parameters(), scaling="practical", buffers=net.buffers(), **options
    )


MAKERS = {
    "SGD": lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
    "SHBPolyak": lambda net: SHBPolyak(net.parameters(), scaling="practical", steps_per_epoch=7),
    "SHBArmijo": practical(steps_per_epoch=2, lower_bound=0.0, max_step=3.0),
    "SHBArmijo long search": practical(max_step=50.0, decrease_factor=0.7, c=0.4),
    "SHBArmijo objective": practical(weight_decay=0.1, decay="objective", lr=0.5, max_step=9.0),
    "SLS": lambda net: SLS(net.parameters(), buffers=net.buffers(), max_step=5.0),
    "SHBArmijo single": practical(weight_decay=0.2, max_step=9.0),
}
SEARCHES = [name for name, make in MAKERS.items() if searches(make(make_net()))]
every_device = pytest.mark.parametrize("device", DEVICES)


class Run:
    """A network, its optimizer and a batch that stays in place."""

    def __init__(self, make, device, dropout=0.0, dtype=torch.float64, loss=None):
        self.net = make_net(norm=True, dropout=dropout, dtype=dtype).to(device)
        self.opt = make(self.net)
        x, y = make_batches(1, dtype=dtype)[0]
        self.batch = (x.to(device), y.to(device))
        self.loss = lambda: loss_of(self.net, self.batch) if loss is None else loss(self)

    def captured(self, **options):
        return CapturedStep(self.opt, self.loss, **options)

    def load(self, batch):
        for place, value in zip(self.batch, batch, strict=True):
            place.copy_(value)

    def plain_step(self):
        """What a user writes."""
        if searches(self.opt):
            return self.opt.step(self.loss)
        self.opt.zero_grad()
        loss = self.loss()
        loss.backward()
        self.opt.step(**({} if type(self.opt) is torch.optim.SGD else {"loss": loss}))
        return loss.detach()

    def numbers(self):
        info = getattr(self.opt, "info", None)
        return () if info is None else (float(info.step), int(info.trials))


def side_by_side(
    make, device, dropout=0.0, count=14, before=lambda run, k: None, prepare=lambda run: None,
    loss=None, **options,
):  # fmt: skip
    """Both kinds of steps do the same; the numbers of each step.

    ``before`` is done to each run before its step k, and ``prepare`` by the step itself.
    """
    plain, other = (Run(make, device, dropout, loss=loss) for _ in range(2))
    options["prepare"] = lambda: prepare(other)
    step, numbers = other.captured(**options), []
    for k, batch in enumerate(make_batches(count, dtype=torch.float64)):
        for run in (plain, other):
            run.load(batch)
            before(run, k)
        torch.manual_seed(k)
        prepare(plain)
        numbers.append((float(plain.plain_step()), *plain.numbers()))
        after = torch.get_rng_state()
        torch.manual_seed(k)
        found = (float(step()), *other.numbers())
        assert torch.equal(torch.get_rng_state(), after)
        assert found == pytest.approx(numbers[-1], rel=1e-9, nan_ok=True)
        torch.testing.assert_close(flat(plain.net), flat(other.net), rtol=1e-9, atol=1e-12)
        for one, another in zip(plain.net.buffers(), other.net.buffers(), strict=True):
            torch.testing.assert_close(one, another, rtol=1e-9, atol=1e-12)
    return numbers


COUNT = 7
"""Three calls warm up, and the others are replayed."""


def maker(case, **options):
    def make(net):
        guarded = {"buffers": net.buffers()} if case.needs_closure else {}
        return case.make(net.parameters(), **guarded, **options)

    return make


@every_device
@pytest.mark.parametrize("name", MAKERS)
def test_equals_the_plain_loop(name, device):
    numbers = side_by_side(MAKERS[name], device, dropout=0.4)
    assert name not in SEARCHES or max(trials for _, _, trials in numbers) > 1


@every_device
@every_row
def test_equals_the_plain_loop_with_every_method(case, device):
    side_by_side(maker(case), device, dropout=0.4, count=COUNT)


@every_device
@every_row
def test_a_bad_batch_changes_nothing(case, device):
    run = Run(maker(case), device)
    step = run.captured()
    for k, (x, y) in enumerate(make_batches(COUNT, dtype=torch.float64)):
        bad = k in (1, COUNT - 2)  # in the warm-up, and replayed
        run.load((torch.full_like(x, torch.nan) if bad else x, y))
        before = flat(run.net).clone(), [b.clone() for b in run.net.buffers()]
        kept = {name: float(run.opt.param_groups[0][name]) for name in case.method.rule.memory}
        step()
        assert bool(run.opt.info.accepted) is not bad
        assert torch.equal(flat(run.net), before[0]) is bad
        if bad and case.needs_closure:
            assert all(map(torch.equal, run.net.buffers(), before[1]))
        if bad:
            now = {name: float(run.opt.param_groups[0][name]) for name in kept}
            assert equal_states(now, kept)
            for buffer, value in zip(run.net.buffers(), before[1], strict=True):
                buffer.copy_(value)  # a step that never waits for the device cannot know in time
    assert torch.isfinite(flat(run.net)).all()


@every_device
@every_row
@pytest.mark.parametrize("tensor", [False, True])
def test_options_and_states_may_change(case, tensor, device):
    """A scheduler works as ever: any warning, such as one of the order of calls, is an error."""
    schedulers = {}

    def before(run, k):
        group = run.opt.param_groups[0]
        if k == 0:
            if tensor:  # on the CPU it is a number to a graph, and its change has to be noticed
                group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float64)
            schedulers[run] = torch.optim.lr_scheduler.StepLR(run.opt, 2, gamma=0.5)
        else:
            schedulers[run].step()
        if k == 4:
            run.opt.load_state_dict(run.opt.state_dict())

    make = maker(case, weight_decay=0.1)
    side_by_side(make, device, count=COUNT, before=before, warmup=1)


@every_device
@pytest.mark.filterwarnings("ignore:line search failed")
def test_a_failed_search_ends_where_it_began(device):
    side_by_side(practical(max_step=1e6, max_trials=1), device, count=COUNT)


@every_device
@pytest.mark.parametrize("name", SEARCHES)
def test_trials_see_the_buffers_that_the_first_evaluation_saw(name, device):
    """The loss depends on a buffer that every evaluation changes."""

    def make(net):
        net.register_buffer("factor", next(net.parameters()).new_ones(()))
        return MAKERS[name](net)

    def loss(run):
        run.net.factor.add_(0.05)
        return run.net.factor.clone() * loss_of(run.net, run.batch)

    side_by_side(make, device, count=8, loss=loss)


@pytest.mark.parametrize("name", ["SHBPolyak", "SHBArmijo long search"])
def test_an_autocast_around_the_steps(name):
    """Its casts of the parameters are those of other points."""
    results = []
    for captured in (False, True):
        run = Run(MAKERS[name], "cpu", dtype=torch.float32)
        step = run.captured() if captured else lambda run=run: run.opt.step(run.loss)
        with torch.autocast("cpu", torch.bfloat16):
            found = []
            for batch in make_batches(6):
                run.load(batch)
                found.append((float(step()), *run.numbers()))
        results.append(found)
    for expected, found in zip(*results, strict=True):
        assert found == expected  # the same operations in the same order


def test_a_search_allows_for_the_rounding_of_its_loss():
    """In bfloat16 every trial gives the same loss, which is then accepted."""
    trials = []
    for captured in (False, True):
        theta = torch.tensor([0.3, 0.3], requires_grad=True)
        opt = SHBArmijo([theta], momentum=0.0, max_trials=20)

        def closure(theta=theta):
            return (1e-2 * (theta**2).sum() + 3.0).bfloat16()

        step = CapturedStep(opt, closure) if captured else partial(opt.step, closure)
        step()
        trials.append((opt.info.trials, opt.info.accepted))
    assert trials == [(1, True)] * 2


@every_device
@pytest.mark.parametrize("name", ["SHBPolyak", *SEARCHES])
def test_preparation_and_report_belong_to_the_step(name, device):
    """The random numbers of a preparation come before those of the loss."""

    def noisy(run):
        run.batch[0].add_(0.1 * torch.randn_like(run.batch[0]))
        runs.append(run)

    def report():
        total.add_(runs[-1].opt.info.step)

    total, runs = torch.zeros((), device=device, dtype=torch.float64), []
    numbers = side_by_side(MAKERS[name], device, 0.4, count=8, prepare=noisy, report=report)
    assert float(total) == pytest.approx(sum(step for _, step, _ in numbers))


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("early", [False, True])
def test_a_closure_that_raises_at_a_trial_leaves_no_trace(name, early):
    run = Run(MAKERS[name], "cpu", dropout=0.4)
    streams = []

    def closure():
        if early and streams:
            raise RuntimeError("no more")
        loss = run.loss()
        if streams:
            raise RuntimeError("no more")
        streams.append(torch.get_rng_state())
        return loss

    before, buffers = flat(run.net).clone(), [b.clone() for b in run.net.buffers()]
    with pytest.raises(RuntimeError, match="no more"):
        CapturedStep(run.opt, closure)()
    assert torch.equal(torch.get_rng_state(), *streams)
    assert torch.equal(flat(run.net), before)
    assert all(map(torch.equal, run.net.buffers(), buffers))


@pytest.mark.parametrize("name", ["SHBPolyak", "SHBArmijo"])
def test_what_a_captured_step_cannot_do_is_refused(name, monkeypatch):
    run = Run(MAKERS[name], "cpu")

    def calls_backward():
        loss = run.loss()
        loss.backward()
        return loss.detach()

    with pytest.raises(TypeError, match=r"leave backward\(\) to the step"):
        CapturedStep(run.opt, calls_backward)()
    with pytest.raises(TypeError, match=r"must end with 'return loss'"):
        CapturedStep(run.opt, lambda: None)()
    with pytest.raises(ValueError, match="warmup must be >= 1, got 0"):
        run.captured(warmup=0)
    with Recorder(run.opt), pytest.raises(ValueError, match=r"not call the hooks of its optimizer"):
        run.captured()()
    monkeypatch.setattr("heavystep.optim.ranks.distributed.is_initialized", lambda: True)
    monkeypatch.setattr("heavystep.optim.ranks.distributed.get_world_size", lambda group: 2)
    with pytest.raises(ValueError, match=r"for one process, and there are several"):
        run.captured()()


def test_no_garbage_is_collected_while_a_step_is_recorded(monkeypatch):
    """There may be a graph among it."""
    collecting = []

    @contextmanager
    def graph(recorded, pool):
        collecting.append(gc.isenabled())
        yield

    for name, fake in {"graph": graph, "CUDAGraph": object, "graph_pool_handle": object}.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    Run(MAKERS["SHBPolyak"], "cpu").captured()._record()
    assert collecting == [False]
    assert gc.isenabled()


@on_gpu
@pytest.mark.parametrize("name", ["SGD", "SHBPolyak", "SHBArmijo"])
def test_waits_for_the_gpu(name):
    """Never; and a line search once a batch and once a trial."""
    run = Run(MAKERS[name], "cuda", dtype=torch.float32)
    step = run.captured()
    for _ in range(5):
        step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        trials = 0
        try:
            for _ in range(6):
                step()
                trials += run.opt.info.trials if searches(run.opt) else 0
        finally:
            torch.cuda.set_sync_debug_mode("default")
    waits = [w for w in caught if "called a synchronizing" in str(w.message)]
    # For the loss and the products of the batch, and for the loss at each trial.
    assert len(waits) == (6 + trials if searches(run.opt) else 0)
