"""Changes of data sets, trainer and comparison that some test must notice."""

from tests.mutants.mutant import Mutant

DATA, RUNS, TRAINER = (
    ("lab/test_data.py",),
    ("lab/test_training_runs.py",),
    ("lab/test_training.py",),
)
COMPARE = ("lab/test_compare.py",)
REPORT, COST = ("lab/test_report.py",), ("lab/test_cost.py",)
HERE = "lab/training/"

MUTANTS = [
    Mutant("any text is right", "lab/data.py", "if sha256 not in digests:", "if not digests:", DATA),
    Mutant("the smaller label is +1", "lab/data.py", "labels == kinds[1]", "labels == kinds[0]", DATA),
    Mutant("columns counted from 0", "lab/data.py", "zero_based=False", "zero_based=True", DATA),
    Mutant("what unpacks may be huge", "lab/data.py", "read(limit)", "read()", DATA),
    Mutant("images: the coarse label", "lab/data.py", "records[:, -PIXELS - 1]",
           "records[:, 0]", DATA),
    Mutant("a download that is not checked", "lab/data.py", "whole = _checked(known, contents, [known.url] * len(known.files))", "whole = contents", DATA),
    Mutant("any checkpoint is whole", HERE + "epochs.py", "if hashlib.sha256(whole[32:]).digest() != whole[:32]:", "if False:", TRAINER),
    Mutant("any run's checkpoint", HERE + "epochs.py", 'made_by != run', "False", TRAINER),
    Mutant("bad steps are kept", HERE + "runs.py", "        if not bad:\n", "        if True:\n", RUNS),
    Mutant("fewer epochs replace more", HERE + "runs.py",
           "len(trainer.history) > len(run.history(folder))", "True", RUNS),
    Mutant("a killed run begins its epoch again", HERE + "epochs.py",
           '* self.work.train.batches + state["done"]', "* self.work.train.batches", TRAINER),
    Mutant("a refused step counts", HERE + "epochs.py", "self.sums[REFUSED].add_(one - accepted.to(torch.float64))",
           "self.sums[REFUSED].add_(accepted.to(torch.float64))", TRAINER),
    Mutant("the stream is not kept", HERE + "epochs.py",
           'torch.set_rng_state(state["streams"]["cpu"])', "pass", TRAINER),
    Mutant("evaluated as it trains", HERE + "trainer.py", "        self.network.eval()\n", "", TRAINER),
    Mutant("crops without flips", HERE + "images.py", "flip[:, None] == 1", "flip[:, None] == 2", TRAINER),
    Mutant("a shortcut is left out", HERE + "networks.py", "residual + self.shortcut(x)", "residual", TRAINER),
    Mutant("no warm-up", "lab/comparison/train.py", "return rising * 0.5", "return 0.5", COMPARE),
    Mutant("runs that diverge go on", "lab/comparison/train.py",
           "if not torch.stack(finite).all():", "if False:", COMPARE),
    Mutant("the evaluation draws from the run", HERE + "trainer.py",
           "torch.manual_seed(EVALUATION_SEED)", "pass", COMPARE),
    Mutant("regret of the loss alone", "lab/comparison/table.py",
           "100.0 * (loss - self.best[0]) / gained", "100.0 * loss / gained", COMPARE),
    Mutant("a failed run counts as the best", "lab/comparison/table.py", "math.isnan(s - v) or", "", COMPARE),
    Mutant("more is never better", "lab/comparison/table.py", 'means("metric", better)', 'means("metric", LOWER)', COMPARE),
    Mutant("a cut line counts", "lab/comparison/table.py",
           'if len(n["key"] or "") == KEY', "if True", COMPARE),
    Mutant("other formulas have the same keys", "lab/comparison/contenders.py",
           "str(FORMULAS.get(kind.rule.name, 1))", '"1"', COMPARE),
    Mutant("a contender without its default counts", "lab/comparison/plans.py",
           "if contender_of(name).default in e}", "}", COMPARE),
    Mutant("the grid is off", "lab/comparison/contenders.py", "10.0**power", "9.0**power", COMPARE),
    Mutant("texts are not escaped", "lab/report.py", "escape(str(cell)), ", "str(cell), ", REPORT),
    Mutant("seeds are curves", "lab/report.py", '        run.pop("seed", None)\n', "", REPORT),
    Mutant("the longest time counts", "lab/cost/networks.py", "name: min(times)", "name: max(times)", COST),
]  # fmt: skip
