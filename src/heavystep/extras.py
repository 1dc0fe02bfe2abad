"""Packages that an extra brings: which, and the line that tells a user how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager

EXTRAS = {
    "lab": (
        "numba", "llvmlite", "scipy", "sklearn", "matplotlib", "PIL", "plotly", "pyarrow", "joblib",
        "ray", "distributed", "pooch", "typer", "rich", "tensorboard", "momo", "prodigyopt",
        "schedulefree",
    ),
    "lightning": ("lightning",),
    "accelerate": ("accelerate",),
    "transformers": ("transformers",),
}  # fmt: skip
"""The modules that each extra brings and smaller ones do not."""


class MissingExtraError(ModuleNotFoundError):
    """A package that belongs to an extra is not installed; its text says how to install it."""


def install(extra: str) -> str:
    """The commands that install an extra.

    >>> install("lab")
    "pip install 'heavystep[lab]', or in a clone: pip install -e '.[lab]'"
    """
    return f"pip install 'heavystep[{extra}]', or in a clone: pip install -e '.[{extra}]'"


def package_of(missing: ModuleNotFoundError) -> str:
    """The package that an import did not find."""
    return (missing.name or "").partition(".")[0]


def extra_of(package: str, otherwise: str = "lab") -> str:
    """The extra that brings a package.

    >>> extra_of("numba"), extra_of("unheard_of")
    ('lab', 'lab')
    """
    return next((extra for extra, modules in EXTRAS.items() if package in modules), otherwise)


@contextmanager
def needed_by(what: str, extra: str) -> Iterator[None]:
    """Tell in one line which extra to install if an import within the block fails.

    >>> with needed_by("this example", "lab"):
    ...     import no_such_module
    Traceback (most recent call last):
    heavystep.extras.MissingExtraError: this example needs no_such_module: pip install ...
    """
    try:
        yield
    except MissingExtraError:
        raise
    except ModuleNotFoundError as missing:
        package = package_of(missing)
        if package == "heavystep":  # a mistake of ours
            raise
        text = f"{what} needs {package}: {install(extra)}"
        raise MissingExtraError(text, name=missing.name) from None
