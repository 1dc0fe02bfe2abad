"""What decides the sample of a fit and its order."""

import numpy as np
import pytest

from heavystep.linear.randomness import generator_of


@pytest.mark.parametrize("seed", [0, 7, np.int64(7)])
def test_a_seed_is_what_its_random_state_is(seed):
    for _ in range(2):  # the second time it is known
        drawn = generator_of(seed).integers(1 << 40)
        assert drawn == generator_of(np.random.RandomState(seed)).integers(1 << 40)
    assert drawn != generator_of(int(seed) + 1).integers(1 << 40)


def test_sources_go_on_where_they_are():
    generator, old = np.random.default_rng(0), np.random.RandomState(0)
    assert generator_of(generator) is generator
    assert generator_of(old).integers(1 << 40) != generator_of(old).integers(1 << 40)


def test_a_seed_that_is_none_is_refused():
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        generator_of(-1)
    with pytest.raises(ValueError, match=r"[Ss]eed"):
        generator_of("one")
