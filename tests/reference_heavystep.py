"""The default rule as a literal loop, written from the formulas of its docstring alone."""

import numpy as np


def run(
    batches, theta, lr=1.0, momentum=0.9, lower_bound=0.0, max_step=np.inf, diagonal=None,
    weight_decay=0.0, certified=False,
):  # fmt: skip
    """Iterates of HeavyStep; ``batches`` are functions from theta to a list of loss and gradients.

    ``theta`` is a list of arrays, one a tensor.
    """
    z, x = [t.copy() for t in theta], [t.copy() for t in theta]
    v = [0.0 * t if diagonal == "element" else 0.0 for t in theta]
    A = M = d = G = first_move = None
    n, rose, last, iterates = 0, False, 0.0, []
    for k, batch in enumerate(batches):
        f, g = batch(theta)
        v = [0.999 * s + 0.001 * (p**2 if diagonal == "element" else np.mean(p**2))
             for s, p in zip(v, g, strict=True)]  # fmt: skip
        D = [1e-20 + np.sqrt(s / (1 - 0.999 ** (k + 1))) if diagonal else 1.0 for s in v]
        pull = [p / q for p, q in zip(g, D, strict=True)]
        square = sum((p * q).sum() for p, q in zip(g, pull, strict=True))
        length = np.sqrt(sum((q**2).sum() for q in pull))

        # Level: nothing is known while all losses were at it.
        counted = bool(d)
        if not counted:
            G, A, M, d = None, f, f, abs(f - (0.0 if lower_bound is None else lower_bound))
            below = A - d
        else:
            below = min(A, f) - 8 * d
        level = below if lower_bound is None or lower_bound > A else lower_bound

        # Length and noise.
        tau, G = 1.0 if certified else 16 / (8 + momentum), G or square
        r = tau * max(f - level, 0.0) / square if square else 0.0
        m = tau * max(A - level, 0.0) / G if G else 0.0
        N = min((A - level) / (M - level), 1.0) if level < M else 1.0
        phi = (1 + n / 3 * N**8) ** -0.5
        a = (n + 1) / (n + 20) * min(np.sqrt(phi) * r, phi * m)

        # Trust: the size of the parameters, or the first move.
        count = sum(t.size for t in theta)
        size = 0.2 * sum(abs(t).sum() for t in theta) / np.sqrt(count)
        most = max(size, first_move or (size or a * length))
        a = min(a, most / length) if length else a
        if certified and n >= 2 and last:
            a = min(a, last * (1 + (9 / (1 + momentum) - 1) / (n - 1)))
        a = min(a, max_step)
        last = a or last

        # The move, with decay before it.
        w, shrink = 9 / (n + 9), 1 / (1 + lr * weight_decay / (n + 9))
        z = [shrink * p - lr * a * q for p, q in zip(z, pull, strict=True)]
        x = [shrink * p + w * (q - shrink * p) for p, q in zip(x, z, strict=True)]
        theta = [(1 - momentum) * p + momentum * q for p, q in zip(z, x, strict=True)]
        first_move = first_move or max(size, size or a * length)
        iterates.append(np.concatenate([t.ravel() for t in theta]))

        # Memory: losses are cut at 4 d once there are nine, and a second rise halves the age.
        above = f - A
        cut = above if w > 0.5 else min(max(above, -4 * d), 4 * d)
        new = A + w * cut
        M = max(new, M + (A + cut - M) / (n + 1) if w <= 0.5 else new)
        d = d + w * (abs(cut) - d) if counted else d
        G = G + w * ((square if w > 0.5 else min(square, 16 * G)) - G)
        A, again, rose = new, rose and cut < above and not certified, cut < above
        n = (n / 2 if again else n + 1) if d else 0
    return np.array(iterates)
