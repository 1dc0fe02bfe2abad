"""Figure 1 is that of Section 5; its claims can fail, and its picture shows the tables."""

import json
from dataclasses import replace

import numpy as np
import pytest

from heavystep.lab.figures import figure1
from heavystep.lab.figures.figure1 import BETAS, DIMINISHING
from heavystep.lab.simulation.loop import THEORY_METRICS as METRICS
from heavystep.lab.simulation.run import log_grid
from heavystep.problems import paper_cosine
from heavystep.records import Trajectories
from tests import reference

SMALL = {"seeds": 2, "iterations": 1000}


def ideal(figure):
    """Tables on which every claim holds."""
    k, results = log_grid(10**6), {}
    for panel in figure.panels:
        for curve in panel.curves:
            level = 1e-3 / k**2 if len(panel.curves) > 2 else 1e-3 + 0.0 * k
            if curve.label == DIMINISHING:
                level = 1e-2 / k
            values = np.stack([level, 1.1 * level])
            ones = np.ones_like(values)
            metrics = dict.fromkeys(METRICS, values) | {"lowest": ones, "highest": ones}
            results[curve.run] = Trajectories(k, (0, 1), metrics)
    return results


FLAT = np.ones((2, len(log_grid(10**6))))
NAN = dict.fromkeys(METRICS, np.nan * FLAT)
SPOILED = {
    "bound": dict.fromkeys(("gap_average", "best"), 1e12 / log_grid(10**6) ** 2 * FLAT),
    "steps": {"lowest": 0.5 * FLAT},
    "last": dict.fromkeys(("gap_last", "grad_last"), FLAT),
    "rate": dict.fromkeys(("gap_average", "best"), 1e-3 * FLAT),
    "neighbourhood": dict.fromkeys(("gap_last", "grad_last"), 1e-3 / log_grid(10**6) * FLAT),
    "diminishing": dict.fromkeys(("gap_average", "best_after"), 1e-4 * FLAT),
}


def spoiled(results, wrong):
    return {
        run: replace(found, metrics={**found.metrics, **wrong}) for run, found in results.items()
    }


@pytest.mark.parametrize("kind", SPOILED)
def test_claims_can_fail(kind):
    """Each predicate turns false on numbers that break it, from tables on which all hold."""
    (figure,) = figure1.figures(**SMALL)
    results = ideal(figure)
    assert all(claim.holds for claim in figure1.claims(figure, results))
    after = figure1.claims(figure, spoiled(results, SPOILED[kind]))
    assert not any(claim.holds for claim in after if claim.id.endswith(f".{kind}"))


def test_nan_holds_nothing():
    (figure,) = figure1.figures(**SMALL)
    claims = figure1.claims(figure, spoiled(ideal(figure), NAN))
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)


def test_the_picture_shows_means_and_maxima():
    (figure,) = figure1.figures(**SMALL)
    results = ideal(figure)
    panel, ax = figure.panels[2], figure1.pictures(figure, results)["figure1"].axes[2]
    standard, _, diminishing, _ = (line.get_ydata() for line in ax.get_lines()[:4])
    shown = [results[curve.run].metrics[curve.metric] for curve in panel.curves]
    np.testing.assert_allclose(standard, shown[0].mean(axis=0))
    np.testing.assert_allclose(diminishing, shown[1].max(axis=0))


def test_the_figure_is_section_5s():
    (figure,) = figure1.figures()
    assert [panel.name for panel in figure.panels] == list("abcdefgh")
    assert [len(panel.curves) for panel in figure.panels] == [5, 5, 2, 2, 5, 5, 2, 2]
    runs = figure.runs()
    assert len(runs) == 28
    assert {run.seeds for run in runs} == {20}
    assert {run.iterations for run in runs} == {10**6}
    assert {run.method["c"] for run in runs} == {0.75}
    assert {dict(run.method.options).get("decrease_factor") for run in runs} == {None, 0.5}
    standard = {run.method["momentum"] for run in runs if run.method["scaling"] == "theory"}
    assert standard == set(BETAS)


def test_section_5s_constants():
    """Caps and schedules as numbers."""
    by_setting = {}
    for run in figure1.figures()[0].runs():
        method, scaling = run.method, run.method["scaling"]
        beta = method["momentum"] if scaling == "theory" else None
        place = run.problem.name, run.problem.setting, method.theory, scaling, beta
        by_setting[place] = method
    assert by_setting["least squares", 0.3, "polyak", "theory", 0.9]["max_step"] == 1.0
    noise = paper_cosine("noise")
    for rule, omega in (("polyak", None), ("armijo", 0.5)):
        limit = reference.theorem_3_limit(rule, noise.L, noise.rho, 0.9, 0.75, omega)
        standard = by_setting["cosine", "noise", rule, "theory", 0.9]
        assert standard["max_step"] == pytest.approx(0.8 * limit, rel=1e-12)
        diminishing = by_setting["cosine", "noise", rule, "plain", None]
        assert diminishing["max_step"].initial == pytest.approx(1.6 * limit, rel=1e-12)
    laws = by_setting["least squares", 0.3, "armijo", "plain", None]
    assert laws["lr"] == (0.5, 0.4, 1e4)
    assert laws["momentum"] == (0.9, 1.1, 1e4)
    assert laws["max_step"] == (0.02, 0.3, 1e4)
    assert laws.average == "weighted"
