"""The methods that there are, by name."""

from collections.abc import Iterable

from heavystep import validation
from heavystep.methods.method import Method

METHODS: dict[str, Method] = {}
"""By name, in the order in which they are listed."""
ELSEWHERE = {
    "Diminishing": "heavystep.Diminishing(optimizer), a scheduler",
    "AdaSVRPS": 'simulate(VarianceReduced(problem), "AdaSPS", ...)',
    "AdaSVRLS": 'simulate(VarianceReduced(problem), "AdaSLS", ...)',
}
"""What is listed beside the methods and is no optimizer of its own: how it is called."""


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
    >>> method_of("SHBPolyack")
    Traceback (most recent call last):
    ValueError: no method is named 'SHBPolyack'; nearest: SHBPolyak...; heavystep methods lists all
    """
    if name not in METHODS:
        check_name(name)  # refuses it
    return METHODS[name]


def check_name(name: str, beside: Iterable[str] = ()) -> None:
    """Refuse a name that no method has, nor anything ``beside`` them, and say which are near.

    Names of publications are not accepted, but lead to that of the method.

    >>> check_name("SHB-PS")
    Traceback (most recent call last):
    ValueError: no method is named 'SHB-PS'; nearest: SHBPolyak...; heavystep methods lists all
    >>> check_name("AdaSVRPS")
    Traceback (most recent call last):
    ValueError: AdaSVRPS is not an optimizer, but simulate(VarianceReduced(problem), "AdaSPS", ...)
    """
    if name in ELSEWHERE and name not in beside:
        raise ValueError(f"{name} is not an optimizer, but {ELSEWHERE[name]}")
    known = {method.title: name for name, method in METHODS.items()}
    known |= {other: other for other in (*METHODS, *beside)}
    validation.registered("method", name, known, "heavystep methods")
