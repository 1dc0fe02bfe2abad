"""The rows of the registry: the default, the paper's methods and baselines, their relatives."""

from typing import Any

from heavystep import validation
from heavystep.methods.method import NOT_VERIFIED, Method, method_of, register
from heavystep.momentum import AVERAGED, EXPONENTIAL_AVERAGE, NESTEROV, TORCH_BUFFER
from heavystep.rules.armijo import ARMIJO
from heavystep.rules.fixed import FIXED
from heavystep.rules.heavystep import HEAVYSTEP
from heavystep.rules.line_searches import ADASLS, MSL, PONOS, SALSA
from heavystep.rules.polyak import POLYAK
from heavystep.rules.polyak_direction import ALR_SMAG, L4, MOMO, SGDM_APS
from heavystep.rules.polyak_gradient import (
    ADASPS,
    ALIG,
    ALR_SHB,
    DECSPS,
    IAM,
    MOMSPS,
    NGN,
    SF_POLYAK,
    SPS_SAFE,
)  # fmt: skip

PAPER, IN_PAPER = "Zhang, Shi and Gu", "paper"
CODE, DERIVED = "authors' code", "derived"
QUOTED, SIMPLIFIED = "quoted in a later paper", "authors' code, simplified"
NO_MOMENTUM = {"momentum": 0.0}
WITHOUT_MOMENTUM = {"momentum": 0.0, "scaling": "plain"}

