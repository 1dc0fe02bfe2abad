"""Write ``docs/scaling.md`` from the model and the measured figures in ``docs/scaling.json``.

python docs/make_scaling.py, or ``make scaling`` to measure anew before.
"""

import json
from pathlib import Path

from heavystep.bench.distributed_ranks import stored
from heavystep.bench.scaling import (
    Network,
    Workload,
    armijo_step,
    gradients,
    message,
    most_ranks,
    polyak_step,
    sgd_step,
    shortest_step,
    steps_to_save,
)

DOCS = Path(__file__).parent
RANKS = (1, 2, 8, 64, 512, 4096)
NETWORKS = {
    "InfiniBand": Network(hop=5e-6, bandwidth=40e9),
    "Ethernet": Network(hop=25e-6, bandwidth=2.5e9),
}
WORKLOADS = {
    # performance.md: 4.67 ms a step and 1.02 trials; what SHBArmijo adds to SHBPolyak, by trial.
    "ResNet-18": Workload(
        step=4.67e-3, trial=(6.95e-3 - 4.78e-3) / 1.02, gradient_bytes=4 * 11.2e6, trials=1.02
    ),
    "transformer, 1e9 parameters": Workload(
        step=0.4, trial=0.4 / 3, gradient_bytes=2 * 1e9, trials=1.02
    ),
}
HEAD = """# Many ranks: what a step costs, and where the line search stops paying

This page is generated (`make scaling`); the formulas are those of
`heavystep.bench.scaling`. **Measured** is what a few processes on one small machine did
(`heavystep bench distributed`). **Modelled** is everything beyond: no run had more ranks than the
first table has, and none had a network of the kind assumed below.

"""
MODEL = [
    ("an all-reduce of a few numbers, up a binary tree and down", "m(p) = 2 ceil(log2 p) alpha",
     message),
    ("the all-reduce of the gradients", "G(p) = m(p) + 2 (p - 1)/p bytes/bandwidth", gradients),
    ("a step of SGD, gradients travelling during the backward (2/3 of a step)",
     "T(p) = T(1) + max(0, G(p) - 2/3 T(1))", sgd_step),
    ("a step of SHBPolyak", "T(p) + m(p)", polyak_step),
    ("a step of SHBArmijo, with t trials of F seconds each", "T(p) + m(p) + t (F + m(p))",
     armijo_step),
    ("the share of Polyak's steps that Armijo must save", "1 - T_Polyak(p) / T_Armijo(p)",
     steps_to_save),
    ("ranks up to which n messages take at most a share x of T", "p = 2^floor(x T / (2 alpha n))",
     most_ranks),
    ("the step of which n messages are a share x", "T = n m(p) / x", shortest_step),
]  # fmt: skip
CHOICES = """
Gradients overlap with the whole backward, and their latency is a tree's, not a ring's 2 (p - 1)
alpha: both make SGD's step short and the share of other messages large. Left out is waiting: every
all-reduce waits for the slowest rank. Those of the gradients do so too, but each message more is
one occasion more. Left out is also what does not grow with p, the pass over the gradients for their
norm (2% of a step of ResNet-18 on an H200, [costs](performance.md)).
"""
ASSUMED = """
## Assumed

None of this was measured here. Typical values, to be replaced by one's own (alpha is half of what
`heavystep bench distributed` prints for two ranks):

| network | alpha | bandwidth a rank |
|---|---|---|
"""


def main():
    """Write the page."""
    (DOCS / "scaling.md").write_text(render())


def render() -> str:
    """The page."""
    about = json.loads((DOCS / "scaling.json").read_text())
    costs = stored(DOCS / "scaling.json")
    parts = [HEAD + summary(), measured(about, costs), model(), check(costs) + ASSUMED + assumed()]
    parts += [table(*each) for each in WORKLOADS.items()]
    return "\n".join([*parts, limits(), short_steps(costs)])


def summary() -> str:
    """The page in three sentences."""
    most, fast = RANKS[-1], NETWORKS["InfiniBand"]
    short, long = WORKLOADS.values()
    shares = [
        polyak_step(most, load, fast) / sgd_step(most, load, fast) - 1 for load in (short, long)
    ]
    saved = [steps_to_save(1, load, fast) for load in (short, long)]
    return (
        f"In short: `SHBPolyak` adds one message of three numbers a step. On {most} ranks and "
        f"InfiniBand that is {shares[0]:.1%} of a step of {short.step * 1e3:.1f} ms and "
        f"{shares[1]:.2%} of one of {long.step * 1e3:.0f} ms. `SHBArmijo` adds one message and one "
        "forward a trial. The forwards are what costs: to end at the same time on one rank, and on "
        f"thousands with a fast network, it must need {saved[1]:.0%} to {saved[0]:.0%} fewer steps "
        "than `SHBPolyak`. "
        "Messages matter where steps are very short, the network is slow or ranks wait for each "
        "other.\n"
    )


