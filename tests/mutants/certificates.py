"""Changes of the certificates that some test must notice."""

from tests.mutants.mutant import Mutant

THEORY = ("theory", "certificates", "problems", "conformance/test_batch.py")

MUTANTS = [
    Mutant("the mean without its standard error", "certificates/measured.py",
           "mean - error, bound", "mean, bound", THEORY),
    Mutant("a check that cannot fail", "certificates/check.py",
           "return bool((self.slacks >= -self.tolerance)[applies].all())", "return True", THEORY),
    Mutant("lower bounds checked as upper ones", "certificates/check.py",
           "return -slacks if self.lower else slacks", "return slacks", THEORY),
    Mutant("the least mean not accumulated", "certificates/standard.py",
           "measured=np.minimum.accumulate(each.measured)", "measured=each.measured", THEORY),
    Mutant("Theorem 6 measures nothing", "certificates/diminishing.py",
           "gap, floor = run.problem.gap(average), ", "gap, floor = 0.0 * run.problem.gap(average), ", THEORY),
    Mutant("Theorem 7 measures nothing", "certificates/diminishing.py",
           "grad_sq = square(problem.full_gradient(run.path.iterates[:, 1:]))",
           "grad_sq = 0.0 * square(problem.full_gradient(run.path.iterates[:, 1:]))", THEORY),
    Mutant("the recursion's momentum is anything", "certificates/path.py",
           "gamma=record.gamma, eta=record.eta, beta=record.beta",
           "gamma=record.gamma, eta=record.eta, beta=record.beta + 1e3", THEORY),
    Mutant("smooth reset has a smallest step", "certificates/steps.py",
           "elif record.smooth_reset:", "elif False:", THEORY),
    Mutant("any losses are the problem's", "certificates/belonging.py",
           "abs(record.loss - losses) > rounding.loss", "abs(record.loss - losses) > 1e30", THEORY),
    Mutant("any steps are heavy ball", "certificates/path.py",
           "allowed = path.rounding.unit * size + TINY", "allowed = 1e9 * size + TINY", THEORY),
    Mutant("sigma^2 of the problem, whatever the bound", "certificates/measured.py",
           "return problem.sigma2 + max(0.0, float(exact.mean()) - level)", "return problem.sigma2", THEORY),
    Mutant("one start for all", "certificates/standard.py",
           "run.dist_sq()[:, :1], sums.shape", "run.dist_sq()[:1, :1], sums.shape", THEORY),
    Mutant("any rule is certified", "certificates/certify.py",
           "    _ = record.theory  # refuses a rule that no theorem covers\n", "", THEORY),
]  # fmt: skip
