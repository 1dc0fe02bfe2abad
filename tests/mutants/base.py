"""Changes of the modules that every room may use that some test must notice."""

from tests.mutants.mutant import Mutant

MUTANTS = [
    Mutant("lengths without the largest entry", "sparse.py",
           "return largest * np.sqrt(", "return np.sqrt(", ("lab/test_data.py", "test_problems.py")),
]  # fmt: skip
