"""Changes of engines and sweeps that some test must notice."""

from mutant import Mutant

RAY = ("sweeps/test_ray.py",)
ENGINES = ("sweeps/test_engines.py",)
RUNNER = ("experiments/test_figure1.py",)

SWEEP_MUTANTS = [
    Mutant("a failure fails the job at once", "sweeps/ray_engine.py",
           "TRIES = 3\n", "TRIES = 1\n", RAY),
    Mutant("a failed job is tried for ever", "sweeps/ray_engine.py",
           "if counts[place] == limit:", "if counts[place] == 100:", RAY),
    Mutant("a lost job is forgotten", "sweeps/ray_engine.py",
           "            self._waiting.appendleft(place)\n", "", RAY),
    Mutant("a lost node fails its jobs", "sweeps/ray_engine.py",
           "LOSSES = 10\n", "LOSSES = 1\n", RAY),
    Mutant("workers with a thread a core", "sweeps/ray_engine.py",
           "{**ours, **ONE_THREAD}", "ours", RAY),
    Mutant("workers that do not know where data are", "sweeps/ray_engine.py",
           "{**ours, **ONE_THREAD}", "ONE_THREAD", RAY),
    Mutant("data built for each job", "sweeps/ray_engine.py",
           "if job.data not in self._sent:", "if job.data is not None:", RAY),
    Mutant("tasks go on when nobody waits", "sweeps/ray_engine.py",
           "ray.cancel(task, force=True)", "pass", RAY),
    Mutant("workers with other mathematics", "sweeps/ray_engine.py",
           "if theirs != sources():", "if False:", RAY),
    Mutant("as many tasks as cores, whatever was asked", "sweeps/ray_engine.py",
           "self._most or IN_ADVANCE", "IN_ADVANCE", RAY),
    Mutant("another program's connection closed", "sweeps/ray_engine.py",
           "        yield\n        return\n", "        yield\n        ray.shutdown()\n        return\n", RAY),
    Mutant("a job that fails stops the others", "sweeps/engines.py",
           "outcome = Outcome(place, failure=traceback.format_exc())", "raise", ENGINES),
    Mutant("a stopped engine goes through all jobs", "sweeps/engines.py",
           "        pool.shutdown(cancel_futures=True)", "        pool.shutdown()", ENGINES),
    Mutant("failed runs are silent", "sweeps/runner.py",
           "    if failed:\n", "    if False:\n", RUNNER),
    Mutant("a traceback for each seed", "sweeps/runner.py",
           "                if key not in failed:", "                if True:", RUNNER),
    Mutant("a run kept without its last seed", "sweeps/runner.py",
           "if len(parts[key]) == missing[key].seeds:", "if len(parts[key]) == 1:", RUNNER),
    Mutant("a folder that only one node sees", "sweeps/training.py",
           "if not (out / MARK).exists():", "if False:", ENGINES),
    Mutant("failed training runs are silent", "sweeps/training.py",
           "    if failed:\n", "    if False:\n", ENGINES),
    Mutant("training from the start on a cluster", "training/runner.py",
           "epochs - (0 if force else _begun(run, store))", "epochs", ENGINES),
]  # fmt: skip
