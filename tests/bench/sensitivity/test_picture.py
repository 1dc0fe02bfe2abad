"""The picture of a task: who is who."""

from types import SimpleNamespace

from heavystep.bench.sensitivity.contenders import OURS, USUAL
from heavystep.bench.sensitivity.contract import HORIZON
from heavystep.bench.sensitivity.picture import looks_of


def test_a_method_that_knows_the_horizon_is_the_same_one_with_dashes():
    contenders = [
        SimpleNamespace(name=name, ours=name.removesuffix(HORIZON) in OURS) for name in USUAL
    ]
    looks = looks_of(SimpleNamespace(contenders=contenders))
    for name in OURS:
        plain, told = looks[name], looks[name + HORIZON]
        assert plain.colour == told.colour
        assert (plain.dashes, plain.marker) != (told.dashes, told.marker)
        assert plain.dashes != told.dashes
    assert len({looks[name].colour for name in OURS}) == len(OURS)
    assert len({(look.colour, look.dashes, look.marker) for look in looks.values()}) == len(USUAL)
