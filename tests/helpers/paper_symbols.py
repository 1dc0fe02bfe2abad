"""Simulations of the paper's two methods, set up in its symbols."""

from heavystep.lab.simulation import configure

METHODS = {"polyak": "SHBPolyak", "armijo": "SHBArmijo"}
OPTIONS = {
    "beta": "momentum",
    "gamma_max": "max_step",
    "omega": "decrease_factor",
    "eta": "lr",
    "n_b": "steps_per_epoch",
}


def configured(rule, *, scaling="theory", n_b=None, average="uniform", **symbols):
    """The configuration; there is no smooth reset unless ``n_b`` is given."""
    given = {OPTIONS.get(name, name): value for name, value in symbols.items() if value is not None}
    return configure(METHODS[rule], scaling=scaling, steps_per_epoch=n_b, average=average, **given)
