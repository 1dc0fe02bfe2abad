r"""IAM: the Polyak step of the iterate that heavy ball averages, z_k = theta_k + lambda_k b_k.

.. math:: \gamma_k = (1 - \beta) \min\Big\{\frac{[f_k - \ell_k + \frac{\beta}{1 - \beta}
          \langle g_k, \theta_k - \theta_{k-1}\rangle]_+}{\|g_k\|^2},\ \gamma_{\max}\Big\}

In its publication z_{k+1} = z_k - tau_k g_k and theta_{k+1} = (lambda theta_k + z_{k+1}) / (1 +
lambda). With lambda = beta / (1 - beta) constant that is heavy ball with gamma_k = (1 - beta) tau_k
and z_k - theta_k = lambda (theta_k - theta_{k-1}).
"""

from typing import Any

from heavystep.rules.contract import Rule, Search, Seen, constants
from heavystep.rules.polyak import LOWER_BOUND, search_below
from heavystep.rules.scaling import damping
from heavystep.rules.smooth_reset import MAX_STEP


def start(constants: Any, memory: Any, seen: Seen) -> Search:
    """The step, of the gap that the average of the past leaves at z_k."""
    ahead = seen.loss + (1.0 - constants.damping) / constants.damping * seen.drift
    cap = constants.damping * constants.max_step
    return search_below(ahead, seen.grad_sqnorm, seen.lower_bound, 1.0, constants.damping, cap)


IAM = Rule(
    name="iam",
    formula=r"\gamma_k = \eta_k (1 - \beta) \min\{[f_k - \ell_k + \beta / (1 - \beta) "
    r"\langle g_k, \theta_k - \theta_{k-1}\rangle]_+ / \|g_k\|^2,\ \gamma_{\max}\}",
    reference="IAM, arXiv 2504.01898 (2025)",
    options=(MAX_STEP, LOWER_BOUND),
    reads=frozenset({"loss", "lower_bound", "grad_sqnorm", "drift"}),
    resolve=constants("max_step", damping=damping),
    start=start,
)
