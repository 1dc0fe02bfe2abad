"""A results folder as one HTML page that needs no network, drawn by plotly."""

import csv
import json
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from heavystep import __version__
from heavystep.arrays import Array
from heavystep.lab.store import ENDING, RUNS, Columns, DamagedError, read_run, write_atomically

CLAIMS, LINES = "claims.json", "runs.csv"
NAMES = ("id", "of", "holds", "text", "measured")  # of a claim
COMMANDS = {f"figure{n}": f"reproduce figure{n}" for n in (1, 2, 3)} | {"compare": "compare"}
POINTS = 400  # of a curve; what is between two of them no screen could show
AT_FIRST, LARGEST_TABLE = 12, 200
"""Curves of a panel that are shown before a click in the legend, and rows of a table."""
FIRST = ("loss", "gap_average", "gap_last", "best")  # the metric that is shown at first
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:1150px;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0;display:block;overflow-x:auto;font-size:13px}
td,th{padding:.2em .7em;border-bottom:1px solid #ddd;text-align:right}
td:first-child,th:first-child{text-align:left}.no{color:#b00020;font-weight:bold}
code{background:#f3f3f3;padding:.1em .3em;overflow-wrap:anywhere}"""


class Curve(NamedTuple):
    """The runs of a method on a problem: metrics (seeds, G) at G steps, epochs or constants."""

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
    """Write the page of a folder that ``--out`` of a command named, or of one within it.

    Raises:
        ValueError: there is no such folder, or it holds no results.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: name one that another command wrote")
    inner = [folder, *sorted(path for path in folder.rglob("*") if path.is_dir())]
    parts = [read_part(path) for path in inner if path.name != RUNS]
    if not (parts := [p for p in parts if p.curves or p.claims or p.tables or p.notes]):
        raise ValueError(f"{folder} holds no runs, claims or tables of heavystep")
    write_atomically(page, "".join(_page(folder, parts)))


def read_part(folder: Path) -> Part:
    """The runs, claims and tables of a folder; what is damaged is named in the notes."""
    part, found = Part(folder), list[tuple[dict[str, Any], Columns]]()
    for path in sorted((folder / RUNS).glob(f"*{ENDING}")):
        try:
            specification, columns = read_run(path)
            found.append((json.loads(specification), columns))
        except DamagedError as damage:
            part.notes.append(f"{damage}; it is left out")
    part.curves += _curves(found)
    if (folder / CLAIMS).is_file():
        try:
            for claim in json.loads((folder / CLAIMS).read_text()):
                part.claims.append({name: claim[name] for name in NAMES})
        except (OSError, KeyError, TypeError, ValueError):
            part.notes.append(f"{CLAIMS} is not a list of claims; it is left out")
    for path in sorted(folder.glob("*.csv")):
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
    runs, groups = dict[str, dict[str, Any]](), dict[str, list[Columns]]()
    for content, columns in found:
        run = dict(content.get("run", content))
        run.pop("seed", None)
        runs[key := json.dumps(run, sort_keys=True)] = run
        groups.setdefault(key, []).append(columns)
    for (key, run), label in zip(runs.items(), _labels([*runs.values()]), strict=True):
        several = groups[key]
        unit, axis = ("epoch", "epoch") if "epoch" in several[0] else ("step", "k")
        longest = max(several, key=lambda columns: len(columns[axis]))
        seeds = len(np.unique(longest["seed"])) if "seed" in longest else 1
        k, metrics = longest[axis].reshape(seeds, -1)[0].astype(float), dict[str, Array]()
        for name in (each for each in longest if each not in ("seed", axis)):
            rows = [row for columns in several for row in columns[name].reshape(seeds, -1)]
            metrics[name] = np.full((len(rows), len(k)), np.nan)
            for place, row in enumerate(rows):
                metrics[name][place, : len(row)] = row
        yield Curve(_problem(run), label, k, metrics, unit)


def _problem(run: dict[str, Any]) -> str:
    """The name of a panel."""
    if isinstance(problem := run.get("problem"), dict):
        return ", ".join(str(problem[name]) for name in ("name", "setting") if name in problem)
    return str(run.get("data_set") or run.get("task") or "runs")


def _labels(runs: list[dict[str, Any]]) -> list[str]:
    """The name of each method, with those options in which runs of one problem differ."""
    methods = [dict(run.get("method") or {}) for run in runs]
    options = [{**dict(m.get("options", {})), "average": m.get("average")} for m in methods]
    places = [(_problem(run), m.get("name", "run")) for run, m in zip(runs, methods, strict=True)]
    labels = []
    for place, own in zip(places, options, strict=True):
        rivals = [each for other, each in zip(places, options, strict=True) if other == place]
        differing = [key for key in own if len({str(each.get(key)) for each in rivals}) > 1]
        labels.append(", ".join([place[1], *(f"{key} {_short(own[key])}" for key in differing)]))
    return labels


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"from {_short(value[0])}" if value else "none"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _constants(rows: list[list[str]]) -> Iterator[Curve]:
    """The runs of a comparison: final numbers against the main constant, a curve a contender."""
    whole = [dict(zip(rows[0], row, strict=True)) for row in rows[1:] if len(row) == len(rows[0])]
    runs: dict[tuple[str, str], dict[tuple[str, float], dict[str, str]]] = {}
    for line in (line for line in whole if line["value"]):
        own = runs.setdefault((line["task"], line["method"]), {})
        own[line["seed"], float(line["value"])] = line
    for (task, method), own in sorted(runs.items()):
        seeds, k = (sorted(set(each)) for each in zip(*own, strict=True))
        metrics = {
            name: np.array([[float(own.get((seed, value), {}).get(name) or "nan") for value in k]
                            for seed in seeds])
            for name in ("loss", "metric")
        }  # fmt: skip
        if len(k) > 1:
            yield Curve(task, method, np.array(k), metrics, "constant")


def _page(folder: Path, parts: list[Part]) -> Iterator[str]:
    title = escape(folder.resolve().name)
    yield f"<!doctype html><html lang=en><meta charset=utf-8><title>{title} - heavystep</title>"
    yield f"<style>{STYLE}</style><script>{get_plotlyjs()}</script><h1>{title}</h1>"
    for part in parts:
        yield f"<h2>{escape(part.folder.resolve().name)}</h2>"
        if words := COMMANDS.get(part.folder.name):
            command = escape(f"heavystep {words} --out {shlex.quote(str(part.folder.parent))}")
            yield f"<p>The command that goes on here: <code>{command}</code></p>"
        yield from (f"<p class=note>{escape(note)}</p>" for note in part.notes)
        if part.claims:
            held = sum(claim["holds"] is True for claim in part.claims)
            yield f"<p>{held} of {len(part.claims)} claims hold.</p>"
            yield _table(["claim", *NAMES[1:]], (
                [claim["id"], claim["of"], "yes" if claim["holds"] is True else "NO", claim["text"],
                 ", ".join(f"{name}: {_short(each)}" for name, each in claim["measured"].items())]
                for claim in part.claims
            ))  # fmt: skip
        for problem in dict.fromkeys(curve.problem for curve in part.curves):
            yield _panel(problem, [curve for curve in part.curves if curve.problem == problem])
        for name, (heading, *rows) in part.tables.items():
            yield f"<h3>{escape(name)}</h3>{_table(heading, rows)}"
    yield f"<p>Made with heavystep {__version__}.</p></html>"


def _table(heading: Iterable[Any], rows: Iterable[Iterable[Any]]) -> str:
    def row(cells: Iterable[Any], tag: str) -> str:
        shown = ((escape(str(cell)), " class=no" if cell == "NO" else "") for cell in cells)
        return "<tr>" + "".join(f"<{tag}{kind}>{text}</{tag}>" for text, kind in shown) + "</tr>"

    return f"<table>{row(heading, 'th')}{''.join(row(each, 'td') for each in rows)}</table>"


def _panel(problem: str, curves: list[Curve]) -> str:
    """One graph: a line a method, which is the median of its seeds; menus for metric and axes."""
    names = list(dict.fromkeys(name for curve in curves for name in curve.metrics))
    metric = next((name for name in FIRST if name in names), names[0])
    figure, constants = go.Figure(), curves[0].unit == "constant"
    for place, curve in enumerate(curves):
        x, y = _median(curve, metric)
        look: Any = {"mode": "lines+markers" if constants else "lines",
                     "visible": True if place < AT_FIRST else "legendonly"}  # fmt: skip
        figure.add_scatter(x=x, y=y, name=curve.label, **look)
    buttons = [
        {"label": name, "method": "update", "args": [
            {"y": [_median(curve, name)[1] for curve in curves]}, {"yaxis.title.text": name}]}
        for name in dict.fromkeys([metric, *names])
    ]  # fmt: skip
    axes = [
        {"label": f"{axis} {kind}", "method": "relayout", "args": [{f"{axis}axis.type": kind}]}
        for kind in ("log", "linear") for axis in "yx"
    ]  # fmt: skip
    seeds = max(len(next(iter(curve.metrics.values()))) for curve in curves)
    figure.update_layout(
        title=f"{escape(problem)}: median of {seeds} seeds", height=460, showlegend=True,
        xaxis={"title": curves[0].unit, "type": "log" if constants else "linear"},
        yaxis={"title": metric, "type": "log"}, template="plotly_white",
        updatemenus=[{"buttons": buttons, "x": 0.0, "y": 1.17, "xanchor": "left"},
                     {"buttons": axes, "x": 0.3, "y": 1.17, "xanchor": "left"}],
    )  # fmt: skip
    return str(figure.to_html(full_html=False, include_plotlyjs=False))


def _median(curve: Curve, name: str) -> tuple[list[float], list[float | None]]:
    """The median at up to :data:`POINTS` points, evenly spaced on both kinds of axis."""
    length = len(curve.k)
    even, early = np.linspace(0, length - 1, POINTS // 2), np.geomspace(1, length, POINTS // 2) - 1
    kept = np.unique(np.concatenate([even, early]).round().astype(int))
    values = curve.metrics.get(name, np.full((1, length), np.nan))[:, kept]
    missing = np.atleast_1d(np.isnan(values).all(axis=0))
    middle = np.nanmedian(np.where(missing, 0.0, values), axis=0)
    y = [None if gone or not np.isfinite(each) else float(f"{each:.5g}")
         for gone, each in zip(missing, middle, strict=True)]  # fmt: skip
    return curve.k[kept].tolist(), y
