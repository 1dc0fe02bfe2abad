"""A model of what a step costs on many ranks, computed from a handful of measured numbers.

It counts messages, which grow with the number of ranks, and the forwards of a line search.
Times are in seconds. ``docs/scaling.md`` has its tables.
"""

import math
from dataclasses import dataclass

from heavystep import validation


@dataclass(frozen=True)
class Network:
    """The network that connects the ranks.

    Args:
        hop: alpha, the seconds that a message takes from one rank to another, software included.
        bandwidth: bytes that each rank sends in a second.
    """

    hop: float
    bandwidth: float


@dataclass(frozen=True)
class Workload:
    """A training step of SGD on one rank, and what a line search adds.

    Args:
        step: seconds for forward, backward and update.
        trial: seconds for one evaluation of the loss at a trial point, waiting included.
        gradient_bytes: size of the gradients that are added up over ranks.
        trials: how many trials a step of SHBArmijo takes, on average.
    """

    step: float
    trial: float
    gradient_bytes: float
    trials: float


BACKWARD = 2.0 / 3.0
"""The share of a step in which gradients can travel; a backward costs two forwards."""


def message(ranks: int, network: Network) -> float:
    r"""The time of an all-reduce of a few numbers: latencies up a binary tree and down again.

    .. math:: m(p) = 2 \lceil \log_2 p \rceil \alpha
    """
    validation.integer("ranks", ranks, least=1)
    return 2 * math.ceil(math.log2(ranks)) * network.hop


def gradients(ranks: int, workload: Workload, network: Network) -> float:
    r"""The time of the all-reduce of the gradients, bound by bandwidth.

    .. math:: G(p) = m(p) + 2 \frac{p - 1}{p} \frac{\text{bytes}}{\text{bandwidth}}

    The bandwidth term is a ring's. A ring's latency would be 2 (p - 1) alpha; a tree's is taken
    here, which makes SGD's step shorter and the share of everything else larger.
    """
    rounds = 2 * (ranks - 1) / ranks
    return message(ranks, network) + rounds * workload.gradient_bytes / network.bandwidth


def sgd_step(ranks: int, workload: Workload, network: Network) -> float:
    r"""The time of a step of SGD. It waits for gradients that take longer than the backward.

    .. math:: T(p) = T(1) + \max\{0,\ G(p) - \tfrac{2}{3} T(1)\}
    """
    waiting = gradients(ranks, workload, network) - BACKWARD * workload.step
    return workload.step + max(0.0, waiting)


def polyak_step(ranks: int, workload: Workload, network: Network) -> float:
    """The time of a step of SGD and one message, with loss and squared norm together."""
    return sgd_step(ranks, workload, network) + message(ranks, network)


def armijo_step(ranks: int, workload: Workload, network: Network) -> float:
    """The time of Polyak's step, and for each trial an evaluation of the loss and a message."""
    trial = workload.trial + message(ranks, network)
    return polyak_step(ranks, workload, network) + workload.trials * trial


def steps_to_save(ranks: int, workload: Workload, network: Network) -> float:
    r"""The share of Polyak's steps that Armijo must save, to end at the same time.

    .. math:: 1 - T_{\text{Polyak}}(p) / T_{\text{Armijo}}(p)
    """
    return 1.0 - polyak_step(ranks, workload, network) / armijo_step(ranks, workload, network)


def shortest_step(share: float, ranks: int, messages: float, network: Network) -> float:
    """The time of a step of which ``messages`` messages, one after another, are a given share."""
    validation.real("share", share, validation.POSITIVE)
    return messages * message(ranks, network) / share


def most_ranks(share: float, messages: float, seconds: float, network: Network) -> float:
    r"""The largest number of ranks at which messages take no more than a share of a time.

    .. math:: p = 2^{\lfloor \text{share} \cdot T / (2 \alpha\, n) \rfloor}

    Args:
        share: of the time, > 0.
        messages: n, the number of messages one after another.
        seconds: T, the time.
        network: its alpha counts.
    """
    validation.real("share", share, validation.POSITIVE)
    doublings = math.floor(share * seconds / (2.0 * network.hop * messages))
    return math.inf if doublings > 1000 else 2.0**doublings
