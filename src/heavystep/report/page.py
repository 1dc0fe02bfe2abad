"""The page: everything is within it, and everything that comes from files is escaped."""

import sys
from collections.abc import Iterable, Iterator
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from heavystep.files import write_atomically
from heavystep.report.commands import commands
from heavystep.report.environment import environment
from heavystep.report.numbers import BINS, BUDGET, as_json
from heavystep.report.panels import MEANINGS, Panel, final, panel_data, panels
from heavystep.report.reading import Part, read_results
from heavystep.report.slack import certificates

ASSETS = Path(__file__).parent / "assets"
# Nothing may be fetched, whatever a file says.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
THINNED = (
    f"Long curves are thinned: each of {BINS} equal parts of the axis, linear and logarithmic, "
    "keeps the least and the largest value of every seed, so that no peak is lost; medians are "
    "those of the kept values."
)
BROKEN = "NO"
NO_CURVES = "There are no runs in this folder, and so no curves."
LARGEST = sys.float_info.max
SUMMARISED = "There are too many runs for one page: seeds are their median, least and largest."


def write_report(results: Path, page: Path) -> None:
    """Write the page of a results folder.

    Args:
        results: the folder.
        page: the HTML file.

    Raises:
        ValueError: there are no results in the folder.
    """
    text = render(read_results(results), results)
    # Names of folders may be bytes that are no text.
    content = text.encode(errors="backslashreplace")
    write_atomically(page, lambda part: part.write_bytes(content))


def render(parts: list[Part], results: Path) -> str:
    """The page as text."""
    numbers = sum(each.size for part in parts for run in part.runs for each in run.metrics.values())
    made: list[str] = []
    data: list[dict[str, Any]] = []
    thinned = False
    titles = [_title(part, results) for part in parts]
    for part, title in zip(parts, titles, strict=True):
        drawn, first = panels(part), len(data)
        for panel in drawn:
            content, thin = panel_data(panel, summary=numbers > BUDGET)
            data.append(content)
            thinned |= thin
        made.append(f"<h2>{escape(title)}</h2>" + "".join(_part(part, drawn, first)))
    notes = [text for text, said in ((THINNED, thinned), (SUMMARISED, numbers > BUDGET)) if said]
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(fact)}</dd>"
        for name, fact in environment(parts).items()
    )
    links = "".join(
        f'<a href="#part-{number}">{escape(title)}</a>' for number, title in enumerate(titles)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(results.resolve().name)}: heavystep report</title>"
        f"<style>{_asset('page.css')}</style></head><body>"
        f'<header><strong>heavystep report</strong><nav aria-label="Parts">{links}</nav>'
        '<button type="button" id="theme">Theme: as the system</button></header><main>'
        f"<h1>{escape(str(results))}</h1>"
        + "".join(f'<p class="note">{escape(text)}</p>' for text in notes)
        + "".join(
            f'<section id="part-{number}">{text}</section>' for number, text in enumerate(made)
        )
        + f"<section><h2>Environment</h2><dl>{facts}</dl></section></main>"
        f'<script type="application/json" id="data">{as_json(data)}</script>'
        f"<script>{_asset('chart.js')}{_asset('page.js')}</script></body></html>\n"
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _title(part: Part, results: Path) -> str:
    """Its place within the results; two of them may have the same name."""
    return part.name if part.folder == results else part.folder.relative_to(results).as_posix()


def _part(part: Part, drawn: list[Panel], first: int) -> Iterator[str]:
    for note in part.notes if part.runs or part.notes else [NO_CURVES]:
        yield f'<p class="note">{escape(note)}</p>'
    if again := commands(part):
        yield "<h3>Run it again</h3>"
        for line in again:
            yield (
                f'<p class="command"><code tabindex="0">{escape(line)}</code>'
                '<button type="button" class="copy">Copy</button></p>'
            )
    if part.claims:
        yield from _claims(part.claims)
    for place, panel in enumerate(drawn, start=first):
        yield f'<article class="panel" data-panel="{place}"><h3>{escape(panel.title)}</h3>'
        yield '<p class="waiting">This chart needs JavaScript.</p></article>'
        yield from _ends(panel)
    yield from _slack(part, drawn)
    for name, (heading, *rows) in part.tables.items():
        yield _details(f"Table {name}", _table(heading, rows))


def _claims(claims: list[dict[str, Any]]) -> Iterator[str]:
    holding = sum(claim["holds"] for claim in claims)
    yield f"<h3>Claims: {holding} of {len(claims)} hold</h3>"
    rows = [
        [claim["id"], _verdict(claim["holds"]), claim["text"], _measured(claim["measured"])]
        for claim in claims
    ]
    table = _table(["claim", "holds", "text", "measured"], rows)
    yield _details("All claims with their numbers", table, opened=holding < len(claims))


def _measured(measured: dict[str, Any]) -> str:
    return ", ".join(f"{name}: {_number(value)}" for name, value in measured.items())


def _slack(part: Part, drawn: list[Panel]) -> Iterator[str]:
    found = certificates(part.runs)
    if not found:
        return
    names = {
        id(run): f"{panel.title}: {label}"
        for panel in drawn
        for run, label in zip(panel.runs, panel.labels, strict=True)
    }
    rows = [
        [
            each.result, _verdict(each.holds), names[id(part.runs[each.run])], each.quantity,
            f"{each.k:,.0f}", _number(each.measured), _number(each.bound), f"{each.slack:.4f}",
        ]
        for each in sorted(found, key=lambda each: each.slack)
    ]  # fmt: skip
    broken = sum(not each.holds for each in found)
    yield f"<h3>Certificates: {len(found) - broken} of {len(found)} hold</h3>"
    heading = ["result", "holds", "run", "quantity", "tightest at k", "measured", "bound", "slack"]
    yield "<p>Slack is 1 - measured / bound where it is least: 0 is tight, 1 is far away.</p>"
    yield _details("All certificates, the tightest first", _table(heading, rows), opened=broken > 0)


def _ends(panel: Panel) -> Iterator[str]:
    metrics = panel.metrics
    heading = ["method", "seeds", panel.runs[0].about.unit + "s"]
    heading += [MEANINGS.get(name, name.replace("_", " ")) for name in metrics]
    rows = [
        [label, str(len(run.seeds)), f"{run.k[-1]:,.0f}"]
        + [_number(final(run, name)) for name in metrics]
        for run, label in zip(panel.runs, panel.labels, strict=True)
        if len(run.k)
    ]
    title = f"Numbers at the end: {panel.title} (medians over seeds)"
    yield _details(title, _table(heading, rows))


def _verdict(holds: bool) -> str:
    return "yes" if holds else BROKEN


def _number(value: Any) -> str:
    """A number in few letters; a word stays a word.

    >>> _number(0.000123456), _number(float("nan")), _number("inf")
    ('0.0001235', 'not finite', 'inf')
    """
    if isinstance(value, float) and not isfinite(value):
        return "not finite"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return f"{value:.4g}"
    return str(value)


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heading)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="table"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _cell(text: str) -> str:
    mark = ' class="broken"' if text == BROKEN else ""
    return f"<td{mark}>{escape(text)}</td>"


def _details(title: str, content: str, *, opened: bool = False) -> str:
    is_open = " open" if opened else ""
    return f"<details{is_open}><summary>{escape(title)}</summary>{content}</details>"
