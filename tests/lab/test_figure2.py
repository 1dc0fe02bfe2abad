"""Claims about Figure 2 can fail."""

import json
import math

import numpy as np
import pytest

from heavystep.lab.data import LIBSVM as CATALOGUE
from heavystep.lab.figures.appendix_e import FIXED
from heavystep.lab.figures.figure2 import claims as figure2_claims
from heavystep.lab.figures.figure2 import figure2
from heavystep.lab.figures.figure2 import _rows as rows_of
from tests.helpers.figure2_results import K, by_label, ideal, trajectory


def verdicts(figure, results):
    return {claim.id: claim.holds for claim in figure2_claims(figure, results)}


AT_THE_END = np.where(K[-1] == K, 1.0, 0.0)
HALF = list(CATALOGUE)[:4]
SPOILED = {
    "end": (HALF, "SHB-PS", 0.9e-3 + 0.4 * AT_THE_END, {"PS.lower", "mushrooms.PS"}),
    "area": (HALF, "SHB-ALS", 0.9 - 0.899 * AT_THE_END, {"ALS.faster"}),
    "factor": (["mushrooms"], "SPS", 4.9e-3, {"mushrooms.PS"}),
    "factor there": (["real-sim"], "SLS", 4.9e-3, {"real-sim.ALS"}),
    "sweep": (["w8a"], FIXED[1], 0.97e-3, {"w8a.SHB-PS", "w8a.SHB-ALS"}),
}
"""Data sets, method, its losses in place of the ideal ones, and the claims that must fail."""


@pytest.mark.parametrize("kind", SPOILED)
def test_claims_can_fail(kind, eight):
    """From tables on which all hold, each predicate turns false on numbers that break it."""
    figure = figure2()
    results = ideal(figure)
    before = verdicts(figure, results)
    assert len(before) == 4 + 4 + 16
    assert all(before.values())
    sets, method, losses, broken = SPOILED[kind]
    for name in sets:
        results[by_label(figure, name)[method].key()] = trajectory(losses * np.ones(len(K)))
    failed = {name for name, holds in verdicts(figure, results).items() if not holds}
    # Losses far above also miss the sweep.
    assert failed - {f"{name}.{method}" for name in sets} == broken


def test_most_is_more_than_half(eight):
    figure = figure2()
    results = ideal(figure)
    for name in HALF[:3]:
        results[by_label(figure, name)["SHB-PS"].key()] = trajectory(np.ones(len(K)))
    found = verdicts(figure, results)
    assert found["PS.faster"]
    assert found["PS.lower"]
    results[by_label(figure, HALF[3])["SHB-PS"].key()] = trajectory(np.ones(len(K)))
    found = verdicts(figure, results)
    assert not found["PS.faster"]
    assert not found["PS.lower"]


@pytest.mark.parametrize("value", [np.nan, 0.0])
def test_nan_and_zero_hold_nothing(value, eight):
    figure = figure2()
    results = {key: trajectory(np.full(len(K), value)) for key in ideal(figure)}
    claims = figure2_claims(figure, results)
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)
    assert all(math.isnan(row.ratio_to_best) for row in rows_of(figure, results))


def test_nothing_is_claimed_of_a_companion(eight):
    figure = figure2(max_step=10.0)
    assert figure2_claims(figure, ideal(figure)) == []
