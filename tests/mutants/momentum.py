"""Changes of the momentum forms that some test must notice."""

from tests.mutants.mutant import Mutant

FORMS = ("conformance/test_forms.py",)
FAMILY = ("conformance/test_family.py",)
DECAY = ("conformance/test_averaged.py",)

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
]  # fmt: skip
