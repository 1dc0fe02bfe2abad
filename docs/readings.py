"""How each result is tested, and remarks where it is ambiguous or can be sharpened."""
# ruff: noqa: E501

TESTED = {
    "Lemma 1": "at every step of random short runs and of every certified run",
    "Lemma 2": "at every step of random short runs and of every certified run; attained by the Polyak rule on quadratic samples",
    "Lemma 3": "random trajectories against the double sums, to 1e-9 of their size; certified runs to 64 roundings; and that it fails for torch's momentum buffer",
    "Lemma 4": "random trajectories with steps of any size, and every certified run",
    "Lemma 5": "at every step of random short runs and of every certified run",
    "Lemma 6": "at every step of random short runs and of every certified run",
    "Lemma 7": "the finite form against the recursion run with equality",
    "Assumption 5": "every combination of exponents on a grid of tenths, boundaries included, against rational arithmetic",
    "Theorem 1": "exact expectations, all sample paths enumerated, of thousands of short runs with random admissible constants; certificates on Section 5's problems",
    "Theorem 2": "exact expectations, all sample paths enumerated, of thousands of short runs with random admissible constants; certificates on Section 5's problems; the recursion it is summed from, on every run",
    "Theorem 3": "exact expectations, all sample paths enumerated, of thousands of short runs with random admissible constants; certificates on Section 5's problems",
    "Theorem 4": "the sum of sampled gaps on every run; exact expectations of the sum of gaps",
    "Theorem 5": "exact expectations of the sum of squared gradients; certificates",
    "Theorem 6": "the distance recursion on every run; exact expectations against the constant of the proof; the supremum against a scan",
    "Theorem 7": "exact expectations against the constant of the proof; monotonicity of C_k and D_k / (eta_k gamma_max,k)",
    "Theorem 8": "the tail inequality of the proof with n a power of two in (k/4, k/2] at every k, on every run: it follows from smoothness alone, so that it tests the code, not the run",
    "Theorem 9": "the tail inequality of the proof with n a power of two in (k/4, k/2] at every k, on every run: it holds for any nonnegative numbers, so that it tests the code, not the run",
}
READINGS = {
    "Lemma 1": (
        "f* may be any lower bound of the sampled loss. Everything that follows then holds with sigma^2 counted from that bound.",
        "A vanished gradient makes the Polyak ratio 0/0. heavystep then takes no gradient step, and both sides are compared as they stand.",
    ),
    "Lemma 2": (
        "Where the gradient vanishes no step is taken and the lower bound does not apply.",
        "The smooth reset of Appendix E makes the cap depend on the step before; the lower bound then fails, and certificates leave it out.",
        "Lemmas 2 and 5 are one formula, min{kappa u / L, cap} with u = 1/(2c) or 2 omega (1 - c) and kappa = s_beta / 2 or 1; it also covers the practical scaling (kappa = 1/2), about which the paper states nothing.",
    ),
    "Lemma 3": ("It holds for any point in place of theta*, and for any steps.",),
    "Lemma 4": (
        "The proof gives L/2 instead of L for the last square, ||v_k||^2; the statement rounds it up.",
    ),
    "Lemma 7": ("The code has its finite form, which gives the O of Theorems 6 and 7 a constant.",),
    "Assumption 5": (
        "For power laws it is decided exactly, by the exponents: p_beta > 1 (or beta = 0), p_gamma > 0, 0 <= p_eta + p_gamma <= 1, 2 p_eta + p_gamma > 1. Exponents count as the decimal numbers they print as: 0.7 + 0.3 is 1.",
        "(iii) implies p_eta > 0: eta_k itself must go to 0.",
        "The paper starts its sums at k = 1 while the method starts at k = 0; the step k = 0 is not restricted. heavystep's power laws meet the assumption from k = 0 on.",
    ),
    "Theorem 1": (
        "B is left open. From the proof, with e_k = E||theta_k - theta*||^2 - residual: B = max{e_0, (e_1 - r_- e_0) / (r - r_-)}; where e_1 is not known the recursion bounds it by (1 - mu gamma_min) e_0, so B = r e_0 / (r - r_-).",
        "The statement says B > 0, the proof B >= 0. B = 0 if the start is within the residual (e_0 <= 0): the run then stays there in mean square.",
        "For mu gamma_min <= 1, r is real exactly if mu gamma_min <= (sqrt(1 + beta) - sqrt(beta))^2. With c >= 1/2, Lemma 2 gives mu gamma_min <= (1 - sqrt(beta))^2 / 2, which is always smaller.",
        "The proof keeps two terms of its recursion. All terms together contract at the rate of the larger root of z^2 - (1 + beta - x) z + beta, x = mu gamma_min (up to a constant): 1 - x / (1 - beta) instead of 1 - x (1 + beta) to first order, 5.3 times faster at beta = 0.9.",
    ),
    "Theorem 2": (
        "The noise of k + 1 steps is summed for an average over k iterates, hence (k+1)/k; the bound is meaningless at k = 0 and refused there.",
        "The last square ||v_k||^2 is counted twice (as in Lemma 4). At beta = 0 a sharp count gives 2 - 1/(2c) instead of 2 - 1/c, and would allow c > 1/4.",
        "Of the weights 1 + beta + ... + beta^(k-m) two terms are kept, which is all there is for m = k - 1. Summing more recursions than iterates would gain up to 1 / (1 - beta^2), 5.3 at beta = 0.9, where sigma^2 = 0.",
        "Without a restriction by gamma_max, A is smallest at c = 1 (Polyak) and c = 1/sqrt(2) (Armijo).",
    ),
    "Theorem 3": (
        "It bounds the least of the expectations, not the expectation of the least; certificates take the mean over runs first and the minimum afterwards.",
        "The kappa of this theorem (1/c or 4 omega (1 - c)) is not the scaling of the rules; it is twice the u of Lemma 2, and gamma_min = min{gamma_max, s_beta kappa / (4L)}.",
        "The condition on c is kappa <= 4/rho, with equality allowed for Polyak only; equality would do for Armijo, too. Beyond it the proof still works for gamma_max < s_beta / (rho L), where the cap alone keeps s1 > 0.",
        "With delta = 0, rho >= 1 wherever the gradient of F does not vanish identically.",
    ),
    "Theorem 4": (
        "The constant in O(1/k) is random. Its expectation is at most A, so that by Markov's inequality A / (p k) holds for all k at once, except with probability p: `bound(k, p)`.",
        "Summed before taking expectations, the recursion bounds the sampled gaps on every run; the distance to theta* never increases. Certificates check both.",
    ),
    "Theorem 5": (
        "As in Theorem 4, `bound(k, p)` holds for all k at once, except with probability p.",
    ),
    "Theorem 6": (
        "The denominator in the condition on c must be positive; the paper does not say so. Read literally, a negative one satisfies the inequality and breaks the step that needs it: beta = 0.9, gamma_max/gamma_min = 5, eta = 0.5, c = 0.75 gives 0.5 / (1.9 - 2.37) < 0 <= c, yet eta gamma_min (1 + beta - eta/c) = 1.23 eta gamma_min is less than eta gamma_max beta / (1 + beta) = 2.37 eta gamma_min. heavystep takes the ratio as infinite there. For large k the denominator is positive.",
        "gamma_min,k depends on c, so that c stands on both sides of the condition.",
        "For power laws Assumption 5 forces eta_k -> 0, and every c > 0 meets the condition from some K on: it restricts finite K only. In Section 5's setting K = -1 (all k) for Polyak; for Armijo it holds only beyond some thousand steps.",
        "The average starts at theta_1; theta_0 is left out.",
        "O(1/S_k) hides exp(sum of beta_k): the proof multiplies by prod (1 + beta_k), about 10^37900 for Section 5's beta_k = 0.9 (1 + k/10^4)^-1.1. `bound(k, ...)` computes the constant; it is useful for small momentum and short horizons, and infinite in float64 beyond.",
    ),
    "Theorem 7": (
        "C_k is said to decrease. It does where its denominator 1 + beta_k (1 - beta_k - eta_k gamma_max,k) is positive, and only there is it a Lyapunov coefficient: L = 1, beta = 0.9, eta gamma_max = 3 gives C = -1.4. For large k the denominator is positive; `K` is the index from which D_k > 0, and it can be large (millions of steps for Section 5's least squares).",
        "The minimum starts at theta_1.",
    ),
    "Theorem 8": ("An o cannot be checked at finite k. Its proof was read.",),
    "Theorem 9": ("An o cannot be checked at finite k. Its proof was read.",),
}