def model() -> str:
    """The formulas and where they stand."""
    lines = [
        "\n## The model\n",
        "p ranks, alpha = time of a small message from one rank to another, T(1) = step of SGD on "
        "one rank:\n",
        "| quantity | formula | in code |",
        "|---|---|---|",
    ]
    lines += [f"| {text} | {formula} | `{code.__name__}` |" for text, formula, code in MODEL]
    return "\n".join(lines) + "\n" + CHOICES


def measured(about, costs) -> str:
    """What the processes did."""
    lines = [
        "## Measured\n",
        f"{about['versions']}, {about['cores']} CPU cores shared with other work (load average "
        f"before: {about['load']:.1f}), {costs[0].where}, one thread a rank, a network of "
        f"{costs[0].steps[0].gradient_bytes / 4:,.0f} parameters, batches of 64 a rank. Methods "
        "take turns in one run; medians. Where ranks outnumber free cores, the times are mostly "
        "those of processes that wait to be woken.\n",
        "| ranks | method | ms a step | ratio to SGD | own messages a step | own bytes | trials |",
        "|---|---|---|---|---|---|---|",
    ]
    for cost in costs:
        for step in cost.steps:
            ratio = step.seconds / cost.steps[0].seconds
            lines.append(
                f"| {cost.ranks} | {step.what} | {step.seconds * 1e3:.2f} | {ratio:.2f} | "
                f"{step.messages:.2f} | {step.bytes:.1f} | {step.trials:.2f} |"
            )
    first = costs[0].steps[0]
    lines.append(
        f"\nGradients: {first.gradient_messages:.0f} message of {first.gradient_bytes:,.0f} bytes "
        "a step, for all methods alike. Messages and bytes were counted as they were sent, the "
        "optimizer's by a wrapper around `torch.distributed.all_reduce`, the gradients' by a "
        "communication hook of DistributedDataParallel.\n"
    )
    for cost in costs:
        sent = f"an all-reduce of two numbers {cost.latency * 1e6:.0f} us"
        forward = f"a forward without gradients {cost.forward * 1e3:.2f} ms"
        lines.append(f"- ranks: {cost.ranks}; {sent}, {forward}.")
    return "\n".join(lines)


def check(costs) -> str:
    """What the model says about the measured runs."""
    one, *others = costs
    hop = next(cost.latency for cost in others if cost.ranks == 2) / 2
    network = Network(hop, bandwidth=float("inf"))
    lines = [
        "## Does the model hold where it can be checked?\n",
        f"alpha = {hop * 1e6:.0f} us, from two ranks. What a method adds to SGD's step on p ranks "
        "should be what it adds on one rank, where it sends nothing, and m(p) a message; trials "
        "are counted at what a forward takes with p ranks at work.\n",
        "| ranks | m(p), us | measured alone, us | method | added: model, ms | measured, ms | "
        "not in the model, ms a message |",
        "|---|---|---|---|---|---|---|",
    ]
    for cost in others:
        small = message(cost.ranks, network)
        for alone, step in zip(one.steps[1:], cost.steps[1:], strict=True):
            fixed = alone.seconds - one.steps[0].seconds - alone.trials * one.forward
            added = fixed + step.trials * cost.forward + step.messages * small
            seen = step.seconds - cost.steps[0].seconds
            rest = (seen - added) / step.messages
            lines.append(
                f"| {cost.ranks} | {small * 1e6:.0f} | {cost.latency * 1e6:.0f} | {step.what} | "
                f"{added * 1e3:.2f} | {seen * 1e3:.2f} | {rest * 1e3:.2f} |"
            )
    lines.append(
        "\nOn two ranks m(p) is the measured latency by construction, on four the model is low: "
        "they share two cores. Within a step it is a lower bound everywhere: a message there "
        "also waits until the other rank has come as far. On a busy machine with fewer free cores "
        "than ranks that is most of the cost (last column). With a core or a GPU for each rank "
        "there is less to wait for, but not nothing: whoever knows the wait w of an all-reduce "
        "should read m(p) + w for m(p) below.\n"
    )
    return "\n".join(lines)


