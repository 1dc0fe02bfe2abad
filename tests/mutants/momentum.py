"""Changes of the momentum forms that some test must notice."""

from tests.mutants.mutant import Mutant

FORMS = ("conformance/test_forms.py",)
FAMILY = ("conformance/test_family.py",)
AVERAGED = ("conformance/test_heavystep.py",)

MUTANTS = [
    Mutant("flip the sign of the momentum", "momentum.py",
           "motion = momentum * buffer - step * gradient",
           "motion = -momentum * buffer - step * gradient"),
    Mutant("store the momentum as torch's buffer", "momentum.py",
           "    motion = momentum * buffer - step * gradient\n    return motion, motion\n",
           "    summed = momentum * buffer + gradient\n    return -step * summed, summed\n"),
    Mutant("dampen the buffer of torch", "momentum.py",
           "return momentum * buffer + gradient", "return momentum * buffer + 0.9 * gradient", FORMS),
    Mutant("the lead is not taken in", "momentum.py",
           "(1.0 - weight) * lead", "lead", FORMS),
    Mutant("an average that is a sum", "momentum.py",
           "keeping * old + (1.0 - keeping) * new", "keeping * old + new", FORMS),
    Mutant("look ahead twice", "momentum.py",
           "momentum * ahead - pulled, ahead", "momentum * ahead, ahead", FORMS),
    Mutant("an average that follows in one step", "momentum.py",
           "momentum * weight * lead - (1.0 - momentum) * pulled",
           "momentum * lead - (1.0 - momentum) * pulled", FORMS),
    Mutant("points go as far as the iterate", "momentum.py",
           "- (1.0 - momentum) * pulled", "- pulled", FORMS),
    Mutant("decay that turns parameters round", "momentum.py",
           "lambda amount: 1.0 / (1.0 + amount)", "lambda amount: 1.0 - amount", AVERAGED),
    Mutant("a diagonal with eps under the root", "momentum.py",
           "EPS + (squares / weight) ** 0.5", "(EPS + squares / weight) ** 0.5", ("test_units.py",)),
    Mutant("a diagonal with the bias of its average", "momentum.py",
           "(squares / weight) ** 0.5", "squares**0.5", FAMILY),
    Mutant("Adam's eps, which has a unit", "momentum.py", "0.999, 1e-20", "0.999, 1e-8",
           ("test_units.py",)),
    Mutant("a diagonal of the last gradient", "momentum.py",
           "return exponential(squares, square, BETA2)", "return 0.0 * squares + square", FAMILY),
    Mutant("an average with other weights", "momentum.py",
           "(power + 1.0) / (count + (power + 1.0))", "(power + 1.0) / (count + (power + 2.0))",
           AVERAGED),
]  # fmt: skip
