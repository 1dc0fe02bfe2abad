"""The page: self-contained, honest about what it leaves out, and safe from what files say."""

import json
import re
import shlex
from html.parser import HTMLParser

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.compare.plan import plan as plan_comparison
from heavystep.paper.reproduce import plan
from heavystep.report import page as pages
from heavystep.report.commands import commands
from heavystep.report.numbers import BINS, as_json, summarised, thinned
from heavystep.report.page import NO_CURVES, SUMMARISED, THINNED, render, write_report
from heavystep.report.reading import read_part, read_results
from heavystep.sweeps.public import SECTION_5
from tests.helpers.places import ROOT
from tests.helpers.results_folder import HOSTILE, comparison, falling, specification, write_run


def page_of(folder):
    return render(read_results(folder), folder)


def data_of(text):
    return json.loads(
        re.search(r'<script type="application/json" id="data">(.*?)</script>', text).group(1)
    )


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags = []
        self.attributes = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs


def test_the_page_needs_nothing_else(tmp_path):
    text = page_of(comparison(tmp_path))
    assert "default-src 'none'" in text
    assert NO_CURVES not in text
    assert not re.findall(r"(?:src|href)=[\"'](?!#)", text)
    assert "@import" not in text
    assert "url(" not in text.replace("url(#${clip})", "")
    assert set(re.findall(r"https?://[^\s\"'<]+", text)) == {"http://www.w3.org/2000/svg"}


def test_numbers_of_the_page_are_those_of_the_files(tmp_path):
    (panel,) = data_of(page_of(comparison(tmp_path)))
    by_label = {curve["label"]: curve for curve in panel["curves"]}
    assert set(by_label) == {"SHBPolyak, c 0.5", "SHBPolyak, c 1", "SPS"}
    np.testing.assert_allclose(
        by_label["SPS"]["metrics"]["loss"], falling(rate=0.3)["loss"], rtol=5e-5
    )
    assert by_label["SPS"]["k"] == list(range(1, 41))
    assert panel["metric"] == "loss"


def test_what_files_say_is_escaped(tmp_path):
    folder = tmp_path / "compare"
    spec = specification(HOSTILE, problem=HOSTILE, **{HOSTILE: HOSTILE})
    write_run(folder, spec, {**falling(), HOSTILE: falling()["loss"]})
    write_run(folder, specification(HOSTILE, problem=HOSTILE), falling())
    (folder / "t.csv").write_text(f'{HOSTILE.replace(chr(34), "")}\n"<b>x</b>"\n')
    claim = {"id": HOSTILE, "text": HOSTILE, "holds": False, "measured": {HOSTILE: HOSTILE}}
    (folder / "claims.json").write_text(json.dumps([claim]))
    text = page_of(folder)
    parser = Tags()
    parser.feed(text)
    assert "img" not in parser.tags
    assert "b" not in parser.tags
    assert parser.tags.count("script") == 2
    assert not [name for name, _ in parser.attributes if name.startswith("on")]
    assert data_of(text)[0]["title"] == HOSTILE


def test_parts_of_the_same_name_are_told_apart(tmp_path):
    comparison(tmp_path / "monday" / "compare")
    write_run(tmp_path / "tuesday" / "compare", specification(problem="w8a"), falling())
    text = page_of(tmp_path)
    assert [panel["title"] for panel in data_of(text)] == ["a9a", "w8a"]
    assert re.findall(r"<h2>(.*?)</h2>", text)[:2] == ["monday/compare", "tuesday/compare"]
    assert re.findall(r'data-panel="(\d+)"><h3>(.*?)<', text) == [("0", "a9a"), ("1", "w8a")]


def test_diverged_runs_are_told(tmp_path):
    metrics = falling()
    metrics["loss"][1, 10:] = np.inf
    metrics["loss"][0, 12:] = np.nan
    write_run(tmp_path, specification(), metrics)
    text = page_of(tmp_path)
    (panel,) = data_of(text)
    assert panel["curves"][0]["metrics"]["loss"][1][10:] == [None] * 30
    assert "not finite" in text


def test_a_page_of_claims_opens_what_fails(tmp_path):
    claims = [
        {"id": f"c{n}", "text": "t", "holds": n > 0, "measured": {"x": "inf"}} for n in range(3)
    ]
    (tmp_path / "claims.json").write_text(json.dumps(claims))
    text = page_of(tmp_path)
    assert "Claims: 2 of 3 hold" in text
    assert "<details open>" in text
    assert text.count('<td class="broken">NO</td>') == 1
    assert text.count("<td>yes</td>") == 2
    assert NO_CURVES in text


def test_thinning_keeps_every_extreme():
    rng = np.random.default_rng(0)
    k = np.arange(1, 20_001)
    values = rng.standard_normal((2, len(k)))
    values[0, 12_345], values[1, 77] = 50.0, -50.0
    kept = thinned(k, {"x": values})
    assert kept.thinned
    assert len(kept.k) <= 4 * BINS
    found = kept.values["x"]
    assert found.shape == (2, len(kept.k))
    np.testing.assert_array_equal(found.min(axis=1), values.min(axis=1))
    np.testing.assert_array_equal(found.max(axis=1), values.max(axis=1))
    # A peak is within a bin of its place, on both kinds of axes.
    for seed, place in ((0, 12_345), (1, 77)):
        at = kept.k[np.argmax(abs(found[seed]))]
        assert abs(at - k[place]) <= len(k) / BINS
        assert abs(np.log(at / k[place])) <= np.log(len(k)) / BINS + 1.0 / k[place]
    assert (np.diff(kept.k) >= 0).all()


