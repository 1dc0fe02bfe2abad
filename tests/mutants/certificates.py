"""Changes of the certificates that some test must notice."""

from tests.mutants.mutant import Mutant

CERTIFICATES = ("certificates",)
THEORY = ("theory", *CERTIFICATES, "test_problems.py")

MUTANTS = [
    Mutant("the mean without its standard error", "certificates/theorems.py",
           "runs.mean(axis=0) - runs.std(axis=0, ddof=1) / np.sqrt(len(runs))", "runs.mean(axis=0)", THEORY),
    Mutant("a check that cannot fail", "certificates/check.py",
           "return bool((self.slacks >= -self.tolerance)[applies].all())", "return True", THEORY),
    Mutant("lower bounds checked as upper ones", "certificates/check.py",
           "return -slacks if self.lower else slacks", "return slacks", THEORY),
    Mutant("the least mean not accumulated", "certificates/theorems.py",
           "np.minimum.accumulate(measured) if", "measured if", THEORY),
    Mutant("theorems are not checked under their names", "certificates/theorems.py",
           "return Check(result, measure.text, *kept)", "return Check(result + \" unmeasured\", measure.text, *kept)", THEORY),
    Mutant("Theorems 3 and 7 measure nothing", "certificates/theorems.py",
           "return k, measure.of(run, promised), bound",
           "return k, measure.of(run, promised) * (1.0 - measure.least), bound", THEORY),
    Mutant("the recursion's momentum is anything", "certificates/lemmas.py",
           "gamma=record.gamma, eta=record.eta, beta=record.beta",
           "gamma=record.gamma, eta=record.eta, beta=record.beta + 1e3", THEORY),
    Mutant("smooth reset has a smallest step", "certificates/lemmas.py",
           "if record.smooth_reset:", "if False:", THEORY),
    Mutant("any losses are the problem's", "certificates/run.py",
           "abs(record.loss - losses) > self.loss_error", "abs(record.loss - losses) > 1e30", THEORY),
    Mutant("any steps are heavy ball", "certificates/lemmas.py",
           "allowed = run.unit * size + TINY", "allowed = 1e9 * size + TINY", THEORY),
    Mutant("sigma^2 of the problem, whatever the bound", "certificates/theorems.py",
           "return problem.sigma2 + max(0.0, float(exact.mean()) - level)", "return problem.sigma2", THEORY),
    Mutant("one start for all", "certificates/theorems.py",
           "run.dist_sq()[:, :1], sums.shape", "run.dist_sq()[:1, :1], sums.shape", THEORY),
    Mutant("any rule is certified", "certificates/certify.py",
           "    _ = record.theory  # refuses a rule that no theorem covers\n", "", THEORY),
    Mutant("Theorem 4 with noise", "certificates/theorems.py",
           'if convex and "sigma2" not in names and sigma2 > 0.0:', "if False:", CERTIFICATES),
    Mutant("any theorem will do, whatever was asked", "certificates/check.py",
           "return all(result in self for result in self.asked)", "return True", CERTIFICATES),
    Mutant("samples that are never too uneven", "certificates/lemmas.py",
           "limit = (cells - 1) * (1.0", "limit = 1e9 * (cells - 1) * (1.0", CERTIFICATES),
    Mutant("the bias of all steps", "certificates/lemmas.py",
           ">= record.steps // 2", ">= 0", CERTIFICATES),
    Mutant("a tail that begins one step later", "certificates/theorems.py",
           "terms[..., first:last, :]", "terms[..., first + 1 : last + 1, :]", CERTIFICATES),
]  # fmt: skip
