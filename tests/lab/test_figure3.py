"""Claims about Figure 3 can fail."""

import json
import math

import numpy as np
import pytest

from heavystep.lab.figures.appendix_e import FIXED, METHODS
from heavystep.lab.figures.figure3 import claims as figure3_claims
from heavystep.lab.figures.figure3_picture import pictures as figure3_pictures
from heavystep.lab.plot import styled
from tests.helpers.figure3_results import BOTH, BROKEN, SPEEDS, K, accuracy, drawn, fill, ideal
from tests.helpers.histories import EPOCHS, spec, store_of


def verdicts(out, **options):
    return {claim.id: claim.holds for claim in figure3_claims(*drawn(out, **options))}


@pytest.mark.parametrize("claim", BROKEN)
def test_claims_can_fail(claim, made, tmp_path):
    before = verdicts(made)
    assert list(before) == [f"{name}.{each}" for name in BOTH for each in (
        "PS.faster", "PS.earlier", "ALS.comparable", "SHB-PS.fixed", "SHB-ALS.fixed",
        "ALS.lower_without")]  # fmt: skip
    assert all(before.values())
    fill(tmp_path, ("cifar100",), **BROKEN[claim])
    after = verdicts(tmp_path)
    assert {name for name, holds in after.items() if not holds} == {f"cifar100.{claim}"}


LIMITS = [
    ("PS.faster", {"SHB-PS": {"loss": np.where(K > 2, 0.1, 5.0)}}, True),  # 18 of 20 epochs
    ("PS.faster", {"SHB-PS": {"loss": np.where(K > 3, 0.1, 5.0)}}, False),  # 17
    ("ALS.comparable", {"SHB-ALS": {"test_accuracy": accuracy(0.5) + 0.014}}, True),
    ("ALS.comparable", {"SHB-ALS": {"test_accuracy": accuracy(0.5) + 0.016}}, False),
    ("SHB-ALS.fixed", {FIXED[0]: {"loss": ideal("SHB-ALS")["loss"]}}, True),  # as low is enough
    ("SHB-PS.fixed", {FIXED[0]: {"loss": np.nan * K}}, True),  # one that diverged is no rival
    ("ALS.lower_without", {"SLS": {"loss": ideal("SHB-ALS")["loss"]}}, False),
    ("PS.earlier", {"SHB-PS": {"test_accuracy": accuracy(0.4)}}, False),  # no later is not earlier
    # Earlier at 95%, later at 98%.
    ("PS.earlier", {"SHB-PS": {"test_accuracy": np.where(K < EPOCHS, 0.87, 0.9)}}, True),
]


@pytest.mark.parametrize(("claim", "other", "holds"), LIMITS)
def test_claims_at_their_limits(claim, other, holds, tmp_path):
    fill(tmp_path, ("cifar10",), **other)
    assert verdicts(tmp_path)[f"cifar10.{claim}"] == holds


def test_what_is_measured_is_plain_arithmetic(made):
    measured = {claim.id: claim.measured for claim in figure3_claims(*drawn(made))}
    assert measured["cifar10.PS.faster"]["share of epochs"] == 1.0
    gain = measured["cifar10.PS.faster"]["mean difference of log10 loss"]
    assert gain == pytest.approx(math.log10(0.5))
    earlier = measured["cifar10.PS.earlier"]
    reach = accuracy(0.4)[-1]
    assert earlier["accuracy that both reach"] == pytest.approx(reach)
    for share in (0.9, 0.95, 0.98):
        for method in ("SHB-PS", "SPS"):
            epoch = next(k for k in K if accuracy(SPEEDS[method])[k - 1] >= share * reach)
            assert earlier[f"{method} at {share:.0%}"] == epoch
    final = 0.15 * (2.0 + 5 / 19 + 5 / 20) / 2.0
    assert measured["cifar10.SHB-ALS.fixed"]["SHB-ALS"] == pytest.approx(final)


def test_a_data_set_without_all_methods_claims_nothing(made, tmp_path):
    fill(tmp_path)
    for seed in range(3):
        store_of(tmp_path).path(spec("cifar10", FIXED[1], seed)).unlink()
    assert {name.split(".")[0] for name in verdicts(tmp_path)} == {"cifar100"}


def test_nan_holds_nothing(tmp_path):
    nothing = {name: {"loss": np.nan * K, "test_accuracy": np.nan * K} for name in METHODS}
    fill(tmp_path, ("cifar10",), seeds=2, **nothing)
    figure, results = drawn(tmp_path)
    claims = figure3_claims(figure, results)
    assert len(claims) == 6
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)
    with styled():
        for canvas in figure3_pictures(figure, results).values():
            canvas.draw_without_rendering()
