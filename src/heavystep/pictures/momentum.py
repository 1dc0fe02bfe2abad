"""Theorems 1 to 3 against the momentum, beside the limit of MomSPS."""

from collections.abc import Sequence

from matplotlib.figure import Figure as Canvas

from heavystep.theory.advice import WithMomentum


def plot_momentum(rows: Sequence[WithMomentum]) -> Canvas:
    """Draw what momentum does to the rates of the theorems, and the steps that they admit.

    Args:
        rows: from :func:`heavystep.theory.side_by_side`.

    Returns:
        A figure of matplotlib: left the number of steps that each theorem asks for, in units of
        what it asks for without momentum; right the largest steps.

    Raises:
        ValueError: there are no rows.

    >>> from heavystep.theory import side_by_side
    >>> [axes.get_xlabel() for axes in plot_momentum(side_by_side(L=1.0, mu=0.1)).axes]
    ['momentum beta', 'momentum beta']
    """
    if not rows:
        raise ValueError("plot_momentum needs at least one row")
    figure = Canvas(figsize=(9.0, 3.4), layout="constrained")
    costs, steps = figure.subplots(1, 2)
    beta = [row.beta for row in rows]
    first = rows[0]
    costs.plot(beta, [first.contraction / row.contraction for row in rows], "o-", label="Theorem 1")
    costs.plot(beta, [row.A / first.A for row in rows], "s--", label="Theorem 2")
    costs.plot(beta, [row.best / first.best for row in rows], "^:", label="Theorem 3")
    costs.plot(beta, [1.0 / (1.0 - b**0.5) ** 2 for b in beta], color="0.6", lw=1.0,
               label=r"$(1-\sqrt{\beta})^{-2}$")  # fmt: skip
    costs.set_title("steps for the same bound, relative to the first")
    steps.plot(beta, [row.gamma_max_limit for row in rows], "^:", color="C2", label="Theorem 3")
    capped = [row for row in rows if row.momsps_gamma_max < float("inf")]
    steps.plot([row.beta for row in capped], [row.momsps_gamma_max for row in capped], "v-",
               color="C3", label="MomSPS")  # fmt: skip
    steps.set_title("largest gamma_max (Theorems 1 and 2: any)")
    for axes in (costs, steps):
        axes.set_yscale("log")
        axes.set_xlabel("momentum beta")
        axes.legend()
    return figure
