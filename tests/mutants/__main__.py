"""Break the code on purpose, one change at a time: some test must turn red.

Run with ``make mutants``, or ``python -m tests.mutants armijo`` for some of them. Each mutant is
made in a copy of the source tree; the copy is imported instead of the package, and the tests that it
names run until the first failure, without slow ones where those are all tests of the optimizers. A
mutant that no test notices makes this program fail.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.helpers.places import ROOT
from tests.mutants.mutant import Mutant, everyone

TIMEOUT = 600
# They read the source of the project, in which every mutant would be noticed.
READ_THE_SOURCE = ("test_architecture.py", "test_mutants.py")


def first_failure(mutant: Mutant) -> str | None:
    """The first test that notices, or None."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source)
        path = source / "heavystep" / mutant.file
        text = path.read_text()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.name}: {mutant.old!r} occurs {text.count(mutant.old)} times")
        path.write_text(text.replace(mutant.old, mutant.new))
        command = [sys.executable, "-m", "pytest", *mutant.tests(), "-x", "-q", "-p",
                   "no:cacheprovider", *mutant.leave_out(), "--no-header",
                   *(f"--ignore={ROOT / 'tests' / name}" for name in READ_THE_SOURCE)]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1",
                       "OMP_NUM_THREADS": "1"}  # fmt: skip
        try:
            run = subprocess.run(
                command,
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return f"no end after {TIMEOUT} s"
    if run.returncode not in (0, 1):
        raise SystemExit(f"{mutant.name}: pytest did not run\n{run.stdout}\n{run.stderr}")
    seen = [line for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return seen[0].partition(" ")[2].split(" - ")[0].split("tests/")[-1] if seen else None


def main() -> None:
    """Try every mutant and print who noticed."""
    missed = 0
    chosen = [m for m in everyone() if all(word in f"{m.name} {m.file}" for word in sys.argv[1:])]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for mutant, noticed in zip(chosen, pool.map(first_failure, chosen), strict=True):
            missed += noticed is None
            print(f"{mutant.name}: {noticed or 'NOBODY NOTICED'}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} mutants noticed")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
