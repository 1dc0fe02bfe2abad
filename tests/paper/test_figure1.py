"""Figure 1: its runs as data, the store, resuming, claims that can fail, the commands."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from heavystep.cli.app import app
from heavystep.paper.figure1.claims import figure1_claims, slope
from heavystep.paper.figure1.definition import BETAS, figure1
from heavystep.paper.figure1.plot import figure1_pictures
from heavystep.parquet import DamagedError
from heavystep.problems import paper_cosine
from heavystep.records import Trajectories
from heavystep.simulation.run import log_grid
from heavystep.simulation.watch import THEORY_METRICS as METRICS
from heavystep.sweeps import specification
from heavystep.sweeps.engines import LocalEngine
from heavystep.sweeps.output_folder import MARK, claim_folder
from heavystep.sweeps.runner import FailedRunsError, complete, joined
from heavystep.sweeps.store import Store
from tests import reference
from tests.helpers.told import Told

SMALL = {"seeds": 2, "iterations": 1000}
ARGUMENTS = ["--seeds", "2", "--iterations", "1000"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    figure, store = figure1(**SMALL), Store(tmp_path_factory.mktemp("runs"))
    return figure, store, complete(figure.runs(), store, Told(), engine=LocalEngine(2))


def test_the_figure_is_section_5s():
    figure = figure1()
    assert [panel.id for panel in figure.panels] == list("abcdefgh")
    assert [len(panel.curves) for panel in figure.panels] == [5, 5, 2, 2, 5, 5, 2, 2]
    runs = figure.runs().values()
    assert len(runs) == 28
    assert {run.seeds for run in runs} == {20}
    assert {run.iterations for run in runs} == {10**6}
    assert {run.method.c for run in runs} == {0.75}
    assert {run.method.omega for run in runs} == {None, 0.5}
    standard = {run.method.beta for run in runs if run.method.scaling == "theory"}
    assert standard == set(BETAS)


def test_keys_depend_on_everything(monkeypatch):
    run = next(iter(figure1(**SMALL).runs().values()))
    others = [
        replace(run, seeds=3),
        replace(run, iterations=999),
        replace(run, method=replace(run.method, c=0.76)),
        replace(run, problem=replace(run.problem, setting=0.3)),
    ]
    keys = {run.key(), *(other.key() for other in others)}
    assert len(keys) == 5
    assert run.key() == next(iter(figure1(**SMALL).runs().values())).key()
    monkeypatch.setattr(specification, "mathematics_version", lambda: "another")
    assert run.key() not in keys


def test_what_is_there_is_not_run_again(made):
    figure, store, results = made
    progress = Told()
    again = complete(figure.runs(), store, progress, engine=LocalEngine(1))
    assert progress.started == (28, 28, 0)
    assert progress.begun == []
    for key, result in results.items():
        np.testing.assert_array_equal(again[key].k, result.k)
        assert again[key].seeds == result.seeds
        for name, values in result.metrics.items():
            np.testing.assert_array_equal(again[key].metrics[name], values)


def test_threads_change_nothing(made, tmp_path):
    figure, store, _ = made
    some = dict(list(figure.runs().items())[:3])
    complete(some, Store(tmp_path), Told(), engine=LocalEngine(1))
    for run in some.values():
        assert Store(tmp_path).path(run).read_bytes() == store.path(run).read_bytes()


def test_a_run_that_fails_is_reported_and_the_others_are_made(made, tmp_path):
    figure, _, _ = made
    first, *others = figure.runs().values()
    wild = replace(first, method=replace(first.method, rule="fixed", gamma_max=1e200))
    runs, progress = {run.key(): run for run in (wild, *others)}, Told()
    with pytest.raises(FailedRunsError, match=r"1 of 28 runs .* loss or gradient not finite"):
        complete(runs, Store(tmp_path), progress, engine=LocalEngine(2))
    assert len(list(tmp_path.iterdir())) == len(others)
    (report,) = progress.notes  # of both its seeds
    assert "Traceback" in report


def test_seeds_are_joined_in_their_order(made):
    figure, _, results = made
    whole = results[next(iter(figure.runs()))]
    single = {
        seed: Trajectories(whole.k, (seed,), {n: v[[seed]] for n, v in whole.metrics.items()})
        for seed in (1, 0)
    }
    again = joined(single)
    assert again.seeds == whole.seeds == (0, 1)
    for name, values in whole.metrics.items():
        np.testing.assert_array_equal(again.metrics[name], values)


class Impatient(Told):
    """Stops after two runs."""

    def finish(self):
        super().finish()
        if self.finished == 2:
            raise KeyboardInterrupt


def test_stopped_it_keeps_what_is_complete(made, tmp_path):
    figure, _, _ = made
    with pytest.raises(KeyboardInterrupt):
        complete(figure.runs(), Store(tmp_path), Impatient(), engine=LocalEngine(2))
    assert len(list(tmp_path.iterdir())) == 2


def damage_cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def damage_empty(path):
    path.write_bytes(b"")


def damage_data(path):
    """One bit of the numbers, far from the footer."""
    column = pq.read_metadata(path).row_group(0).column(3)
    content = bytearray(path.read_bytes())
    begin = column.dictionary_page_offset or column.data_page_offset
    content[begin + column.total_compressed_size - 9] ^= 0x10
    path.write_bytes(bytes(content))


def damage_footer(path):
    content = bytearray(path.read_bytes())
    content[-6] ^= 0xFF
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("damage", [damage_cut, damage_empty, damage_data, damage_footer])
def test_a_damaged_file_is_found_reported_and_run_again(made, tmp_path, damage):
    figure, store, _ = made
    copy = Store(tmp_path)
    for path in store.folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    victim = next(iter(figure.runs().values()))
    whole = copy.path(victim).read_bytes()
    damage(copy.path(victim))
    with pytest.raises(DamagedError, match=copy.path(victim).name):
        copy.load(victim)
    progress = Told()
    complete(figure.runs(), copy, progress, engine=LocalEngine(2))
    assert len(progress.notes) == 1
    assert "run again" in progress.notes[0]
    assert progress.finished == 1
    assert copy.path(victim).read_bytes() == whole


def test_any_wrong_bit_is_found_or_changes_nothing(made, tmp_path):
    """Headers of pages have no checksum; what they may spoil is found by the hash of the numbers."""
    figure, store, results = made
    key, victim = next(iter(figure.runs().items()))
    whole, copy = store.path(victim).read_bytes(), Store(tmp_path)
    found = 0
    for position in range(0, len(whole), len(whole) // 150):
        content = bytearray(whole)
        content[position] ^= 0x10
        copy.path(victim).write_bytes(bytes(content))
        try:
            loaded = copy.load(victim)
        except DamagedError:
            found += 1
        else:
            for name, values in results[key].metrics.items():
                np.testing.assert_array_equal(loaded.metrics[name], values)
    assert found > 100


def test_other_numbers_under_the_same_specification_are_found(made, tmp_path):
    figure, store, _ = made
    run = next(iter(figure.runs().values()))
    table = pq.read_table(store.path(run))
    values = table["gap_last"].to_numpy().copy()
    values[-1] *= 1.0 + 1e-12
    index = table.column_names.index("gap_last")
    pq.write_table(table.set_column(index, "gap_last", [values]), Store(tmp_path).path(run))
    with pytest.raises(DamagedError, match="does not hold the numbers that were written"):
        Store(tmp_path).load(run)


def test_a_file_under_another_name_is_not_taken_for_the_run(made, tmp_path):
    figure, store, _ = made
    first, second, *_ = figure.runs().values()
    copy = Store(tmp_path)
    copy.path(first).write_bytes(store.path(second).read_bytes())
    with pytest.raises(DamagedError, match="is not the run that its name says"):
        copy.load(first)


def test_force_runs_everything_again(made, tmp_path):
    figure, _, results = made
    progress = Told()
    small = replace(figure, panels=figure.panels[2:3])
    complete(small.runs(), Store(tmp_path), Told(), engine=LocalEngine(2))
    again = complete(small.runs(), Store(tmp_path), progress, engine=LocalEngine(2), force=True)
    assert progress.finished == 2
    key = next(iter(small.runs()))
    np.testing.assert_array_equal(again[key].metrics["gap_last"], results[key].metrics["gap_last"])


def test_an_interrupted_write_leaves_nothing(made, tmp_path, monkeypatch):
    figure, _, results = made
    key, run = next(iter(figure.runs().items()))
    store = Store(tmp_path / "runs")

    def full_disk(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(OSError, match="No space left"):
        store.save(run, results[key])
    assert list((tmp_path / "runs").iterdir()) == []


def ideal(figure):
    """Tables on which every claim holds."""
    k, results = log_grid(10**6), {}
    for panel in figure.panels:
        for curve in panel.curves:
            noisy = len(panel.curves) == 2
            level = (
                1e-2 / k if curve.diminishing else np.full(len(k), 1e-3) if noisy else 1e-3 / k**2
            )
            values = np.stack([level, 1.1 * level])
            ones = np.ones_like(values)
            metrics = dict.fromkeys(METRICS, values) | {"lowest": ones, "highest": ones}
            results[curve.run.key()] = Trajectories(k, (0, 1), metrics)
    return results


FLAT = np.ones((2, len(log_grid(10**6))))
SPOILED = {
    "bound": {"gap_average": 1e12 / log_grid(10**6) ** 2 * FLAT, "best": 1e12 / log_grid(10**6) ** 2 * FLAT},
    "steps": {"lowest": 0.5 * FLAT},
    "last": {"gap_last": FLAT, "grad_last": FLAT},
    "rate": {"gap_average": 1e-3 * FLAT, "best": 1e-3 * FLAT},
    "neighbourhood": {"gap_last": 1e-3 / log_grid(10**6) * FLAT, "grad_last": 1e-3 / log_grid(10**6) * FLAT},
    "diminishing": {"gap_average": 1e-4 * FLAT, "best_after": 1e-4 * FLAT},
}  # fmt: skip


def verdicts(figure, results):
    return {claim.id: claim.holds for claim in figure1_claims(figure, results)}


@pytest.mark.parametrize("kind", SPOILED)
def test_claims_can_fail(kind):
    """Each predicate turns false on numbers that break it, from tables on which all hold."""
    figure = figure1(**SMALL)
    results = ideal(figure)
    assert all(verdicts(figure, results).values())
    wrong = {
        key: replace(result, metrics={**result.metrics, **SPOILED[kind]})
        for key, result in results.items()
    }
    after = verdicts(figure, wrong)
    assert not any(holds for name, holds in after.items() if name.endswith(f".{kind}"))


def test_nan_holds_nothing():
    figure = figure1(**SMALL)
    results = {
        key: replace(result, metrics={name: np.nan * v for name, v in result.metrics.items()})
        for key, result in ideal(figure).items()
    }
    claims = figure1_claims(figure, results)
    assert not any(claim.holds for claim in claims)
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)


def test_section_5s_constants():
    """Caps and schedules as numbers."""
    by_setting = {}
    for run in figure1().runs().values():
        by_setting[run.problem.name, run.problem.setting, run.method.rule, run.method.scaling,
                   run.method.beta if run.method.scaling == "theory" else None] = run.method  # fmt: skip
    assert by_setting["least squares", 0.3, "polyak", "theory", 0.9].gamma_max == 1.0
    noise = paper_cosine("noise")
    for rule, omega in (("polyak", None), ("armijo", 0.5)):
        limit = reference.theorem_3_limit(rule, noise.L, noise.rho, 0.9, 0.75, omega)
        standard = by_setting["cosine", "noise", rule, "theory", 0.9]
        assert standard.gamma_max == pytest.approx(0.8 * limit, rel=1e-12)
        diminishing = by_setting["cosine", "noise", rule, "plain", None]
        assert diminishing.gamma_max.initial == pytest.approx(1.6 * limit, rel=1e-12)
    laws = by_setting["least squares", 0.3, "armijo", "plain", None]
    assert laws.eta == (0.5, 0.4, 1e4)
    assert laws.beta == (0.9, 1.1, 1e4)
    assert laws.gamma_max == (0.02, 0.3, 1e4)
    assert laws.average == "weighted"


def test_the_picture_shows_means_and_maxima():
    figure = figure1(**SMALL)
    results = ideal(figure)
    panel, ax = figure.panels[2], figure1_pictures(figure, results)["figure1"].axes[2]
    standard, _, diminishing, _ = (line.get_ydata() for line in ax.get_lines()[:4])
    shown = [results[curve.run.key()].metrics[curve.metric] for curve in panel.curves]
    np.testing.assert_allclose(standard, shown[0].mean(axis=0))
    np.testing.assert_allclose(diminishing, shown[1].max(axis=0))


def test_claims_cover_every_panel(made):
    figure, _, results = made
    claims = figure1_claims(figure, results)
    kinds = {panel: {c.id[2:] for c in claims if c.id[0] == panel} for panel in "abcdefgh"}
    for panel in "abef":
        assert kinds[panel] == {"bound", "rate", "last", "steps"}
    for panel in "cdgh":
        assert kinds[panel] == {"bound", "neighbourhood", "diminishing", "steps"}
    json.dumps([claim.as_json() for claim in claims], allow_nan=False)


def test_slope():
    k = np.logspace(0, 4, 50)
    assert slope(k, 3.0 / k, 1.0) == pytest.approx(-1.0)
    assert slope(k, np.where(k > 5000, 0.0, 1 / k), 1.0) < -100


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_reproduce_writes_everything_and_claims_reads_it(tmp_path):
    out = tmp_path / "results"
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out), "--jobs", "2")
    assert result.exit_code in (0, 1), result.output  # claims need more than 1000 steps
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files >= {"figure1.png", "figure1.pdf", "figure1/claims.json", MARK}
    assert len([name for name in files if name.endswith(".parquet")]) == 28
    entries = json.loads((out / "figure1" / "claims.json").read_text())
    assert {"id", "text", "holds", "measured"} == set(entries[0])
    shown = invoke("claims", "--out", str(out))
    assert shown.exit_code == int(not all(entry["holds"] for entry in entries))
    assert "figure1.a.bound" in shown.stdout
    assert "figure1: 2 runs of 1,000 steps" in shown.stderr
    (out / "figure1" / "claims.json").write_text("[]")
    assert invoke("claims", "--out", str(out)).stdout == shown.stdout  # from the runs, not from it
    picture = (out / "figure1.png").read_bytes()
    again = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(out))
    assert "28 of 28 runs are there already" in again.output
    assert (out / "figure1.png").read_bytes() == picture


BAD = [
    (
        ["reproduce", "figure9"],
        r"figure must be one of 'figure1', 'figure2', 'figure3', got 'figure9'",
    ),
    (["reproduce", "figure1", "--seeds", "-3"], r"seeds must be >= 2, got -3"),
    (["reproduce", "figure1", "--iterations", "0"], r"iterations must be >= 1000, got 0"),
    (
        ["reproduce", "figure1", "--iterations", "1" + 22 * "0"],
        r"iterations must be <= 1e+10, got 1000",
    ),
    (["reproduce", "figure1", "--jobs", "0"], r"jobs must be >= 1, got 0"),
    (
        ["reproduce", "figure1", "--max-step", "1"],
        r"figure1 has no --max-step: it is for figure2 only",
    ),
    (["claims", "--out", "nowhere"], r"nothing to evaluate under nowhere"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_unknown_option_is_refused():
    assert invoke("reproduce", "figure1", "--sedes", "3").exit_code == 2


def test_a_folder_that_is_not_ours_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "holds other files" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_which_only_the_mark_was_begun_is_ours(tmp_path):
    (tmp_path / f"{MARK}.abc123").write_text("")
    claim_folder(tmp_path)
    assert (tmp_path / MARK).exists()


def test_what_a_killed_process_left_is_swept_up_later(tmp_path):
    claim_folder(tmp_path)
    old, new = tmp_path / ".figure1.png.abc12_45", tmp_path / "figure1" / ".x.parquet.defghijk"
    theirs = tmp_path / ".gitignore"
    new.parent.mkdir()
    for path in (old, new, theirs):
        path.write_text("half")
    for path in (old, theirs):
        os.utime(path, (0, 0))
    claim_folder(tmp_path)
    assert not old.exists()
    assert new.exists()
    assert theirs.exists()
    assert (tmp_path / MARK).exists()


def test_claims_need_all_runs(made, tmp_path):
    _, store, _ = made
    runs = tmp_path / "figure1" / "runs"
    runs.mkdir(parents=True)
    for path in store.folder.iterdir():
        (runs / path.name).write_bytes(path.read_bytes())
    assert invoke("claims", "--out", str(tmp_path)).exit_code in (0, 1)
    damage_data(next(runs.iterdir()))
    result = invoke("claims", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "has to be run again" in result.stderr
    assert "nothing to evaluate" in result.stderr


def test_without_the_extra_one_line_says_what_to_install(tmp_path):
    blocked = (
        "import sys; [sys.modules.__setitem__(m, None) for m in ('numba', 'pyarrow', 'matplotlib')]"
    )
    for arguments, code in (("'theory'", 0), ("'reproduce', 'figure1'", 2)):
        line = f"{blocked}; sys.argv = ['heavystep', {arguments}]; from heavystep.cli import main; main()"
        run = subprocess.run(
            [sys.executable, "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert run.returncode == code, run.stderr
        assert ("pip install 'heavystep[figures]'" in run.stderr) == (code == 2)
        assert len(run.stderr.splitlines()) == (code == 2)


def test_an_unwritable_folder_is_told(tmp_path):
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = invoke("reproduce", "figure1", *ARGUMENTS, "--out", str(blocker / "results"))
    assert result.exit_code == 2
    assert f"cannot write to {blocker / 'results'}" in result.stderr


def tables(out):
    return {
        path.name: path.read_bytes()
        for path in sorted((out / "figure1" / "runs").glob("*.parquet"))
    }


def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(tmp_path):
    command = [sys.executable, "-m", "heavystep", "reproduce", "figure1", "--seeds", "2",
               "--iterations", "40000"]  # fmt: skip
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run([*command, "--out", str(whole)], capture_output=True, check=False)
    process = subprocess.Popen(
        [*command, "--out", str(broken)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    runs = broken / "figure1" / "runs"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and len(list(runs.glob("*.parquet"))) < 3:
        time.sleep(0.002)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(runs.glob("[!.]*.parquet")))
    assert 3 <= kept < 28
    subprocess.run([*command, "--out", str(broken)], capture_output=True, check=False)
    assert tables(broken) == tables(whole)
    assert len(tables(whole)) == 28
    assert (broken / "figure1" / "claims.json").read_text() == (
        whole / "figure1" / "claims.json"
    ).read_text()
    assert Path(broken / "figure1.png").read_bytes() == Path(whole / "figure1.png").read_bytes()
