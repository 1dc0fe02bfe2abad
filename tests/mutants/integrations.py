"""Changes of the adapters of other frameworks that some test must notice."""

from tests.mutants.mutant import Mutant

LIGHTNING = ("integrations/test_lightning.py",)
ACCELERATE = ("integrations/test_accelerate.py",)
HUGGING_FACE = ("integrations/test_transformers.py",)
ATTACH = ("integrations/test_attach.py",)
GRAD_SCALER = ("integrations/test_gradscaler.py",)

MUTANTS = [
    Mutant("a scaled loss handed over", "integrations/common.py",
           "else loss / scaler.scale(torch.ones_like(loss))", "else loss", LIGHTNING),
    Mutant("a line search of one micro-batch", "integrations/lightning.py",
           "if micro_batches > 1:", "if False:", LIGHTNING),
    Mutant("a tolerance for full precision", "integrations/lightning.py",
           'if trainer.precision == "bf16-mixed":', "if True:", LIGHTNING),
    Mutant("two callbacks", "integrations/lightning.py",
           "for callback in callbacks) > 1", "for callback in callbacks) > 2", LIGHTNING),
    Mutant("losses of manual optimization twice", "integrations/lightning.py",
           "if not pl_module.automatic_optimization:", "if False:", LIGHTNING),
    Mutant("another tolerance than the user's", "integrations/common.py",
           'if group.get("loss_eps", 0.0) is None:', "if True:", LIGHTNING),
    Mutant("a sum of losses for a mean of gradients", "integrations/accelerate.py",
           "loss.detach() / accelerator.gradient_accumulation_steps", "loss.detach()", ACCELERATE),
    Mutant("a closure for a scaler", "integrations/accelerate.py",
           "if accelerator.scaler is not None:", "if False:", ACCELERATE),
    Mutant("the loss of a skipped step stays", "integrations/transformers.py",
           "            forget_stale(inner)\n", "            pass\n", HUGGING_FACE),
    Mutant("losses dropped at every micro-batch", "integrations/common.py",
           '    if all(param.grad is None and not hasattr(param, "to_local") for param in params):\n',
           "    if params:\n", HUGGING_FACE),
    Mutant("a line search made by Trainer", "integrations/transformers.py",
           "if issubclass(chosen, RuleOptimizer) and chosen.method.rule.searches:", "if False:",
           HUGGING_FACE),
    Mutant("a loss attached without its factor", "integrations/common.py",
           "unscaled(loss.to(wide) * factor, self._scaler)", "unscaled(loss.to(wide), self._scaler)",
           ATTACH),
    *(Mutant("a handed-over loss that is too large", "optim/optimizer.py",
             "value, handed_over = self._measure.scalar(value)",
             "value, handed_over = 1.5 * self._measure.scalar(value)", where)
      for where in (LIGHTNING, ACCELERATE, HUGGING_FACE, GRAD_SCALER)),
]  # fmt: skip
