"""Figure 1 is that of Section 5, with its constants."""

import pytest

from heavystep.lab.figures.figure1 import BETAS, figure1
from heavystep.problems import paper_cosine
from tests import reference


def test_the_figure_is_section_5s():
    figure = figure1()
    assert [panel.id for panel in figure.panels] == list("abcdefgh")
    assert [len(panel.curves) for panel in figure.panels] == [5, 5, 2, 2, 5, 5, 2, 2]
    runs = figure.runs().values()
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
    for run in figure1().runs().values():
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