def test_short_curves_are_not_thinned():
    k = np.unique(np.geomspace(1, 1e6, 200).astype(int))
    assert not thinned(k, {"x": np.ones((1, len(k)))}).thinned


def test_the_page_says_what_it_left_out(tmp_path, monkeypatch):
    points = 6 * BINS
    write_run(tmp_path, specification(seeds=5, iterations=points), falling(seeds=5, points=points))
    text = page_of(tmp_path)
    assert THINNED in text
    assert SUMMARISED not in text
    monkeypatch.setattr(pages, "BUDGET", 10)
    text = page_of(tmp_path)
    assert SUMMARISED in text
    assert data_of(text)[0]["curves"][0]["seeds"] == ["median", "least", "largest"]


def test_summaries_of_seeds():
    values = np.array([[1.0, np.nan, np.nan], [2.0, 5.0, np.nan], [9.0, 7.0, np.nan]])
    found = summarised({"x": values})["x"]
    np.testing.assert_array_equal(
        found, [[2.0, 6.0, np.nan], [1.0, 5.0, np.nan], [9.0, 7.0, np.nan]]
    )


def test_json_has_no_tags_and_no_infinities():
    text = as_json({"a</script>": [np.array([[1e-300, -np.inf]]), "<!--", None, True, 0.1]})
    assert "<" not in text
    assert json.loads(text) == {"a</script>": [[[1e-300, None]], "<!--", None, True, 0.1]}


def test_the_command_makes_the_same_runs(small_figure1, tmp_path):
    figure, store, _ = small_figure1
    (tmp_path / "figure1").mkdir()
    (tmp_path / "figure1" / "runs").symlink_to(store.folder)
    (line,) = commands(read_part(tmp_path / "figure1"))
    program, reproduce, name, *options = shlex.split(line)
    assert (program, reproduce) == ("heavystep", "reproduce")
    given = dict(zip(options[::2], options[1::2], strict=True))
    assert given["--out"] == str(tmp_path)
    sizes = {"seeds": int(given["--seeds"]), "iterations": int(given["--iterations"])}
    again = plan(name, tmp_path, quick=False, chosen=sizes)
    assert set(again.runs) == set(figure.runs())


def test_commands_of_other_folders(tmp_path):
    (line,) = commands(read_part(comparison(tmp_path / "my results")))
    assert shlex.split(line)[:6] == [
        "heavystep",
        "compare",
        "--problem",
        "a9a",
        "--methods",
        "SHBPolyak:c=0.5,SHBPolyak,SPS",
    ]
    assert shlex.split(line)[-1] == str(tmp_path / "my results")


def test_the_command_of_a_comparison_makes_the_same_runs(tmp_path):
    """Problems by the names that commands know, methods with the options that they were given."""
    names = ["SHBPolyak", "SHBPolyak:scaling=practical", "SHBArmijo:c=0.4", "SHB:momentum=0.5"]
    for problem in SECTION_5:
        wanted = plan_comparison(problem, names, seeds=2, iterations=40)
        folder = tmp_path / wanted.problem.slug
        for run in wanted.runs().values():
            write_run(folder, run.content(), falling())
        (line,) = commands(read_part(folder))
        words = shlex.split(line)
        assert words[words.index("--problem") + 1] == problem
        again = words[words.index("--methods") + 1].split(",")
        assert set(again) == set(names)


def test_from_the_shell(tmp_path):
    comparison(tmp_path)
    shown = CliRunner().invoke(app, ["report", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.strip() == str(tmp_path / "report.html")
    first = (tmp_path / "report.html").read_text()
    other = tmp_path / "elsewhere" / "page.html"
    CliRunner().invoke(app, ["report", str(tmp_path), "--page", str(other)])
    assert other.read_text() == first


@pytest.mark.parametrize(
    ("given", "message"), [("nowhere", "there is no folder"), (".", "holds no runs")]
)
def test_bad_input_is_one_line(tmp_path, given, message):
    shown = CliRunner().invoke(app, ["report", str(tmp_path / given)])
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert len(shown.stderr.splitlines()) == 1
    assert not (tmp_path / "report.html").exists()


def test_a_page_that_cannot_be_written(tmp_path):
    comparison(tmp_path)
    with pytest.raises(OSError, match="page"):
        write_report(tmp_path, tmp_path / "a9a.csv" / "page.html")


def test_the_commands_of_the_documentation_are_there():
    block = re.search(
        r"```sh\n(.*?)```", (ROOT / "docs" / "report.md").read_text(), re.DOTALL
    ).group(1)
    for line in block.splitlines():
        program, command, *arguments = shlex.split(line)
        known = get_command(app).get_command(None, command)
        options = {name for option in known.params for name in option.opts}
        assert program == "heavystep"
        assert {word for word in arguments if word.startswith("-")} <= options