MAIN = (
    Method("HeavyStep", "HeavyStep", "Averaged heavy ball that needs no tuning, the default.",
           HEAVYSTEP, AVERAGED, ("element", "tensor", None), evidence="of this package"),
    Method("SHBPolyak", "SHB-PS", "Stochastic heavy ball with the Polyak step size (SHB-PS).",
           POLYAK, evidence=IN_PAPER, guarantee="Theorems 1 to 9 in theory and plain scaling",
           reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical)"),
    Method("SHBArmijo", "SHB-ALS",
           "Stochastic heavy ball with the modified Armijo line search (SHB-ALS).",
           ARMIJO, defaults={"growth": 2.0}, evidence=IN_PAPER,
           guarantee="Theorems 1 to 9 in theory and plain scaling",
           reference=f"{PAPER}, Section 2 (theory), Section 4 (plain), Appendix E (practical)"),
    Method("SPS", "SPS", "Stochastic Polyak step size, SHBPolyak without momentum.", POLYAK,
           defaults={"c": 0.1}, fixed=WITHOUT_MOMENTUM, evidence=IN_PAPER,
           reference=f"Loizou et al. (2021); constants of the baseline in Appendix E of {PAPER}",
           guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation"),
    Method("SLS", "SLS", "Stochastic line search, SHBArmijo without momentum.", ARMIJO,
           defaults={"growth": 2.0}, fixed=WITHOUT_MOMENTUM, evidence=IN_PAPER,
           reference=f"Vaswani et al. (2019); constants of the baseline in Appendix E of {PAPER}",
           guarantee="with interpolation: O(1/k) if convex, linear if strongly convex"),
    Method("SHB", "SHB", "Stochastic heavy ball with a step that you choose, the baseline of the "
           "paper.", FIXED, evidence=IN_PAPER,
           reference=f"Polyak (1964); baseline of {PAPER}",
           guarantee="convex: O(1/k) to a neighbourhood, for steps below a bound with L"),
)  # fmt: skip
FAMILY = (
    Method("DecSPS", "DecSPS", "Polyak steps that decrease, where no point fits all.",
           DECSPS, fixed=NO_MOMENTUM, evidence=CODE,
           guarantee="convex, bounded iterates: O(1/sqrt k) without interpolation",
           differs="the bound is subtracted and nothing is added to the gradient"),
    Method("MomDecSPS", "MomDecSPS", "DecSPS with heavy ball.", DECSPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED,
           guarantee="convex: O(1/sqrt k) without interpolation"),
    Method("AdaSPS", "AdaSPS", "Polyak steps that decrease as the gaps add up.", ADASPS,
           fixed=NO_MOMENTUM, evidence=QUOTED,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without"),
    Method("MomAdaSPS", "MomAdaSPS", "AdaSPS with heavy ball.", ADASPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without"),
    Method("SPSSafe", "SPS_safe", "A Polyak step whose divisor cannot vanish.", SPS_SAFE,
           fixed=NO_MOMENTUM, evidence=CODE, main="safeguard",
           guarantee="convex, also if not smooth: O(1/sqrt k) to a neighbourhood"),
    Method("IMASPSSafe", "IMA_SPS_safe", "SPS_safe of the iterate that heavy ball averages.",
           SPS_SAFE, defaults={"momentum": 0.5}, evidence=CODE, main="safeguard",
           guarantee="convex, also if not smooth: O(1/sqrt k) of the last iterate"),
    Method("MomSPS", "MomSPS_max", "Polyak steps with heavy ball, damped by 1 - beta.",
           MOMSPS, evidence=CODE,
           guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation"),
    Method("ALIG", "ALI-G", "Capped Polyak steps with Nesterov's momentum.", ALIG, NESTEROV,
           evidence=CODE,
           guarantee="convex, nearly interpolated: O(1/sqrt k), O(1/k) if smooth",
           differs="defaults are max_step 1 and momentum 0.9; no step uphill from a loss "
           "below its bound"),
    Method("L4", "L4Mom", "A fraction of the step to an estimated least loss.", L4,
           EXPONENTIAL_AVERAGE, evidence=CODE, main="fraction"),
    Method("ALRSMAG", "ALR-SMAG", "The Polyak step of torch's momentum buffer.", ALR_SMAG,
           TORCH_BUFFER, evidence="third-party code",
           guarantee="semi-strongly convex with interpolation: linear"),
    Method("ALRSHB", "ALR-SHB", "The Polyak step with what momentum does on its own.",
           ALR_SHB, evidence=NOT_VERIFIED,
           guarantee="without noise: linear if strongly convex",
           differs="perhaps in the divisor c and the cap, which are from memory"),
    Method("SGDMAPS", "SGDM-APS", "The Polyak step of torch's momentum buffer with fading gaps.",
           SGDM_APS, TORCH_BUFFER, evidence=CODE,
           guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation"),
    Method("NGN", "NGN", "The harmonic mean of a cap and a Polyak ratio.", NGN,
           fixed=NO_MOMENTUM, evidence=IN_PAPER,
           guarantee="convex: O(1/k) to a neighbourhood for every c"),
    Method("NGNM", "NGN-M", "NGN with heavy ball.", NGN,
           reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE,
           guarantee="convex: O(1/sqrt k) with a decreasing c"),
    Method("NGNMD", "NGN-MDv1", "NGN-M in the norm of Adam's diagonal.", NGN,
           diagonals=("element",), defaults={"c": 0.01},
           reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE,
           differs="written without a division by the loss; the first step decays too"),
    Method("IAM", "IAM", "The Polyak step of the iterate that heavy ball averages.", IAM,
           evidence=DERIVED,
           guarantee="convex, each least loss known: O(1/sqrt k) of the last iterate"),
    Method("IAMAdam", "IAM-Adam", "IAM in the norm of Adam's diagonal.", IAM,
           diagonals=("element",), defaults={"max_step": 0.01}, evidence=DERIVED),
    Method("MoMo", "MoMo", "The Polyak step of an average of linear models.", MOMO,
           EXPONENTIAL_AVERAGE, evidence=CODE,
           guarantee="convex with interpolation: O(1/sqrt k)",
           differs="averages begin at 0 with a correction of their bias; weight decay is "
           "not part of the model; no estimate of the least loss"),
    Method("MoMoAdam", "MoMo-Adam", "MoMo in the norm of Adam's diagonal.", MOMO,
           EXPONENTIAL_AVERAGE, ("element",), defaults={"max_step": 0.01}, evidence=CODE,
           differs="weight decay is not part of the model; no estimate of the least loss"),
    Method("SFPolyak", "SF-Polyak", "Schedule-Free with Polyak steps.", SF_POLYAK, AVERAGED,
           evidence=CODE, main="c",
           guarantee="convex, each least loss known: O(1/sqrt k) of the last iterate"),
    Method("ScheduleFreePlus", "ScheduleFree+", "Schedule-Free with Polyak steps in Adam's "
           "diagonal.", SF_POLYAK, AVERAGED, ("element",), defaults={"momentum": 0.965},
           reference="ScheduleFree+, arXiv 2605.19095 (2026)", evidence=SIMPLIFIED, main="c",
           differs="g' D^-1 g for sqrt(pi/2) ||g||_1, which is equal to it in the mean of normal "
           "gradients; momentum is constant, where the code goes up to 0.965; weights of the "
           "average do not depend on lr"),
    Method("AdaSLS", "AdaSLS", "Armijo steps that decrease as their gains add up.", ADASLS,
           fixed=NO_MOMENTUM, evidence=QUOTED,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without",
           differs="perhaps in the defaults of max_step and c"),
    Method("PoNoS", "PoNoS", "A non-monotone line search from a Polyak step.", PONOS,
           fixed=NO_MOMENTUM, evidence=CODE,
           guarantee="with interpolation: O(1/k) if convex, linear under PL",
           differs="the bound is used, and nothing is added to the squared norm"),
    Method("SaLSA", "SaLSA", "An Armijo search on averages, as seldom as it may be.", SALSA,
           fixed=NO_MOMENTUM, evidence=SIMPLIFIED,
           differs="along the gradient only, without Adam's direction; steps between "
           "searches do not grow"),
    Method("MSL", "MSL", "A line search along torch's momentum buffer.", MSL, TORCH_BUFFER,
           evidence=NOT_VERIFIED,
           differs="for torch's momentum only, not for Adam's; perhaps in its constants, which "
           "are from memory"),
)  # fmt: skip
"""Rivals and relatives of the paper's methods."""
for _method in (*MAIN, *FAMILY):
    register(_method)


def paper_settings(name: str, *, steps_per_epoch: float | None = 500) -> dict[str, Any]:
    """The options of the paper's experiments (Appendix E) for SHBPolyak, SHBArmijo, SPS and SLS.

    Args:
        name: of the method.
        steps_per_epoch: n_b of the smooth reset: the number of batches in an epoch.

    >>> paper_settings("SHBArmijo", steps_per_epoch=195)["c"]
    0.1
    """
    validation.choice("name", name, ("SHBPolyak", "SHBArmijo", "SPS", "SLS"))
    method = method_of(name)
    complete = method.complete({"steps_per_epoch": steps_per_epoch})
    listed = ("scaling", "steps_per_epoch", "c", "max_step", "growth", "momentum")
    return {option: complete[option] for option in listed if option not in method.fixed}