def assumed() -> str:
    """The networks and the workloads."""
    lines = [
        f"| {name} | {network.hop * 1e6:.0f} us | {network.bandwidth / 1e9:g} GB/s |"
        for name, network in NETWORKS.items()
    ]
    lines += [
        "\n| workload | SGD on one rank | a trial | gradients | trials a step |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {load.step * 1e3:g} ms | {load.trial * 1e3:.3g} ms | "
        f"{load.gradient_bytes / 1e6:g} MB | {load.trials:g} |"
        for name, load in WORKLOADS.items()
    ]
    lines.append(
        "\nResNet-18's times and trials were measured on one H200 ([costs](performance.md): "
        "batches of 256; what SHBArmijo adds to SHBPolyak, by trial). The transformer's are "
        "assumed: a trial is a third of a step, which is what a forward is of forward and "
        "backward.\n"
    )
    return "\n".join(lines)


def table(name, load) -> str:
    """One workload on all networks."""
    lines = [f"## Modelled: {name}\n"]
    for where, network in NETWORKS.items():
        lines += [
            f"{where}:\n",
            "| ranks | SGD, ms | SHBPolyak, ms | ratio | SHBArmijo, ms | ratio | its messages | "
            "its forwards | steps to save |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for ranks in RANKS:
            sgd = sgd_step(ranks, load, network)
            polyak, armijo = (step(ranks, load, network) for step in (polyak_step, armijo_step))
            messages = (1 + load.trials) * message(ranks, network) / armijo
            forwards = load.trials * load.trial / armijo
            lines.append(
                f"| {ranks} | {sgd * 1e3:.2f} | {polyak * 1e3:.2f} | {polyak / sgd:.3f} | "
                f"{armijo * 1e3:.2f} | {armijo / sgd:.3f} | {messages:.1%} | {forwards:.1%} | "
                f"{steps_to_save(ranks, load, network):.1%} |"
            )
        lines.append("")
    return "\n".join(lines)


def limits() -> str:
    """Up to how many ranks messages stay small."""
    lines = [
        "## Where the line search stops paying\n",
        "`SHBArmijo` pays if it needs fewer steps than `SHBPolyak` by more than the last column "
        "above says. On a fast network that column is the forwards' share and hardly changes from "
        "one rank to thousands; where steps wait for gradients it is smaller, since all are "
        "longer.\n",
        "Its 1 + t messages take more than a share x of SGD's step on one rank beyond p ranks:\n",
        "| workload | network | x = 1% | x = 5% | x = 10% | a trial's message = its forward |",
        "|---|---|---|---|---|---|",
    ]
    for name, load in WORKLOADS.items():
        for where, network in NETWORKS.items():
            ranks = [
                power(most_ranks(share, 1 + load.trials, load.step, network))
                for share in (0.01, 0.05, 0.1)
            ]
            ranks.append(power(most_ranks(1.0, 1, load.trial, network)))
            lines.append(f"| {name} | {where} | {' | '.join(ranks)} |")
    return "\n".join(lines)


def power(ranks) -> str:
    """A number of ranks; nobody has more than a million."""
    return "never" if ranks > 1e6 else f"p = {ranks:.0f}"


def short_steps(costs) -> str:
    """The step below which messages matter, for given ranks."""
    most, messages = RANKS[-1], 1 + WORKLOADS["ResNet-18"].trials
    steps = [
        f"{shortest_step(0.1, most, messages, network) * 1e3:.1f} ms ({where})"
        for where, network in NETWORKS.items()
    ]
    two = next(cost for cost in costs if cost.ranks == 2)
    armijo = two.steps[-1]
    return (
        f"\nThe other way round: on {most} ranks they are a tenth of a step of "
        f"{' or '.join(steps)}.\n\n"
        f"The measured run is such a case: with steps of {two.steps[0].seconds * 1e3:.1f} ms and "
        f"messages of {two.latency * 1e6:.0f} us, two ranks on one machine spend at least "
        f"{armijo.messages * two.latency / armijo.seconds:.0%} of a step of {armijo.what} on its "
        "messages, and with the waiting far more. Where steps are that short, take `SHBPolyak` or "
        "larger batches.\n"
    )


if __name__ == "__main__":
    main()
