"""Changes of the bounds of losses that some test must notice."""

from tests.mutants.mutant import Mutant

BOUNDS = ("test_lower_bounds.py",)

MUTANTS = [
    Mutant("the weights of a target as if they summed to 1", "lower_bounds.py",
           "(entropies - _h(total)).sum()", "entropies.sum()", BOUNDS),
    Mutant("a smoothed class counted beside its peak", "lower_bounds.py",
           "entropies - _h(base * own) + _h", "entropies + _h", BOUNDS),
    Mutant("smoothing without class weights", "lower_bounds.py",
           "base * entropy + weights", "weights", BOUNDS),
    Mutant("a mean over labels that do not count", "lower_bounds.py",
           "own = counts.to(dtype)", "own = torch.ones_like(labels, dtype=dtype)", BOUNDS),
    Mutant("mixed labels that agree", "lower_bounds.py",
           "[(one + other * agree, first), (other * ~agree, second)]",
           "[(one, first), (other, second)]", BOUNDS),
    Mutant("probabilities that are not smoothed", "lower_bounds.py",
           "    if eps:\n", "    if False:\n", BOUNDS),
    Mutant("a teacher without its temperature squared", "lower_bounds.py",
           "temperature**2 * bound if", "temperature * bound if", BOUNDS),
    Mutant("soft targets in their short format", "lower_bounds.py",
           "torch.promote_types(tensor.dtype, torch.float32)", "tensor.dtype", BOUNDS),
]  # fmt: skip
