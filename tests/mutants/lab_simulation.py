"""Changes of simulations, sweeps and figures that some test must notice."""

from tests.mutants.mutant import Mutant

LOOP = ("lab/test_simulation.py",)
SWEEPS = ("lab/test_sweeps.py",)
CACHE = ("lab/test_kernel_cache.py",)
FIGURES = ("lab/test_figure1.py", "lab/test_figure2.py")

MUTANTS = [
    Mutant("momentum of the next step", "lab/simulation/loop.py",
           "beta, constants = scene.momentum[row],", "beta, constants = scene.momentum[0],", LOOP),
    Mutant("a step without its multiplier", "lab/simulation/loop.py",
           "gamma = scene.lr[row] * search.step", "gamma = search.step", LOOP),
    Mutant("memory that is not kept", "lab/simulation/loop.py",
           "keep(state.memory, retain(constants, memory, seen, search))", "pass", LOOP),
    Mutant("subnormal numbers carried on", "lab/simulation/loop.py",
           "buffer[j] = kept if abs(kept) > TINY else 0.0", "buffer[j] = kept", LOOP),
    Mutant("metrics one step late", "lab/simulation/loop.py",
           "scene.grid[recorded] == k + 1", "scene.grid[recorded] == k", LOOP),
    Mutant("a batch's gradient that is a sum", "lab/simulation/problems.py",
           "            g[j] /= size\n", "            g[j] /= 1.0\n", LOOP),
    Mutant("half a tilt", "lab/simulation/problems.py",
           "g[j] -= data.xi[i, j] / size", "g[j] -= 0.5 * data.xi[i, j] / size", LOOP),
    Mutant("the start among the points after it", "lab/simulation/loop.py",
           "if k > 0 and full <", "if full <", LOOP),
    Mutant("a kernel whatever its digest", "lab/simulation/compiling.py",
           "if ours and digest ==", "if ours or digest ==", CACHE),
    Mutant("rules that are no source of kernels", "lab/simulation/compiling.py",
           '("rules", "momentum.py",', '("momentum.py",', CACHE),
    Mutant("complete runs made again", "lab/sweeps.py",
           "if (columns := store.load(key, run.text())) is not None:", "if (columns := None):", SWEEPS),
    Mutant("a lost worker that ends the sweep", "lab/sweeps.py",
           "if losses == TRIES:", "if losses:", SWEEPS),
    Mutant("damage that is not looked for", "lab/store.py",
           "    if not same:\n", "    if False:\n", SWEEPS),
    Mutant("a rate that need not be one", "lab/figures/figure1.py",
           "SLOPE = -0.95", "SLOPE = 0.95", FIGURES),
    Mutant("lower where it is higher", "lab/figures/measures.py",
           "found[name] < 1.0 for", "found[name] > 0.0 for", FIGURES),
]  # fmt: skip
