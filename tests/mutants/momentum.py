"""Changes of the momentum forms that some test must notice."""

from tests.mutants.mutant import Mutant

FORMS = ("conformance/test_forms.py",)
FAMILY = ("conformance/test_family.py",)
DECAY = ("conformance/test_averaged.py",)

MUTANTS = [
    Mutant("flip the sign of the momentum", "momentum/heavy_ball.py",
           "motion = momentum * buffer - step * gradient",
           "motion = -momentum * buffer - step * gradient"),
    Mutant("store the momentum as torch's buffer", "momentum/heavy_ball.py",
           "    motion = momentum * buffer - step * gradient\n    return motion, motion\n",
           "    summed = momentum * buffer + gradient\n    return -step * summed, summed\n"),
    Mutant("dampen the buffer of torch", "momentum/torch_buffer.py",
           "return momentum * buffer + gradient", "return momentum * buffer + 0.9 * gradient", FORMS),
    Mutant("an average that is a sum", "momentum/exponential_average.py",
           "(1.0 - weight) * new", "new", FORMS),
    Mutant("look ahead twice", "momentum/nesterov.py",
           "return momentum * ahead - pull, ahead", "return momentum * ahead, ahead", FORMS),
    Mutant("an average that follows in one step", "momentum/averaged.py",
           "return momentum * weight * lead - pull", "return momentum * lead - pull", FORMS),
    Mutant("the lead is not taken in", "momentum/averaged.py",
           "(1.0 - weight) * lead", "lead", FORMS),
    Mutant("points go as far as the iterate", "momentum/averaged.py",
           "pull / (1.0 - momentum)", "pull", FORMS),
    Mutant("decay that is short of the gradient", "momentum/averaged.py",
           "in_the_end(step * decay, momentum)", "step * decay", DECAY),
    Mutant("decay that turns parameters round", "momentum/averaged.py",
           "1.0 / (1.0 + in_the_end(step * decay, momentum))",
           "1.0 - in_the_end(step * decay, momentum)", DECAY),
    Mutant("a diagonal with the bias of its average", "momentum/diagonal.py",
           "return averaged(weight, 1.0, beta2)", "return 0.0 * weight + 1.0", FAMILY),
    Mutant("a diagonal with eps under the root", "momentum/diagonal.py",
           "eps + (squares / weight) ** 0.5", "(eps + squares / weight) ** 0.5", FAMILY),
    Mutant("a diagonal of the last gradient", "momentum/diagonal.py",
           "averaged(squares, gradient * gradient, beta2)",
           "0.0 * squares + gradient * gradient", FAMILY),
]  # fmt: skip
