"""``make fuzz``, or ``python -m tests.fuzz [--seed N] [--share X] [words of a campaign]``.

Optimizers among bad batches, damaged states and interruptions. Each trial has random numbers of its
own, from the seed, the campaign and its number, so that a failure can be seen again: its line names
all three.
"""

import argparse
import copy
import io
import sys
import traceback
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from tests.helpers.cases import OPTIMIZERS
from tests.helpers.training import equal_states, flat, make_batches, make_net, take_step


class Campaign(NamedTuple):
    """One promise, and how often it is tried."""

    name: str
    trial: Callable[[np.random.Generator], None]
    """Raises what went wrong."""
    tries: int


BAD = (torch.nan, torch.inf, -torch.inf, 1e30, -1e18, 1e6, 0.0)
"""What inputs are multiplied by, or one of them is set to."""


def spoiled(batch: Any, rng: np.random.Generator) -> Any:
    x, y = batch[0].clone(), batch[1]
    value = BAD[rng.integers(len(BAD))]
    if rng.integers(2):
        x[tuple(int(rng.integers(size)) for size in x.shape)] = value
    else:
        x *= value
    return x, y


def configuration(rng: np.random.Generator) -> tuple[Any, dict[str, Any], torch.dtype, bool]:
    case = OPTIMIZERS[rng.integers(len(OPTIMIZERS))]
    options: dict[str, Any] = {}
    if rng.integers(2):
        options["weight_decay"] = float(rng.choice([1e-3, 0.1]))
        options["decay"] = str(rng.choice(["decoupled", "objective"]))
    if rng.integers(2):
        options["lr"] = float(rng.choice([1e-3, 0.3]))
    if rng.integers(2) and case.takes("momentum"):
        options["momentum"] = float(rng.choice([0.0, 0.5, 0.95]))
    dtype = (torch.float32, torch.float64, torch.bfloat16)[rng.integers(3)]
    return case, options, dtype, bool(rng.integers(4) == 0)


