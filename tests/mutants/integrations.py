"""Changes of the adapters of other frameworks that some test must notice."""

from tests.mutants.mutant import Mutant

ATTACH = ("integrations/test_attach.py",)
LIGHTNING = ("integrations/test_lightning.py",)
FRAMEWORKS = "integrations/test_frameworks.py::test_"
LITERAL = (f"{FRAMEWORKS}training_is_the_literal_loop",)
SCALER = (f"{FRAMEWORKS}a_grad_scaler_is_invisible",)
REFUSED = (f"{FRAMEWORKS}closures_are_refused_where_they_cannot_be_right",)
TOLERANCE = (f"{FRAMEWORKS}a_tolerance_of_the_user_stays",)

MUTANTS = [
    Mutant("a scaled loss handed over", "integrations/common.py",
           "else loss / scaler.scale(torch.ones_like(loss))", "else loss", SCALER),
    Mutant("a line search of one micro-batch", "integrations/common.py",
           "if batches[1] > 1:", "if False:", REFUSED),
    Mutant("a closure for a scaler", "integrations/common.py",
           "    if scaler is not None:", "    if False:", REFUSED),
    Mutant("a tolerance for full precision", "integrations/common.py",
           "if bf16[1] and group", "if group", TOLERANCE),
    Mutant("another tolerance than the user's", "integrations/common.py",
           'if bf16[1] and group.get("loss_eps", 0.0) is None:', "if bf16[1]:", TOLERANCE),
    Mutant("two callbacks", "integrations/lightning.py",
           "for callback in callbacks) > 1", "for callback in callbacks) > 2", LIGHTNING),
    Mutant("losses of manual optimization twice", "integrations/lightning.py",
           "if not pl_module.automatic_optimization:", "if False:", LIGHTNING),
    Mutant("a sum of losses for a mean of gradients", "integrations/accelerate.py",
           "loss.detach() / accelerator.gradient_accumulation_steps", "loss.detach()", LITERAL),
    Mutant("the loss of a skipped step stays", "integrations/transformers.py",
           "            forget_stale(inner)\n", "            pass\n",
           ("integrations/test_transformers.py",)),
    Mutant("losses dropped at every micro-batch", "integrations/common.py",
           '    if all(param.grad is None and not hasattr(param, "to_local") for param in params):\n',
           "    if params:\n", ATTACH),
    Mutant("a loss attached without its factor", "integrations/common.py",
           "unscaled(known, self._scaler) * factor", "unscaled(known, self._scaler)", ATTACH),
    *(Mutant("a handed-over loss that is too large", "optim/optimizer.py",
             "value, handed_over = self._measure.scalar(value)",
             "value, handed_over = 1.5 * self._measure.scalar(value)", where)
      for where in (LITERAL, SCALER)),
]  # fmt: skip
