"""Changes of the measurements and the model of many ranks that some test must notice."""

from tests.mutants.mutant import Mutant

SCALING = ("bench/test_scaling.py",)
BENCH = ("bench/test_distributed.py",)

MUTANTS = [
    Mutant("a tree without its last level", "bench/scaling.py",
           "return 2 * math.ceil(", "return 2 * math.floor(", SCALING),
    Mutant("one rank sends itself its gradients", "bench/scaling.py",
           "rounds = 2 * (ranks - 1) / ranks", "rounds = 2", SCALING),
    Mutant("gradients travel after the backward", "bench/scaling.py",
           " - BACKWARD * workload.step\n", "\n", SCALING),
    Mutant("a trial without its message", "bench/scaling.py",
           "trial = workload.trial + message(ranks, network)", "trial = workload.trial", SCALING),
    Mutant("more ranks than allowed", "bench/scaling.py",
           "doublings = math.floor(", "doublings = math.ceil(", SCALING),
    Mutant("all evaluations are trials", "bench/distributed.py",
           "contestant.evaluations - contestant.steps", "contestant.evaluations", BENCH),
    Mutant("elements for bytes", "bench/distributed.py",
           "sent.numel() * sent.element_size()", "sent.numel()", BENCH),
    Mutant("gradients among the optimizer's messages", "bench/distributed.py",
           "= real(mean, async_op=True)", "= distributed.all_reduce(mean, async_op=True)", BENCH),
]  # fmt: skip
