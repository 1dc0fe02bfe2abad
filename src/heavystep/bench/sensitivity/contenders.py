"""Who is compared: methods of the registry, torch's optimizers and those of other packages.

A contender is named as on the command line: a method of ``heavystep methods`` or a row of
:data:`OTHERS`, perhaps with options (``SHBArmijo:c=0.5``, ``SGD:weight_decay=0.0005``), perhaps
with an ending: ``+cosine`` adds a schedule, ``+horizon`` tells a method how many steps there are.
"""

from heavystep.bench.sensitivity.contract import COSINE, HORIZON, Contender
from heavystep.bench.sensitivity.others import OTHERS
from heavystep.bench.sensitivity.ours import Registered
from heavystep.methods import METHODS, check_name
from heavystep.methods.named import read

ENDINGS = (COSINE, HORIZON)
OURS = ("SHBPolyak", "SHBAdam", "SHBArmijo")
USUAL = (
    *OURS, *(name + HORIZON for name in OURS), "SGD", "SGD" + COSINE, "AdamW", "AdamW" + COSINE,
    "momo-opt", "momo-opt-Adam", "Prodigy", "ScheduleFree",
)  # fmt: skip
"""Who is compared where the user has not chosen."""


def contender_of(name: str) -> Contender:
    """The contender of a name.

    Args:
        name: see the top of this module.

    Raises:
        ValueError: there is no such contender, or an option is out of range.
        TypeError: the method has no such option.

    >>> contender_of("SHBArmijo:c=0.5+cosine").identity(2.0, steps=100)["options"]["max_step"]
    2.0
    """
    ending = next((each for each in ENDINGS if name.endswith(each)), "")
    head, options = read(name.removesuffix(ending))
    if "+" in head:
        known = " and ".join(map(repr, ENDINGS))
        raise ValueError(f"{name!r}: the endings are {known}, one at a time")
    check_name(head, beside=OTHERS)
    if head not in OTHERS:
        return Registered(
            METHODS[head], options, cosine=ending == COSINE, horizon=ending == HORIZON
        )
    if ending == HORIZON:
        raise ValueError(f"{name!r}: {HORIZON!r} is for our methods; {COSINE!r} knows it too")
    return OTHERS[head].with_options(options, cosine=ending == COSINE)
