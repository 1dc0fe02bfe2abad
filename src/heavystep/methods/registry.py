"""The methods that there are, by name."""

from heavystep import validation
from heavystep.methods.method import Method

METHODS: dict[str, Method] = {}
"""By name, in the order in which they are listed."""


def register(method: Method) -> Method:
    """Add a method, so that every part of the package finds it by its name.

    Raises:
        ValueError: the name is taken.
    """
    if method.name in METHODS:
        raise ValueError(f"there is a method {method.name!r} already")
    METHODS[method.name] = method
    return method


def method_of(name: str) -> Method:
    """The method of that name.

    >>> method_of("SPS").rule.name
    'polyak'
    >>> method_of("SGD")
    Traceback (most recent call last):
    ValueError: method must be one of 'SHBPolyak', 'SHBArmijo', ..., got 'SGD'
    """
    validation.choice("method", name, METHODS)
    return METHODS[name]
