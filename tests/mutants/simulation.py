"""Changes of the simulation that some test must notice."""

from tests.mutants.mutant import Mutant

BATCH = ("conformance/test_batch.py",)
FORMS = ("conformance/test_momentum_forms.py",)
OUTSIDE = ("conformance/test_outside_rules.py",)
KERNELS = ("conformance/test_linear.py",)
ESTIMATOR = ("linear",)
THEORY = ("theory", "certificates", "problems", "conformance/test_batch.py")
ENGINE = (
    "conformance/test_simulation.py",
    "sweeps/test_runner.py",
    "sweeps/test_store.py",
    "paper",
)

MUTANTS = [
    Mutant("batch momentum with the other sign", "simulation/batch.py",
           "form.move(buffer, g, gamma[:, k, None], betas[k])",
           "form.move(buffer, g, gamma[:, k, None], -betas[k])", THEORY),
    Mutant("batch multiplier forgotten", "simulation/batch.py",
           "etas[k] * search.step", "search.step", THEORY),
    Mutant("batch memory forgotten", "simulation/batch.py",
           "memory = rule.Memory(*rule.remember(constants, memory, seen, search))\n",
           "rule.remember(constants, memory, seen, search)\n", BATCH),
    Mutant("compiled momentum with the other sign", "simulation/trajectory.py",
           "buffer[j], g[j], step, momentum)", "buffer[j], g[j], step, -momentum)", ENGINE),
    Mutant("the buffer is not kept", "simulation/trajectory.py",
           "buffer[j] = number(kept) if abs(kept) > tiny else zero",
           "buffer[j] = number(motion) if abs(motion) > tiny else zero", FORMS),
    Mutant("the direction is not looked at", "simulation/choice.py",
           "_look if looks else _look_away", "_look_away", FORMS),
    Mutant("the multiplier forgotten", "simulation/trajectory.py",
           "parameters.lr[step] * search.step", "search.step", ENGINE),
    Mutant("an edited rule keeps its kernel", "simulation/kernel_types.py",
           'digest.update(Path(inspect.getsourcefile(function) or "").read_bytes())',
           "digest.update(function.__qualname__.encode())", OUTSIDE),
    Mutant("kernels know only what a rule calls itself", "simulation/numba_rules.py",
           "        waiting += _called(function)\n", "", OUTSIDE),
    Mutant("weights of the step before", "simulation/configuration.py",
           "self.step_bounds(L, first + 1, count)", "self.step_bounds(L, first, count)", ENGINE),
    Mutant("the minimum without the first iterate", "simulation/watch.py",
           "if full < numbers[BEST]:", "if full < numbers[BEST] and k > 0:", ENGINE),
    Mutant("streams that overlap", "simulation/streams.py",
           "np.uint64(position + 1) * GOLDEN", "np.uint64(position // 2 + 1) * GOLDEN", ENGINE),
    Mutant("rows without their labels", "simulation/logistic.py",
           "out[p] = sign * values[p]", "out[p] = values[p]", KERNELS),
    Mutant("trials up the slope", "simulation/logistic.py",
           "work.margins[b] - t * work.along[b]", "work.margins[b] + t * work.along[b]", KERNELS),
    Mutant("trials without the penalty", "simulation/logistic.py",
           "loss += 0.5 * (here - t", "loss += 0.0 * (here - t", KERNELS),
    Mutant("a gradient without the penalty", "simulation/logistic.py",
           "g[j] += g.dtype.type(terms.penalties[j]) * theta[j]", "g[j] += 0.0", KERNELS),
    Mutant("weights forgotten", "simulation/logistic.py",
           "terms.weights[batch[b]] / size", "1.0 / size", KERNELS),
    Mutant("weights forgotten in the full loss", "simulation/logistic.py",
           "total += dot(terms.weights[first : first + size], losses)",
           "total += dot(np.ones(size), losses)", KERNELS),
    Mutant("tails cut off", "simulation/softplus.py", "SMALLEST = -708.0", "SMALLEST = -30.0", KERNELS),
    Mutant("a series cut short", "simulation/softplus.py",
           "for degree in range(17, -1, -1)", "for degree in [0] * 6 + list(range(11, -1, -1))", KERNELS),
    Mutant("the smooth reset forgotten", "simulation/trajectory.py",
           "        keep(rule, numbers, remember(rule, constants, memory, seen, search))\n", "", KERNELS),
    Mutant("gradients pile up", "simulation/trajectory.py",
           "        g[j] = zero\n", "", KERNELS),
    Mutant("a step at the cap is not counted", "simulation/watch.py",
           "search.step < NEARLY * watch.most[step]", "search.step <= watch.most[step]", KERNELS),
    Mutant("shares since the start", "simulation/watch.py",
           "        watch.numbers[column] = 0.0\n", "", KERNELS),
    Mutant("columns in one byte", "simulation/logistic.py",
           "rows.indices.astype(np.uint16)", "rows.indices.astype(np.uint8)", KERNELS),
    Mutant("all iterates count alike", "simulation/watch.py",
           "        watch.last_weight[0] += 1\n", "        watch.last_weight[0] = 1\n", ESTIMATOR),
    Mutant("a change of the rule forgets its memory", "simulation/run.py",
           "known.get(name, value) for", "value for", ("conformance/test_simulation.py",)),
]  # fmt: skip
