"""The page of a results folder: whole, safe, and drawn by a real browser."""

import json
import re
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.lab.comparison.table import COLUMNS
from heavystep.lab.report import POINTS, Curve, _median, read_part, write_report
from heavystep.lab.store import Store, key_of

EVIL = "</script><script>alert(1)</script>"


def save(folder, content, **columns):
    """A run as sweeps keep it."""
    text = json.dumps(content, sort_keys=True)
    Store(folder / "runs").save(key_of(text), text, columns)


def simulated(method, **options):
    return {
        "problem": {"name": "least squares", "setting": 0.3},
        "method": {"name": method, "options": options, "average": None},
        "seeds": 2, "iterations": 100,
    }  # fmt: skip


def trained(seed):
    method = {"name": "SHB-PS", "optimizer": "SHBPolyak", "options": [["c", 1.0]]}
    return {"protocol": 1, "run": {"data_set": "cifar10", "method": method, "seed": seed}}


@pytest.fixture
def results(tmp_path):
    """A folder with a figure, trainings and a comparison."""
    figure, k = tmp_path / "figure1", np.arange(1, 101)
    for method, power in (("SHBPolyak", -1.0), ("SHBArmijo", -0.5)):
        values = np.concatenate([k**power, 2.0 * k**power])
        save(figure, simulated(method, c=0.5), seed=np.repeat([0, 1], 100), k=np.tile(k, 2),
             gap_last=values, steps=0.1 + 0.0 * values)  # fmt: skip
    claim = {"id": "a.b", "of": "paper", "text": f"it falls {EVIL}", "holds": False,
             "measured": {"rate": 1.0 / 3.0}}  # fmt: skip
    (figure / "claims.json").write_text(json.dumps([claim]))
    (figure / "table.csv").write_text("method,end\nSHBPolyak,0.01\n")
    for seed, epochs in ((0, 4), (1, 2)):
        save(tmp_path / "figure3", trained(seed), epoch=np.arange(1, epochs + 1),
             loss=np.linspace(2.0, 1.0, epochs))  # fmt: skip
    (tmp_path / "compare").mkdir()
    lines = [f"mlp,{EVIL},lr,{v},{s},{v + s},1,,,1,10,k" for v in (0.1, 1.0) for s in (0, 1)]
    (tmp_path / "compare" / "runs.csv").write_text("\n".join([",".join(COLUMNS), *lines]) + "\n")
    return tmp_path


def test_runs_become_curves(results):
    curves = {curve.label: curve for curve in read_part(results / "figure1").curves}
    assert set(curves) == {"SHBPolyak", "SHBArmijo"}
    curve = curves["SHBPolyak"]
    assert curve.problem == "least squares, 0.3"
    assert curve.metrics["gap_last"].shape == (2, 100)
    np.testing.assert_allclose(_median(curve, "gap_last")[1], 1.5 / np.array(curve.k), rtol=1e-4)
    (epochs,) = read_part(results / "figure3").curves
    assert (epochs.unit, epochs.metrics["loss"].shape) == ("epoch", (2, 4))
    (constants,) = read_part(results / "compare").curves
    assert (constants.unit, constants.problem, list(constants.k)) == ("constant", "mlp", [0.1, 1.0])
    assert _median(constants, "loss")[1] == [0.6, 1.5]


def test_options_tell_runs_of_a_method_apart(tmp_path):
    for c in (0.5, 1.0):
        save(tmp_path, simulated("SPS", c=c, lr=1.0), seed=np.zeros(1, int),
             k=np.ones(1, int), loss=np.ones(1))  # fmt: skip
    assert {curve.label for curve in read_part(tmp_path).curves} == {"SPS, c 0.5", "SPS, c 1"}


def test_long_curves_are_thinned_on_both_kinds_of_axis():
    k = np.arange(1, 10**6 + 1.0)
    x, y = _median(Curve("p", "m", k, {"loss": 1.0 / k[None]}), "loss")
    assert len(x) == len(y) <= POINTS
    assert (x[0], x[-1]) == (1.0, 1e6)
    assert np.diff(np.log10(x)).max() < 0.35
    assert np.diff(x).max() < 1e4
    gaps = np.array([[1.0, np.nan, np.inf, 2.0]])
    assert _median(Curve("p", "m", k[:4], {"loss": gaps}), "loss")[1] == [1.0, None, None, 2.0]


def test_the_page_is_whole_and_nothing_in_it_runs(results):
    page = results / "report.html"
    write_report(results, page)
    text = page.read_text()
    assert EVIL not in text
    assert not re.search(r"<(?:script|link|img)[^>]+(?:src|href)=", text.split("</script>")[-1])
    for part in ("figure1", "a.b", "rate: 0.333", "NO", "0 of 1 claims hold", "table.csv",
                 "heavystep reproduce figure1", "heavystep compare", "2 seeds"):  # fmt: skip
        assert part in text, part
    assert '"type":"log"' in text


def test_what_is_damaged_is_named(results):
    path = next((results / "figure1" / "runs").glob("*.parquet"))
    path.write_bytes(path.read_bytes()[:-50])
    (results / "figure1" / "claims.json").write_text("[{}]")
    part = read_part(results / "figure1")
    assert len(part.curves) == 1
    run, claims = part.notes
    assert path.name in run
    assert "claims.json is not a list of claims" in claims


def test_the_command(results):
    result = CliRunner().invoke(app, ["report", str(results)])
    assert result.exit_code == 0, result.output
    assert (results / "report.html").exists()
    (results / "empty").mkdir()
    for name, message in (("nowhere", "there is no folder"), ("empty", "holds no runs, claims or")):
        refused = CliRunner().invoke(app, ["report", str(results / name)])
        assert refused.exit_code == 2
        assert message in refused.stderr


PROGRAMS = [shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")]


@pytest.mark.slow
@pytest.mark.skipif(not all(PROGRAMS), reason="needs chromium and chromedriver")
def test_a_browser_draws_it(results, request):
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = PROGRAMS[0]
    for argument in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(PROGRAMS[1]))
    request.addfinalizer(driver.quit)
    write_report(results, results / "report.html")
    driver.get((results / "report.html").as_uri())
    graphs = driver.find_elements("css selector", ".js-plotly-plot")
    assert len(graphs) == 3
    assert all(graph.find_elements("css selector", "path.js-line") for graph in graphs)
    kind = "return document.querySelector('.js-plotly-plot').layout.yaxis.type"
    assert driver.execute_script(kind) == "log"
    graphs[0].find_elements("css selector", ".legendtoggle")[0].click()
    assert not driver.get_log("browser")
