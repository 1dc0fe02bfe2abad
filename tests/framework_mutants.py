"""Changes of what optimizers and frameworks hand over that some test must notice."""

from mutant import Mutant

HAND_OVER = ("torch_contract/test_hand_over.py",)
LIGHTNING = ("frameworks/test_lightning.py",)
ACCELERATE = ("frameworks/test_accelerate.py",)
HUGGING_FACE = ("frameworks/test_transformers.py",)
GRAD_SCALER = ("frameworks/test_gradscaler.py",)

FRAMEWORK_MUTANTS = [
    Mutant("the last loss for all that were handed over", "optim/handed_over.py",
           "[self._sum[0] + loss]", "[loss]", HAND_OVER),
    Mutant("a handed-over loss used twice", "optim/handed_over.py",
           "return self._sum.pop()", "return self._sum[0]", HAND_OVER),
    Mutant("a handed-over loss that changes afterwards", "optim/handed_over.py",
           "[loss.clone()]", "[loss]", HAND_OVER),
    Mutant("a handed-over loss without gradients goes unnoticed", "optim/handed_over.py",
           "if self and all(", "if False and all(", HAND_OVER),
    Mutant("handed-over losses outlive their gradients", "optim/takes_losses.py",
           "        self._handed_over.drop()\n", "", HAND_OVER),
    Mutant("a handed-over loss copied without its gradient", "optim/takes_losses.py",
           '"_handed_over": HandedOver()}', '"_handed_over": self._handed_over}', HAND_OVER),
    Mutant("a closure's loss for all that were handed over", "optim/closure.py",
           "if handed_over and not leaves_backward:", "if False:", HAND_OVER),
    Mutant("a closure that does not hand over", "optim/closure.py",
           "if fired and handed_over.sum is before:", "if False:", HAND_OVER),
    Mutant("a handed-over loss for fresh gradients", "optim/closure.py",
           "        handed_over.drop()\n", "", HAND_OVER),
    Mutant("a loss of the last micro-batch goes unnoticed", "optim/closure.py",
           "return Evaluated(loss, fired, watch.added)", "return Evaluated(loss, fired)", HAND_OVER),
    Mutant("zeroed gradients taken for added ones", "optim/closure.py",
           "self._changes(self._witness) == 1", "self._changes(self._witness) is not None", HAND_OVER),
    Mutant("a handed-over loss lost in a warm-up", "optim/base.py",
           "if self._handed_over or self.state:", "if self.state:", HAND_OVER),
    Mutant("a handed-over loss and another one", "optim/base.py",
           "if loss is not None and self._handed_over:", "if False:", HAND_OVER),
    Mutant("a scaled loss handed over", "integrations/lightning.py",
           "return loss / factor", "return loss", LIGHTNING),
    Mutant("a line search of one micro-batch", "integrations/lightning.py",
           "if micro_batches > 1:", "if False:", LIGHTNING),
    Mutant("a tolerance for full precision", "integrations/lightning.py",
           'if trainer.precision == "bf16-mixed":', "if True:", LIGHTNING),
    Mutant("two callbacks", "integrations/lightning.py",
           "for callback in callbacks) > 1", "for callback in callbacks) > 2", LIGHTNING),
    Mutant("losses of manual optimization twice", "integrations/lightning.py",
           "if not pl_module.automatic_optimization:", "if False:", LIGHTNING),
    Mutant("another tolerance than the user's", "integrations/wrapped.py",
           'if group["loss_eps"] is None:', "if True:", LIGHTNING),
    Mutant("a sum of losses for a mean of gradients", "integrations/accelerate.py",
           "loss.detach() / accelerator.gradient_accumulation_steps", "loss.detach()", ACCELERATE),
    Mutant("a closure for a scaler", "integrations/accelerate.py",
           "if accelerator.scaler is not None:", "if False:", ACCELERATE),
    Mutant("the loss of a skipped step stays", "integrations/transformers.py",
           "            inner.zero_grad()\n", "            pass\n", HUGGING_FACE),
    Mutant("gradients zeroed at every micro-batch", "integrations/transformers.py",
           "self._begins_anew = self.accelerator.sync_gradients", "self._begins_anew = True",
           HUGGING_FACE),
    Mutant("losses of an interrupted run stay", "integrations/transformers.py",
           "        self._begins_anew = True\n        return super().train", "        return super().train",
           HUGGING_FACE),
    Mutant("losses of a failed micro-batch stay", "integrations/transformers.py",
           "        self._begins_anew = True  # if this micro-batch fails\n", "", HUGGING_FACE),
    Mutant("a line search made by Trainer", "integrations/transformers.py",
           "if isinstance(chosen, type) and issubclass", "if False and issubclass", HUGGING_FACE),
    *(Mutant("a handed-over loss that is too large", "optim/takes_losses.py",
             "add(as_scalar(", "add(1.5 * as_scalar(", where)
      for where in (LIGHTNING, ACCELERATE, HUGGING_FACE, GRAD_SCALER)),
]  # fmt: skip
