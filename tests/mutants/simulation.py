"""Changes of the simulation that some test must notice."""

from tests.mutants.mutant import Mutant

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
           "displacement = betas[k] * displacement", "displacement = -betas[k] * displacement", THEORY),
    Mutant("batch search from the cap", "simulation/batch.py",
           "caps[k] / factor, theta", "caps[k], theta", THEORY),
    Mutant("compiled momentum with the other sign", "simulation/trajectory.py",
           "motion = momentum * displacement[j] - step * g[j]",
           "motion = -momentum * displacement[j] - step * g[j]", ENGINE),
    Mutant("compiled search from the cap", "simulation/choice.py",
           "armijo_start(test, cap / kappa)", "armijo_start(test, cap)", ENGINE),
    Mutant("the multiplier forgotten", "simulation/trajectory.py",
           "parameters.eta[step] * base, ", "base, ", ENGINE),
    Mutant("weights of the step before", "simulation/method.py",
           "np.arange(first + 1, first + count + 1)", "np.arange(first, first + count)", ENGINE),
    Mutant("the minimum without the first iterate", "simulation/watch.py",
           "if full < numbers[1]:", "if full < numbers[1] and k > 0:", ENGINE),
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
           "step_cap(last_step[0], scene.growth, parameters.cap[step])", "parameters.cap[step]", KERNELS),
    Mutant("gradients pile up", "simulation/trajectory.py",
           "        g[j] = theta.dtype.type(0.0)\n", "", KERNELS),
    Mutant("a step at the cap is not counted", "simulation/watch.py",
           "if base >= caps[0]:", "if base > caps[0]:", KERNELS),
    Mutant("shares since the start", "simulation/watch.py",
           "    numbers[:4] = 0.0\n", "", KERNELS),
    Mutant("columns in one byte", "simulation/logistic.py",
           "rows.indices.astype(np.uint16)", "rows.indices.astype(np.uint8)", KERNELS),
    Mutant("all iterates count alike", "simulation/watch.py",
           "        numbers[2] += numbers[1]\n        for j in range(theta.shape[0]):\n"
           "            watch.mean[j] += numbers[1] * theta[j]",
           "        numbers[2] += 1.0\n        for j in range(theta.shape[0]):\n"
           "            watch.mean[j] += theta[j]", ESTIMATOR),
]  # fmt: skip
