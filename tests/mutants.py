"""Break the code on purpose, one change at a time: some test must turn red.

Run with ``make mutants``, or ``python tests/mutants.py armijo`` for some of them. Each mutant is made in a copy of the source tree; the copy is
imported instead of the package, and the fast tests run until the first failure. A mutant that
no test notices makes this script fail.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from framework_mutants import FRAMEWORK_MUTANTS
from linear_mutants import LINEAR_MUTANTS
from mutant import Mutant
from scaling_mutants import SCALING_MUTANTS
from sweep_mutants import SWEEP_MUTANTS
from theory_mutants import THEORY_MUTANTS
from training_mutants import TRAINING_MUTANTS

ROOT = Path(__file__).parent.parent
TIMEOUT = 600


RANKS = ("distributed",)
MUTANTS = [
    Mutant("flip the sign of the momentum", "optim/vectors.py",
           "motion = update.momentum * displacement + motion",
           "motion = -update.momentum * displacement + motion"),
    Mutant("flip it in the fused kernel", "optim/vectors.py",
           "torch.full_like(scale, update.momentum)", "torch.full_like(scale, -update.momentum)"),
    Mutant("flip it where the host knows the step", "optim/vectors.py",
           "refused, update.momentum, 1.0 + float", "refused, -update.momentum, 1.0 + float"),
    Mutant("drop the Polyak cap", "rules/polyak.py", "minimum(ratio, cap)", "ratio"),
    Mutant("drop max_step from the cap", "rules/smooth_reset.py",
           "return minimum(factor * last_step, max_step)",
           "return minimum(factor * last_step, 1e30 * max_step)"),
    Mutant("kappa = 1 in theory mode", "rules/scaling.py",
           "return momentum_factor(momentum) / 2.0", "return 1.0"),
    Mutant("test Armijo at gamma instead of gamma / kappa", "optim/armijo.py",
           "            trial, lambda loss: self", "            trial * self._kappa(), lambda loss: self"),
    Mutant("begin the search at the cap instead of cap / kappa", "optim/armijo.py",
           'trial: float = self._cap(self._options["last_step"]) / self._kappa()',
           'trial: float = self._cap(self._options["last_step"])'),
    Mutant("forget lr", "optim/base.py", 'step = group["lr"] * base_step', "step = base_step"),
    Mutant("store the momentum as torch's buffer", "optim/vectors.py",
           "    motion = -update.step * grad.to(dtype)\n    if displacement is not None:\n"
           "        motion = update.momentum * displacement + motion\n",
           "    motion = -update.step * grad.to(dtype)\n    if displacement is not None:\n"
           "        buffer = update.momentum * displacement + grad.to(dtype)\n"
           "        new = torch.where(update.accepted, theta - update.step * buffer, theta)\n"
           "        return new, torch.where(update.accepted, buffer, displacement)\n"),
    Mutant("store it so in the fused kernel", "optim/vectors.py",
           "    _sgd(displacements, grads, [], scale, refused)\n",
           "    _sgd(displacements, grads, [], -1.0, refused)\n"
           "    if params[0].is_cpu:\n"
           "        _sgd(params, displacements, [], scale, refused)\n        return\n"),
    Mutant("remember the step with its multiplier", "optim/polyak.py",
           "remember_step(last_step, step, accepted)",
           'remember_step(last_step, step * options["lr"], accepted)'),
    Mutant("remember a zero step", "rules/smooth_reset.py",
           "accepted & (step > 0.0)", "accepted & (step >= 0.0)"),
    Mutant("let a negative gap through", "rules/polyak.py",
           "maximum(loss - lower_bound, 0.0)", "(loss - lower_bound)"),
    Mutant("forget c in the Armijo test", "rules/armijo.py",
           "test.loss - test.c * trial", "test.loss - trial"),
    Mutant("skip trials that could succeed", "rules/armijo.py",
           "return sufficient_loss(test, search.trial) < test.lower_bound",
           "return sufficient_loss(test, search.trial) < test.lower_bound + 0.1"),
    Mutant("count skipped trials", "rules/armijo.py",
           "where(cannot_succeed(test, search), 0, 1)", "1"),
    Mutant("accept a NaN batch", "rules/polyak.py",
           "return is_finite(loss) & is_finite(grad_sqnorm)", "return is_finite(grad_sqnorm)"),
    Mutant("decay by lr instead of the step", "optim/base.py",
           '1.0 - step * group["weight_decay"]', '1.0 - group["lr"] * group["weight_decay"]'),
    Mutant("leave decay out of trial losses", "optim/armijo.py",
           "self._loss_share(loss, sample.groups, dtype", "self._loss_share(loss, [], dtype"),
    Mutant("do not rewind the random stream", "optim/closures/replay.py",
           "        self._restore(self._before)", "        pass"),
    Mutant("do not restore the buffers", "optim/closures/replay.py",
           "        put_back(self._buffers, snapshot.buffers)\n", ""),
    Mutant("keep the buffers of a refused batch", "optim/armijo.py",
           "            trials.forget_batch()\n", ""),
    Mutant("keep casts of other parameter values", "optim/closures/trials.py",
           "        torch.clear_autocast_cache()\n", ""),
    Mutant("keep casts from before the last step", "optim/base.py",
           "        torch.clear_autocast_cache()\n", ""),
    Mutant("keep a copy in another format", "optim/closures/trials.py",
           "(copy.device, copy.dtype, copy.shape, copy.stride()) == (\n        param.device, param.dtype,",
           "(copy.device, copy.shape, copy.stride()) == (\n        param.device,"),
    Mutant("do not restore the gradients", "optim/closures/trials.py",
           "            param.grad = grad\n", "            pass\n"),
    Mutant("do not restore the parameters", "optim/closures/trials.py",
           "        if self._moved:\n            torch._foreach_copy_(self._params, self._origin)\n"
           "        for param", "        for param"),
    Mutant("compare losses with 1000 times the tolerance", "rules/armijo.py",
           "TOLERANCE_ULPS = 4.0", "TOLERANCE_ULPS = 4000.0"),
    Mutant("take the finest format for the tolerance", "optim/armijo.py",
           "return max(torch.finfo(dtype).eps", "return min(torch.finfo(dtype).eps"),
    Mutant("take zeroing for a backward pass", "optim/closures/closure.py",
           "changes > zeroed", "changes > 0"),
    Mutant("decay all groups alike", "optim/base.py",
           '0.5 * group["weight_decay"] * sqnorm', '0.5 * groups[0].group["weight_decay"] * sqnorm'),
    Mutant("a sum of losses in place of their mean", "optim/ranks.py",
           "return loss if count == 1 else loss / count", "return loss", RANKS),
    Mutant("elements that several processes hold count several times", "optim/ranks.py",
           "part if copies == 1.0 else part / copies", "part", RANKS),
    Mutant("each process by itself", "optim/ranks.py",
           "        distributed.all_reduce(together, group=self._group)\n", "", RANKS),
    Mutant("trial losses of each process", "optim/armijo.py",
           "(loss,) = self._ranks.total(share)", "loss = share * self._ranks.count", RANKS),
    Mutant("parameters that FSDP gathered before the trial", "optim/closures/trials.py",
           "            forget_gathered(self._owned)\n", "            pass\n", RANKS),
    Mutant("no state for a checkpoint", "optim/polyak.py",
           "        self._last_step(torch.zeros((), dtype=dtype, device=device))\n", "", RANKS),
    Mutant("give the fused kernel a buffer without momentum", "optim/vectors.py",
           "if displacements and known and update.momentum:", "if displacements and known:"),
    Mutant("round a half-precision displacement on load", "optim/base.py",
           "if saved is not None and param.dtype", "if False and param.dtype"),
    Mutant("search from the start after a resume", "optim/base.py",
           '            for name, default in self.defaults.items():\n'
           '                group.setdefault(name, default)\n',
           '            group.update({k: v for k, v in self.defaults.items() if k == "last_step"})\n'),
    Mutant("growth per step instead of per epoch", "rules/smooth_reset.py",
           "growth ** (1.0 / steps_per_epoch)", "growth"),
    Mutant("square root of s_beta", "rules/scaling.py",
           "return (1.0 - momentum**0.5) ** 2", "return 1.0 - momentum**0.5"),
]  # fmt: skip


def first_failure(mutant: Mutant, folder: Path) -> str | None:
    """The first test that notices, or None."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source)
    path = source / "heavystep" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(f"{mutant.name}: {mutant.old!r} occurs {text.count(mutant.old)} times")
    path.write_text(text.replace(mutant.old, mutant.new))
    tests = [str(ROOT / "tests" / where) for where in mutant.where]
    command = [sys.executable, "-m", "pytest", *tests, "-x", "-q", "-p",
               "no:cacheprovider", "-m", "not slow", "--no-header",
               f"--ignore={ROOT / 'tests' / 'test_architecture.py'}"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        run = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIMEOUT} s"
    if run.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest did not run\n{run.stdout}\n{run.stderr}")
    seen = [line for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return seen[0].partition(" ")[2].split(" - ")[0].split("tests/")[-1] if seen else None


def main() -> None:
    """Try every mutant and print who noticed."""
    console, missed = Console(soft_wrap=True), 0
    everyone = MUTANTS + THEORY_MUTANTS + LINEAR_MUTANTS + TRAINING_MUTANTS
    everyone += FRAMEWORK_MUTANTS + SCALING_MUTANTS + SWEEP_MUTANTS
    chosen = [m for m in everyone if all(word in f"{m.name} {m.file}" for word in sys.argv[1:])]
    for mutant in chosen:
        with console.status(mutant.name), tempfile.TemporaryDirectory() as folder:
            noticed = first_failure(mutant, Path(folder))
        missed += noticed is None
        console.print(f"{mutant.name}: {noticed or 'NOBODY NOTICED'}", highlight=False)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants noticed")
    if missed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
