"""Rivals and relatives of the paper's methods, a row each."""

from dataclasses import replace

from heavystep.methods.method import Method
from heavystep.methods.paper import IN_PAPER, RESET_BY_HAND
from heavystep.methods.registry import register
from heavystep.momentum import ADAM, AVERAGED, EXPONENTIAL_AVERAGE, NESTEROV, TORCH_BUFFER
from heavystep.rules import (
    ADASLS,
    ADASPS,
    ALIG,
    ALR_SHB,
    ALR_SMAG,
    ARMIJO,
    DECSPS,
    GOLDSTEIN,
    IAM,
    L4,
    MBCG,
    MOMO,
    MOMSPS,
    MOMSPS_SMOOTH,
    MSL,
    NGN,
    POLYAK,
    PONOS,
    SALSA,
    SGDM_APS,
    SLISES,
    SLS_DEC,
    SPS_DEC,
    SPS_SAFE,
    STEADY_POLYAK,
)  # fmt: skip
from heavystep.rules.steady import LARGEST_STEP, UNKNOWN_BOUND

CODE, DERIVED, FROM_MEMORY = "authors' code", "derived", "not verified"
OURS, SIMPLIFIED = "of this package", "authors' code, simplified"
NO_MOMENTUM, PLAIN = {"momentum": 0.0}, {"scaling": "plain"}
ALWAYS_STEADY = (
    replace(LARGEST_STEP, text="largest step gamma_max before the multiplier, > 0. Default: none."),
    replace(UNKNOWN_BOUND, text=UNKNOWN_BOUND.text.replace(" (steady only)", "")),
)
"""Texts without the choice of a scaling."""
SLS_MOMENTUM = {"momentum": 0.6, "growth": 2.0}
FAMILY = (
    Method("DecSPS", "DecSPS", "Polyak steps that decrease, where no point fits all.", DECSPS,
           fixed=NO_MOMENTUM, evidence=CODE,
           guarantee="convex, bounded iterates: O(1/sqrt k) without interpolation",
           differs="the bound is subtracted and nothing is added to the gradient"),
    Method("MomDecSPS", "MomDecSPS", "DecSPS with heavy ball.", DECSPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED,
           guarantee="convex: O(1/sqrt k) without interpolation"),
    Method("AdaSPS", "AdaSPS", "Polyak steps that decrease as the gaps add up.", ADASPS,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without",
           differs="perhaps in its constants, which are from memory"),
    Method("MomAdaSPS", "MomAdaSPS", "AdaSPS with heavy ball.", ADASPS,
           reference="Oikonomou and Loizou (2025)", evidence=DERIVED,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without"),
    Method("SPSSafe", "SPS_safe", "A Polyak step whose divisor cannot vanish.", SPS_SAFE,
           fixed=NO_MOMENTUM, evidence=CODE, main="safeguard",
           guarantee="convex, also if not smooth: O(1/sqrt k) to a neighbourhood"),
    Method("MomSPS", "MomSPS_max", "Polyak steps with heavy ball, damped by 1 - beta.", MOMSPS,
           evidence=CODE,
           guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation"),
    Method("MomSPSSmooth", "MomSPS_smooth", "MomSPS with a smooth reset in place of the cap.",
           MOMSPS_SMOOTH, evidence=CODE),
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
    Method("SGDMAPS", "SGDM-APS", "The Polyak step of torch's momentum buffer with fading gaps.",
           SGDM_APS, TORCH_BUFFER, evidence=CODE,
           guarantee="convex: O(1/k) to a neighbourhood; exact with interpolation"),
    Method("NGN", "NGN", "The harmonic mean of a cap and a Polyak ratio.", NGN, fixed=NO_MOMENTUM,
           evidence=IN_PAPER,
           guarantee="convex: O(1/k) to a neighbourhood for every c"),
    Method("NGNM", "NGN-M", "NGN with heavy ball.", NGN,
           reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE,
           guarantee="convex: O(1/sqrt k) with a decreasing c"),
    Method("IAM", "IAM", "The Polyak step of the iterate that heavy ball averages.", IAM,
           evidence=DERIVED,
           guarantee="convex, each least loss known: O(1/sqrt k) of the last iterate"),
    Method("ALRSHB", "ALR-SHB", "The Polyak step with what momentum does on its own.", ALR_SHB,
           evidence=FROM_MEMORY,
           guarantee="without noise: linear if strongly convex",
           differs="perhaps in the divisor c and the cap, which are from memory"),
    Method("MoMo", "MoMo", "The Polyak step of an average of linear models.", MOMO,
           EXPONENTIAL_AVERAGE, evidence=CODE,
           guarantee="convex with interpolation: O(1/sqrt k)",
           differs="averages begin at 0 with a correction of their bias; weight decay is "
           "not part of the model; no estimate of the least loss"),
    Method("SHBPolyakAdam", "SHB-PS with Adam's diagonal", "SHBPolyak in the norm of Adam's "
           "diagonal.", POLYAK, diagonal=ADAM, defaults={"max_step": 0.01}, evidence=OURS),
    Method("SHBAdam", "SHB-Adam", "Steady Polyak steps in the norm of Adam's diagonal, for "
           "transformers.", STEADY_POLYAK, AVERAGED, ADAM, defaults={"alike": 0.006, "reach": 1.0},
           fixed={"scaling": "steady", "steps_per_epoch": None, "growth": 4.0},
           described=ALWAYS_STEADY, evidence=OURS),
    Method("NGNMD", "NGN-MDv1", "NGN-M in the norm of Adam's diagonal.", NGN, diagonal=ADAM,
           defaults={"c": 0.01}, reference="NGN-M, arXiv 2508.15071 (2025)", evidence=CODE,
           differs="written without a division by the loss; the first step decays too"),
    Method("IAMAdam", "IAM-Adam", "IAM in the norm of Adam's diagonal.", IAM, diagonal=ADAM,
           defaults={"max_step": 0.01}, evidence=DERIVED),
    Method("MoMoAdam", "MoMo-Adam", "MoMo in the norm of Adam's diagonal.", MOMO,
           EXPONENTIAL_AVERAGE, ADAM, defaults={"max_step": 0.01}, evidence=CODE,
           differs="weight decay is not part of the model; no estimate of the least loss"),
    Method("SLSGoldstein", "SLS, Goldstein", "A line search for steps neither too long nor too "
           "short.", GOLDSTEIN, fixed=NO_MOMENTUM, evidence=CODE,
           differs="a step of max_step that is not too long is taken at once, and so is "
           "the last trial"),
    Method("SLSHeavyBall", "SLS, Polyak momentum", "SLS with heavy ball: the whole Armijo step.",
           ARMIJO, defaults=SLS_MOMENTUM, fixed=PLAIN, described=(RESET_BY_HAND,), evidence=CODE,
           reference="Vaswani et al. (2019); their default is steps_per_epoch=1, growth=1"),
    Method("SLSNesterov", "SLS, Nesterov", "SLS with Nesterov's look-ahead.", ARMIJO, NESTEROV,
           defaults=SLS_MOMENTUM, fixed=PLAIN, described=(RESET_BY_HAND,), evidence=DERIVED,
           reference="Vaswani et al. (2019); differs from their code by a constant momentum",
           differs="a constant momentum, not the growing sequence of the code"),
    Method("AdaSLS", "AdaSLS", "Armijo steps that decrease as their gains add up.", ADASLS,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY,
           guarantee="convex: O(1/k) with interpolation, O(1/sqrt k) without",
           differs="perhaps in where a search begins, here at max_step, and in its defaults"),
    Method("PoNoS", "PoNoS", "A non-monotone line search from a Polyak step.", PONOS,
           fixed=NO_MOMENTUM, evidence=CODE,
           guarantee="with interpolation: O(1/k) if convex, linear under PL",
           differs="the bound is used, and nothing is added to the squared norm"),
    Method("SPSDec", "SPS, decreasing", "SPS with a cap and a multiplier that fade.", SPS_DEC,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY,
           guarantee="convex: converges almost surely without interpolation",
           differs="the exponents are those of Section 5 of the paper"),
    Method("SLSDec", "SLS, decreasing", "SLS with a cap and a multiplier that fade.", SLS_DEC,
           fixed=NO_MOMENTUM, evidence=FROM_MEMORY,
           guarantee="convex: converges almost surely without interpolation",
           differs="the exponents are those of Section 5 of the paper"),
    Method("SaLSA", "SaLSA", "An Armijo search on averages, as seldom as it may be.", SALSA,
           fixed=NO_MOMENTUM, evidence=SIMPLIFIED,
           differs="along the gradient only, without Adam's direction; steps between "
           "searches do not grow"),
    Method("MSL", "MSL", "A line search along torch's momentum buffer.", MSL, TORCH_BUFFER,
           evidence=FROM_MEMORY,
           differs="for torch's momentum only, not for Adam's; perhaps in its constants, which "
           "are from memory"),
    Method("MBCG", "MBCG-DP", "Conjugate gradients on overlapping batches, with a search.", MBCG,
           TORCH_BUFFER, fixed=NO_MOMENTUM, evidence=SIMPLIFIED, main="polyak_c",
           guarantee="PL with interpolation: linear",
           differs="the momentum compares whole batches, not the half that two of them share"),
    Method("SLiSeS", "SLiSeS", "Barzilai and Borwein's step on a kept batch, with a search.",
           SLISES, fixed=NO_MOMENTUM, evidence=FROM_MEMORY,
           guarantee="converges almost surely",
           differs="only the abstract was at hand: its own safeguards of the search are not here"),
)  # fmt: skip
"""Rivals and relatives of the paper's methods."""
for _method in FAMILY:
    register(_method)
