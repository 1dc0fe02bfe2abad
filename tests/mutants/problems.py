"""Changes of the problems that some test must notice."""

from tests.mutants.mutant import Mutant

KERNELS = ("lab/test_simulation.py", "test_problems.py")
THEORY = ("theory", "certificates", "test_problems.py")

MUTANTS = [
    Mutant("smoothness of the cosine", "problems/cosine.py", "3.0 * ", "2.0 * ", THEORY),
    Mutant("an empty row can be fitted", "problems/logistic.py",
           "np.diff(self.rows.indptr) > 0, 0.0, np.log(2.0)", "np.diff(self.rows.indptr) > 0, 0.0, 0.0", KERNELS),
    Mutant("lengths without the largest entry", "problems/logistic.py",
           "Array = largest * np.sqrt(", "Array = np.sqrt(", ("test_problems.py",)),
]  # fmt: skip