def refused_batches(rng: np.random.Generator) -> None:
    """The run without the batches that were refused is the same run."""
    case, options, dtype, norm = configuration(rng)
    seed = int(rng.integers(1000))

    def begun() -> tuple[Any, Any]:
        net = make_net(seed, dtype, norm=norm)
        buffers = {"buffers": net.buffers} if case.needs_closure else {}
        return net, case.make(net.parameters(), **options, **buffers)

    batches = [
        spoiled(batch, rng) if rng.integers(3) == 0 else batch
        for batch in make_batches(12, seed=seed, dtype=dtype)
    ]
    (net, opt), good = begun(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for batch in batches:
            before = flat(net).clone()
            statistics = [buffer.clone() for buffer in net.buffers()]
            take_step(opt, net, batch, case)
            if opt.info.accepted:
                good.append(batch)
                continue
            assert torch.equal(flat(net), before), "a refused batch moved something"
            # A batch that is refused has passed a norm; only a search can take that back.
            for buffer, old in zip(net.buffers(), statistics, strict=True):
                buffer.copy_(old)
        twin, again = begun()
        for batch in good:
            take_step(again, twin, batch, case)
    assert bool(torch.isfinite(flat(net)).all()), "parameters are not finite"
    assert torch.equal(flat(net), flat(twin)), "a refused batch left a trace in the parameters"
    if good:
        assert equal_states(opt.state_dict(), again.state_dict()), "and in the state"


def resumed(rng: np.random.Generator) -> None:
    """A run that goes on from a checkpoint at any step is the run that was not interrupted."""
    case, options, dtype, _ = configuration(rng)
    batches = make_batches(8, seed=int(rng.integers(1000)), dtype=dtype)
    net = make_net(dtype=dtype)
    opt, stop = case.make(net.parameters(), **options), int(rng.integers(8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k, batch in enumerate(batches):
            if k == stop:
                file = io.BytesIO()
                torch.save({"net": net.state_dict(), "opt": opt.state_dict()}, file)
            take_step(opt, net, batch, case)
        file.seek(0)
        saved, other = torch.load(file, weights_only=True), make_net(5, dtype)
        fresh = case.make(other.parameters())
        other.load_state_dict(saved["net"])
        fresh.load_state_dict(saved["opt"])
        for batch in batches[stop:]:
            take_step(fresh, other, batch, case)
    assert torch.equal(flat(net), flat(other)), f"resumed at {stop}, other parameters"
    assert equal_states(opt.state_dict(), fresh.state_dict()), f"resumed at {stop}, other state"


VALUES: tuple[Any, ...] = (
    None, "text", True, -1.0, 0.0, 1e30, float("nan"), float("inf"), [], {}, torch.zeros(2),
    torch.tensor(float("nan")), torch.zeros(3, 1),
)  # fmt: skip


def changed_states(rng: np.random.Generator) -> None:
    """A state with something wrong is refused and changes nothing, or is one to go on with."""
    case, _, _, _ = configuration(rng)
    net, (first, second) = make_net(), make_batches(2)
    opt = case.make(net.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        take_step(opt, net, first, case)
        state, before = copy.deepcopy(opt.state_dict()), copy.deepcopy(opt.state_dict())
        change(state, rng)
        try:
            opt.load_state_dict(state)
        except (ValueError, TypeError, KeyError):
            assert equal_states(opt.state_dict(), before), "refused, and something was changed"
            return
        try:
            take_step(opt, net, second, case)
        except (ValueError, TypeError):
            return
    finite = bool(torch.isfinite(flat(net)).all())
    assert finite or not opt.info.accepted, "it went on to parameters that are not finite"


def change(state: Any, rng: np.random.Generator) -> None:
    """One thing, somewhere in a state dict."""
    group, value = state["param_groups"][0], VALUES[rng.integers(len(VALUES))]
    name = sorted(group)[rng.integers(len(group))]
    kept = state["state"].get(int(rng.integers(4)), {})
    kind = rng.integers(5)
    if kind == 0:
        group[name] = value
    elif kind == 1:
        del group[name]
    elif kind == 2:
        group[str(rng.choice(["betas", "beta2", "decrease_factor", "level", "mine"]))] = value
    elif kept and kind == 3:
        kept[sorted(kept)[rng.integers(len(kept))]] = value
    elif kept:
        kept[str(rng.choice(["exp_avg", "displacement", "average"]))] = value


CAMPAIGNS = [
    Campaign("batches that are refused leave no trace", refused_batches, 800),
    Campaign("a resumed run is the same run", resumed, 600),
    Campaign("changed state dicts", changed_states, 1500),
]


def failures(campaign: Campaign, seed: int, numbers: range) -> int:
    """Make these trials; print what went wrong, with the line that makes it again."""
    failed = 0
    for number in numbers:
        rng = np.random.default_rng([seed, zlib.crc32(campaign.name.encode()), number])
        try:
            campaign.trial(rng)
        except Exception as error:
            last, failed = traceback.extract_tb(error.__traceback__)[-1], failed + 1
            place = f"{Path(last.filename).name}, line {last.lineno}"
            print(f"{campaign.name}, seed {seed}, trial {number}: {error!r} ({place})", flush=True)
    return failed


def main() -> None:
    """Run the campaigns and print a line for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*", help="only campaigns with these words in their name")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the usual number of trials")
    parser.add_argument("--only", type=int, help="the trial of that number alone")
    given = parser.parse_args()
    torch.set_num_threads(1)
    bad = 0
    for campaign in CAMPAIGNS:
        if all(word in campaign.name for word in given.words):
            count = max(1, round(campaign.tries * given.share))
            numbers = range(count) if given.only is None else range(given.only, given.only + 1)
            bad += (failed := failures(campaign, given.seed, numbers))
            print(f"{campaign.name}: {failed} of {len(numbers):,} failed", flush=True)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
