"""A results folder as one HTML page that needs no network, drawn by plotly."""

import csv
import hashlib
import json
import platform
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from heavystep import __version__
from heavystep.arrays import Array
from heavystep.lab.files import write_atomically
from heavystep.lab.store import ENDING, Columns, DamagedError, Store

RUNS, CLAIMS, LINES = "runs", "claims.json", "runs.csv"
FIGURES = ("figure1", "figure2", "figure3")
POINTS = 400
"""Of a curve; what is between two of them no screen could show."""
AT_FIRST = 12
"""Curves of a panel that are shown at first; a click in the legend shows the others."""
LARGEST_TABLE = 200
"""Tables with more rows than this are left to the programs that read them."""
FIRST = ("loss", "gap_average", "gap_last", "best")
"""The metric that is shown at first, if there is one of these."""
HEIGHT = 460
PACKAGES = ("torch", "numpy", "numba", "scipy", "scikit-learn", "pyarrow", "plotly")
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1150px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto;font-size:13px}
td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}.no{color:#b00020;font-weight:bold}
code{background:#f3f3f3;padding:.1em .3em;overflow-wrap:anywhere}"""


@dataclass(frozen=True)
class Curve:
    """The runs of one method on one problem.

    Args:
        label: the method, with the options that tell it from others of its panel.
        k: (G,) numbers of steps or epochs, or values of a constant.
        metrics: (seeds, G) each, by name.
    """

    problem: str
    label: str
    k: Array
    metrics: dict[str, Array]
    unit: str = "step"


@dataclass
class Part:
    """A folder within the results: a figure, a sweep or a comparison."""

    folder: Path
    curves: list[Curve] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def write_report(folder: Path, page: Path) -> None:
    """Write the page of a results folder.

    Args:
        folder: what ``--out`` of a command named, or a folder within it.
        page: the file.

    Raises:
        ValueError: there is no such folder, or it holds no results.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: name one that another command wrote")
    inner = [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]
    parts = [read_part(path) for path in inner if path.name != RUNS]
    parts = [each for each in parts if each.curves or each.claims or each.tables or each.notes]
    if not parts:
        raise ValueError(f"{folder} holds no runs, claims or tables of heavystep")
    text = "".join(_page(folder, parts))
    write_atomically(page, lambda part: part.write_text(text, encoding="utf-8"))


def read_part(folder: Path) -> Part:
    """The runs, claims and tables of a folder; what is damaged is named in the notes."""
    part, store = Part(folder), Store(folder / RUNS)
    found, left = list[tuple[dict[str, Any], Columns]](), set(store.folder.glob(f"*{ENDING}"))
    for content in store.contents():
        text = json.dumps(content, sort_keys=True)
        key = hashlib.sha256(text.encode()).hexdigest()[:24]
        left.discard(store.path(key))
        try:
            if (columns := store.load(key, text)) is not None:
                found.append((content, columns))
        except DamagedError as damage:
            part.notes.append(f"{damage}; it is left out")
    part.notes += [f"{path.name} cannot be read; it is left out" for path in sorted(left)]
    part.curves += _curves(found)
    if (folder / CLAIMS).is_file():
        try:
            part.claims += [
                {name: claim[name] for name in ("id", "text", "holds", "measured")}
                | {"of": claim.get("of", "")}
                for claim in json.loads((folder / CLAIMS).read_text())
            ]
        except (OSError, KeyError, TypeError, ValueError):
            part.notes.append(f"{CLAIMS} is not a list of claims; it is left out")
    ours = found or part.claims or (folder / "README.md").is_file()
    for path in sorted(folder.glob("*.csv")) if ours or (folder / LINES).is_file() else ():
        with path.open(newline="", encoding="utf-8", errors="replace") as file:
            rows = [row for row in csv.reader(file) if row]
        if path.name == LINES:
            part.curves += _constants(rows)
        elif len(rows) - 1 > LARGEST_TABLE:
            part.notes.append(f"{path.name} has {len(rows) - 1:,} rows and is not shown")
        elif rows:
            part.tables[path.name] = rows
    return part


def _curves(found: list[tuple[dict[str, Any], Columns]]) -> Iterator[Curve]:
    """The runs of a folder; those that differ in their seeds alone are one curve."""
    groups: dict[str, list[tuple[dict[str, Any], Columns]]] = {}
    for content, columns in found:
        run = dict(content.get("run", content))
        run.pop("seed", None)
        groups.setdefault(json.dumps(run, sort_keys=True), []).append((run, columns))
    named = [(runs[0][0], [columns for _, columns in runs]) for runs in groups.values()]
    labels = _labels([run for run, _ in named])
    for (run, several), label in zip(named, labels, strict=True):
        epochs = "epoch" in several[0]
        axis = "epoch" if epochs else "k"
        longest = max(several, key=lambda columns: len(columns[axis]))
        seeds = 1 if epochs else len(np.unique(longest["seed"]))
        k = longest[axis].reshape(seeds, -1)[0].astype(float)
        metrics = {
            name: np.concatenate([_rows(columns[name], seeds, len(k)) for columns in several])
            for name in longest if name not in ("seed", axis)
        }  # fmt: skip
        yield Curve(_problem(run), label, k, metrics, "epoch" if epochs else "step")


def _rows(values: Array, seeds: int, length: int) -> Array:
    rows = values.astype(float).reshape(seeds, -1)
    return np.pad(rows, ((0, 0), (0, length - rows.shape[1])), constant_values=np.nan)


def _problem(run: dict[str, Any]) -> str:
    """What a panel is called."""
    problem = run.get("problem")
    if isinstance(problem, dict):
        return ", ".join(str(problem[name]) for name in ("name", "setting") if name in problem)
    return str(run.get("data_set") or run.get("task") or "runs")


def _labels(runs: list[dict[str, Any]]) -> list[str]:
    """The name of each method, with those options in which runs of one problem differ."""
    methods = [dict(run.get("method") or {}) for run in runs]
    options = [
        {**dict(each.get("options", {})), "average": each.get("average")} for each in methods
    ]
    labels = []
    for run, method, own in zip(runs, methods, options, strict=True):
        name = method.get("name", "run")
        rivals = [other for each, other, chosen in zip(runs, options, methods, strict=True)
                  if chosen.get("name") == name and _problem(each) == _problem(run)]  # fmt: skip
        differing = [key for key in own if len({str(each.get(key)) for each in rivals}) > 1]
        labels.append(", ".join([str(name), *(f"{key} {_short(own[key])}" for key in differing)]))
    return labels


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"from {_short(value[0])}" if value else "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _constants(rows: list[list[str]]) -> Iterator[Curve]:
    """The runs of a comparison: final numbers against the main constant, a curve a contender."""
    groups: dict[tuple[str, str], dict[float, list[dict[str, str]]]] = {}
    for row in rows[1:]:
        line = dict(zip(rows[0], row, strict=False))
        if len(row) == len(rows[0]) and line.get("value"):
            values = groups.setdefault((line["task"], line["method"]), {})
            values.setdefault(float(line["value"]), []).append(line)
    for (task, method), values in sorted(groups.items()):
        k, seeds = np.array(sorted(values)), max(map(len, values.values()))
        if len(k) < 2:
            continue
        metrics = {name: np.full((seeds, len(k)), np.nan) for name in ("loss", "metric")}
        for column, value in enumerate(k):
            for seed, line in enumerate(values[value]):
                for name, numbers in metrics.items():
                    numbers[seed, column] = float(line[name] or "nan")
        yield Curve(task, method, k, metrics, "constant")


def _page(folder: Path, parts: list[Part]) -> Iterator[str]:
    yield f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{escape(folder.name)}"
    yield f" - heavystep</title><style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>"
    yield f"<h1>{escape(folder.resolve().name)}</h1>"
    for part in parts:
        yield f"<h2>{escape(part.folder.resolve().name)}</h2>"
        if part.folder.name in (*FIGURES, "compare"):
            words = (
                ["compare"] if part.folder.name == "compare" else ["reproduce", part.folder.name]
            )
            command = shlex.join(["heavystep", *words, "--out", str(part.folder.parent)])
            yield f"<p>The command that goes on here: <code>{escape(command)}</code></p>"
        yield from (f"<p class=note>{escape(note)}</p>" for note in part.notes)
        yield from _claims(part.claims)
        for problem in dict.fromkeys(curve.problem for curve in part.curves):
            yield _panel(problem, [curve for curve in part.curves if curve.problem == problem])
        for name, (heading, *rows) in part.tables.items():
            yield f"<h3>{escape(name)}</h3>{_table(heading, rows)}"
    here = f"heavystep {__version__}, Python {platform.python_version()}, {platform.machine()}"
    versions = [f"{name} {metadata.version(name)}" for name in PACKAGES if _installed(name)]
    yield f"<h2>Made with</h2><p>{escape(here)}; {escape(', '.join(versions))}</p></body></html>"


def _installed(name: str) -> bool:
    try:
        return bool(metadata.version(name))
    except metadata.PackageNotFoundError:
        return False


def _claims(claims: list[dict[str, Any]]) -> Iterator[str]:
    if not claims:
        return
    rows = []
    for claim in claims:
        numbers = ", ".join(f"{name}: {_short(each)}" for name, each in claim["measured"].items())
        holds = "yes" if claim["holds"] is True else "NO"
        rows.append([claim["id"], claim["of"], holds, claim["text"], numbers])
    held = sum(claim["holds"] is True for claim in claims)
    yield f"<p>{held} of {len(claims)} claims hold.</p>"
    yield _table(["claim", "of", "holds", "text", "measured"], rows)


def _table(heading: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    def row(cells: Iterable[Any], tag: str) -> str:
        shown = ((escape(str(cell)), " class=no" if cell == "NO" else "") for cell in cells)
        return "<tr>" + "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in shown) + "</tr>"

    return f"<table>{row(heading, 'th')}{''.join(row(each, 'td') for each in rows)}</table>"


def _panel(problem: str, curves: list[Curve]) -> str:
    """One graph: a line a method, which is the median of its seeds; menus for metric and axes."""
    names = list(dict.fromkeys(name for curve in curves for name in curve.metrics))
    metric = next((name for name in FIRST if name in names), names[0])
    figure = go.Figure()

    def ys(name: str) -> list[Any]:
        return [_median(curve, name)[1] for curve in curves]

    for place, curve in enumerate(curves):
        x, y = _median(curve, metric)
        shown: Any = True if place < AT_FIRST else "legendonly"
        mode = "lines+markers" if curve.unit == "constant" else "lines"
        figure.add_scatter(x=x, y=y, name=curve.label, mode=mode, visible=shown)
    buttons = [
        {"label": name, "method": "update", "args": [{"y": ys(name)}, {"yaxis.title.text": name}]}
        for name in dict.fromkeys([metric, *names])
    ]
    axes = [
        {"label": f"{axis} {kind}", "method": "relayout", "args": [{f"{axis}axis.type": kind}]}
        for kind in ("log", "linear") for axis in "yx"
    ]  # fmt: skip
    log_x = "log" if curves[0].unit == "constant" else "linear"
    seeds = max(len(next(iter(curve.metrics.values()))) for curve in curves)
    figure.update_layout(
        title=f"{escape(problem)}: median of {seeds} seeds", height=HEIGHT, template="plotly_white",
        xaxis={"title": curves[0].unit, "type": log_x}, yaxis={"title": metric, "type": "log"},
        updatemenus=[{"buttons": buttons, "x": 0.0, "y": 1.17, "xanchor": "left"},
                     {"buttons": axes, "x": 0.3, "y": 1.17, "xanchor": "left"}],
    )  # fmt: skip
    return str(figure.to_html(full_html=False, include_plotlyjs=False))


def _median(curve: Curve, name: str) -> tuple[list[float], list[float | None]]:
    """At most :data:`POINTS` points, evenly spaced on both kinds of axis; None where there is none.

    A curve is cut into bins, and of each bin the last point is kept.
    """
    length = len(curve.k)
    even, early = np.linspace(0, length - 1, POINTS // 2), np.geomspace(1, length, POINTS // 2) - 1
    kept = np.unique(np.concatenate([even, early]).round().astype(int))
    values = curve.metrics.get(name, np.full((1, length), np.nan))[:, kept]
    missing = np.atleast_1d(np.isnan(values).all(axis=0))
    middle = np.nanmedian(np.where(missing, 0.0, values), axis=0)
    y = [None if gone or not np.isfinite(each) else float(f"{each:.5g}")
         for gone, each in zip(missing, middle, strict=True)]  # fmt: skip
    return curve.k[kept].tolist(), y
