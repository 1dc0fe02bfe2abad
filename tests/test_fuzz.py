"""Optimizers among bad batches, interruptions and damaged states; ``make fuzz`` tries many more."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.cases import OPTIMIZERS
from tests.helpers.examples import examples
from tests.helpers.training import Run, equal_states, make_batches, state_of

pytestmark = pytest.mark.filterwarnings("ignore")
CASES = st.sampled_from(OPTIMIZERS)
DTYPES = st.sampled_from([torch.float32, torch.float64, torch.bfloat16])
SEEDS = st.integers(0, 1000)
# What inputs are multiplied by, or one of them is set to.
BAD = st.sampled_from([torch.nan, torch.inf, -torch.inf, 1e30, -1e18, 1e6, 0.0])
WRONG = (
    None, "text", True, -1.0, 0.0, 1e30, float("nan"), float("inf"), [], {}, torch.zeros(2),
    torch.tensor(float("nan")), torch.zeros(3, 1),
)  # fmt: skip


@st.composite
def settings(draw):
    """An optimizer and some of its options."""
    case = draw(CASES)
    possible = {
        "weight_decay": [1e-3, 0.1], "decay": ["decoupled", "objective"], "lr": [1e-3, 0.3],
        "momentum": [0.0, 0.5, 0.95] if case.takes("momentum") else [],
    }  # fmt: skip
    given = {name: st.sampled_from(values) for name, values in possible.items() if values}
    return case, draw(st.fixed_dictionaries({}, optional=given))


@st.composite
def spoiled(draw, batches):
    """A third of the batches with bad inputs."""
    found = []
    for x, y in batches:
        if draw(st.integers(0, 2)) == 0:
            one = draw(st.one_of(st.just(...), st.integers(0, x.numel() - 1)))
            bad = draw(BAD)
            x = (
                x * bad
                if one is ...
                else x.flatten().index_fill(0, torch.tensor([one]), bad).view_as(x)
            )
        found.append((x, y))
    return found


@examples(40)
@given(setting=settings(), dtype=DTYPES, norm=st.booleans(), seed=SEEDS, data=st.data())
def test_refused_batches_leave_no_trace(setting, dtype, norm, seed, data):
    """The run without the batches that were refused is the same run."""

    def begun():
        case, options = setting
        guarded = {"buffers": lambda: run.net.buffers()} if case.needs_closure else {}
        run = Run(case.make, {"seed": seed, "dtype": dtype, "norm": norm}, **options, **guarded)
        return run

    run, good = begun(), []
    for batch in data.draw(spoiled(make_batches(12, seed=seed, dtype=dtype))):
        before, statistics = run.theta, [buffer.clone() for buffer in run.net.buffers()]
        run.step(batch)
        if run.opt.info.accepted:
            good.append(batch)
            continue
        assert torch.equal(run.theta, before), "a refused batch moved something"
        # A batch that is refused has passed a norm; only a search can take that back.
        for buffer, old in zip(run.net.buffers(), statistics, strict=True):
            buffer.copy_(old)
    again = begun().train(good)
    assert bool(torch.isfinite(run.theta).all())
    assert torch.equal(run.theta, again.theta)
    if good:
        assert equal_states(run.opt.state_dict(), again.opt.state_dict())


@examples(40)
@given(setting=settings(), dtype=DTYPES, seed=SEEDS, stop=st.integers(0, 7))
def test_a_resumed_run_is_the_same_run(setting, dtype, seed, stop):
    (case, options), batches = setting, make_batches(8, seed=seed, dtype=dtype)
    run = Run(case.make, {"dtype": dtype}, **options).train(batches[:stop])
    other = Run(case.make, {"seed": 5, "dtype": dtype}).load(run.saved)
    assert torch.equal(run.train(batches[stop:]).theta, other.train(batches[stop:]).theta)
    assert equal_states(run.opt.state_dict(), other.opt.state_dict())


def damage(state, draw):
    """Change one thing, somewhere in a state dict."""
    group, value = state["param_groups"][0], draw(st.sampled_from(WRONG))
    kept = draw(st.sampled_from([*state["state"].values()] or [{}]))
    place = draw(st.sampled_from([group, kept] if kept else [group]))
    unknown = ["betas", "beta2", "decrease_factor", "level", "mine", "exp_avg", "average"]
    name = draw(st.sampled_from([*sorted(place), *unknown]))
    if name in place and draw(st.booleans()):
        del place[name]
    else:
        place[name] = value


@examples(80)
@given(case=CASES, data=st.data())
def test_a_damaged_state_is_refused_and_changes_nothing_or_trains(case, data):
    first, second = make_batches(2)
    run = Run(case.make).train([first])
    before, state = state_of(run.opt), state_of(run.opt)
    damage(state, data.draw)
    try:
        run.opt.load_state_dict(state)
    except (ValueError, TypeError, KeyError):
        assert equal_states(run.opt.state_dict(), before)
        return
    try:
        run.step(second)
    except (ValueError, TypeError):
        return
    assert bool(torch.isfinite(run.theta).all()) or not run.opt.info.accepted
