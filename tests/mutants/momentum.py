"""Changes of the momentum forms that some test must notice."""

from tests.mutants.mutant import Mutant

FORMS = ("conformance/test_forms.py",)

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
           "(1.0 - momentum) * gradient", "gradient", FORMS),
    Mutant("look ahead twice", "momentum/nesterov.py",
           "return momentum * ahead - pull, ahead", "return momentum * ahead, ahead", FORMS),
]  # fmt: skip
