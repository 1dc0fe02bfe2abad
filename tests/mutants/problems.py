"""Changes of the problems that some test must notice."""

from tests.mutants.mutant import Mutant

KERNELS = ("conformance/test_linear.py",)
THEORY = ("theory", "certificates", "problems", "conformance/test_batch.py")

MUTANTS = [
    Mutant("smoothness of the cosine", "problems/cosine.py", "3.0 * ", "2.0 * ", THEORY),
    Mutant("an empty row can be fitted", "problems/sparse_logistic.py",
           "> 0, 0.0, np.log(2.0)", "> 0, 0.0, 0.0", KERNELS),
]  # fmt: skip
