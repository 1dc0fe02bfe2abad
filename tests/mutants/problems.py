"""Changes of the problems that some test must notice."""

from tests.mutants.mutant import Mutant

KERNELS = ("lab/test_simulation.py", "test_problems.py")
REDUCED = ("lab/test_reduced.py", "test_problems.py")
THEORY = ("theory", "certificates", "test_problems.py")

MUTANTS = [
    Mutant("smoothness of the cosine", "problems/cosine.py", "3.0 * ", "2.0 * ", THEORY),
    Mutant("an empty row can be fitted", "problems/logistic.py",
           "np.diff(self.rows.indptr) > 0, 0.0, np.log(2.0)", "np.diff(self.rows.indptr) > 0, 0.0, 0.0", KERNELS),
    Mutant("lengths without the largest entry", "problems/logistic.py",
           "Array = largest * np.sqrt(", "Array = np.sqrt(", ("test_problems.py",)),
    Mutant("smoothness of the surrogates", "problems/variance_reduced.py",
           "return self.problem.L + self.curvature", "return self.problem.L", REDUCED),
    Mutant("another default of the curvature", "problems/variance_reduced.py",
           "SHARE = 0.1", "SHARE = 1.0", REDUCED),
]  # fmt: skip
