"""Packages that an extra brings: the line that tells a user how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager


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
