"""Step-size rules, one file each: scalar formulas that every back end runs."""

from heavystep.rules.adasls import ADASLS
from heavystep.rules.adasps import ADASPS
from heavystep.rules.alig import ALIG
from heavystep.rules.alr_shb import ALR_SHB
from heavystep.rules.alr_smag import ALR_SMAG
from heavystep.rules.armijo import ARMIJO
from heavystep.rules.contract import (
    DIRECTION,
    PRODUCTS,
    REQUIRED,
    Option,
    Rule,
    Search,
    Seen,
    Slot,
    Whole,
)
from heavystep.rules.decreasing import SLS_DEC, SPS_DEC
from heavystep.rules.decsps import DECSPS
from heavystep.rules.fixed import FIXED
from heavystep.rules.heavystep import HEAVYSTEP
from heavystep.rules.iam import IAM
from heavystep.rules.l4 import L4
from heavystep.rules.mbcg import MBCG
from heavystep.rules.momo import MOMO
from heavystep.rules.momsps import MOMSPS, MOMSPS_SMOOTH
from heavystep.rules.msl import DIRECTIONAL, MSL
from heavystep.rules.ngn import NGN
from heavystep.rules.polyak import POLYAK, polyak_step
from heavystep.rules.ponos import PONOS
from heavystep.rules.primitives import (
    Primitives,
    batch_is_finite,
    is_finite,
    maximum,
    minimum,
    register,
    some,
    where,
)
from heavystep.rules.salsa import SALSA
from heavystep.rules.scaling import SCALINGS, Scaling, kappa, momentum_factor
from heavystep.rules.schedule_free import SF_POLYAK
from heavystep.rules.sgdm_aps import SGDM_APS
from heavystep.rules.shb_ima import SHB_IMA
from heavystep.rules.slises import SLISES
from heavystep.rules.smooth_reset import FIRST_STEP, growth_factor, remember_step, step_cap
from heavystep.rules.sps_safe import SPS_SAFE

__all__ = [
    "ADASLS",
    "ADASPS",
    "ALIG",
    "ALR_SHB",
    "ALR_SMAG",
    "ARMIJO",
    "DECSPS",
    "DIRECTION",
    "DIRECTIONAL",
    "FIRST_STEP",
    "FIXED",
    "HEAVYSTEP",
    "IAM",
    "L4",
    "MBCG",
    "MOMO",
    "MOMSPS",
    "MOMSPS_SMOOTH",
    "MSL",
    "NGN",
    "POLYAK",
    "PONOS",
    "PRODUCTS",
    "REQUIRED",
    "SALSA",
    "SCALINGS",
    "SF_POLYAK",
    "SGDM_APS",
    "SHB_IMA",
    "SLISES",
    "SLS_DEC",
    "SPS_DEC",
    "SPS_SAFE",
    "Option",
    "Primitives",
    "Rule",
    "Scaling",
    "Search",
    "Seen",
    "Slot",
    "Whole",
    "batch_is_finite",
    "growth_factor",
    "is_finite",
    "kappa",
    "maximum",
    "minimum",
    "momentum_factor",
    "polyak_step",
    "register",
    "remember_step",
    "some",
    "step_cap",
    "where",
]
