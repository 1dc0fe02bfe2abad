"use strict";
// Scales, paths and axes of one chart. Nothing here knows of buttons.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "10 3 2 3"];
const COLOURS = 8;

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

// A logarithmic axis is linear in the exponent; what has none is not drawn.
const onAxis = (value, log) =>
  value === null ? NaN : !log ? value : value > 0 ? Math.log10(value) : NaN;

function extent(lists, log) {
  let low = Infinity, high = -Infinity;
  for (const list of lists)
    for (const value of list) {
      const at = onAxis(value, log);
      if (at < low) low = at;
      if (at > high) high = at;
    }
  if (low > high) return [0, 1];
  if (low === high) return [low - 0.5, high + 0.5];
  return [low, high];
}

function ticks(low, high, log, most) {
  const span = high - low;
  if (log && span < 2) {
    const marks = span < 0.5 ? [1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9] : [1, 2, 5];
    const found = [];
    for (let n = Math.floor(low); n <= high; n++)
      for (const mark of marks) {
        const at = n + Math.log10(mark);
        if (at >= low && at <= high) found.push(at);
      }
    if (found.length > 1) return found;
    return [low + span * 0.1, low + span / 2, low + span * 0.9];
  }
  const rough = span / most;
  const size = 10 ** Math.floor(Math.log10(rough));
  let step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough);
  if (log) step = Math.max(1, Math.ceil(step));
  const found = [];
  for (let n = Math.ceil(low / step); n * step <= high + span * 1e-9; n++) found.push(n * step);
  return found;
}

function shortNumber(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(size < 1e-99 ? 0 : 2).replace(/\.?0+e/, "e").replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

// Median, least and largest over some rows, point by point.
function summary(rows) {
  const length = rows.length ? rows[0].length : 0;
  const middle = new Array(length), least = new Array(length), most = new Array(length);
  for (let i = 0; i < length; i++) {
    const values = rows.map((row) => row[i]).filter((v) => v !== null).sort((a, b) => a - b);
    const n = values.length, half = n >> 1;
    middle[i] = n ? (n % 2 ? values[half] : (values[half - 1] + values[half]) / 2) : null;
    least[i] = n ? values[0] : null;
    most[i] = n ? values[n - 1] : null;
  }
  return { middle, least, most };
}

class Chart {
  constructor(parent, name) {
    this.svg = element("svg", { class: "chart", tabindex: 0, role: "img", "aria-label": name }, parent);
    this.view = null; // what is zoomed to, on the axes; null: everything
  }

  // lines: [{colour, dash, k, rows, band}], rows drawn as lines, band [least, most] or null
  draw(lines, { logX, logY, unit, meaning }) {
    Object.assign(this, { lines, logX, logY });
    this.width = Math.max(this.svg.clientWidth || this.svg.parentNode.clientWidth, 200);
    this.height = this.width < 500 ? 270 : 380;
    this.inner = { left: 62, right: this.width - 20, top: 10, bottom: this.height - 40 };
    const [x0, x1] = extent(lines.map((l) => l.k), logX);
    const [y0, y1] = extent(lines.flatMap((l) => (l.band ? [...l.band, ...l.rows] : l.rows)), logY);
    const room = (y1 - y0) * 0.04;
    this.all = { x0, x1, y0: y0 - room, y1: y1 + room };
    this.at = this.view || this.all;
    this.svg.replaceChildren();
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.axes(unit, meaning);
    const { left, right, top, bottom } = this.inner;
    const clip = "clip" + (Chart.count = (Chart.count || 0) + 1);
    element("rect", { x: left, y: top, width: right - left, height: bottom - top },
      element("clipPath", { id: clip }, this.svg));
    const area = element("g", { "clip-path": `url(#${clip})` }, this.svg);
    for (const line of lines) this.line(area, line);
    this.mark = element("circle", { r: 4, fill: "none", "stroke-width": 2, visibility: "hidden" }, area);
    this.box = element("rect", { class: "box", visibility: "hidden" }, area);
    element("rect", { class: "frame", x: left, y: top, width: right - left, height: bottom - top }, this.svg);
  }

  px(k) {
    const { left, right } = this.inner;
    return left + ((onAxis(k, this.logX) - this.at.x0) / (this.at.x1 - this.at.x0)) * (right - left);
  }

  py(value) {
    const { top, bottom } = this.inner;
    return bottom - ((onAxis(value, this.logY) - this.at.y0) / (this.at.y1 - this.at.y0)) * (bottom - top);
  }

  axes(unit, meaning) {
    const { left, right, top, bottom } = this.inner;
    const shown = (at, log) => shortNumber(log ? 10 ** at : at);
    for (const at of ticks(this.at.x0, this.at.x1, this.logX, this.width < 500 ? 4 : 8)) {
      const x = this.px(this.logX ? 10 ** at : at);
      element("line", { class: "grid", x1: x, x2: x, y1: top, y2: bottom }, this.svg);
      element("text", { x, y: bottom + 16, "text-anchor": "middle" }, this.svg).textContent = shown(at, this.logX);
    }
    for (const at of ticks(this.at.y0, this.at.y1, this.logY, 6)) {
      const share = (at - this.at.y0) / (this.at.y1 - this.at.y0);
      const y = bottom - share * (bottom - top);
      element("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }, this.svg);
      element("text", { x: left - 6, y: y + 4, "text-anchor": "end" }, this.svg).textContent =
        this.logY && 10 ** at === 0 ? "1e" + Math.round(at) : shown(at, this.logY);
    }
    const text = `${unit}s; ${meaning}${this.logY ? ", logarithmic" : ""}`;
    element("text", { x: (left + right) / 2, y: bottom + 34, "text-anchor": "middle" }, this.svg).textContent = text;
  }

  path(k, values) {
    let text = "", pen = false;
    for (let i = 0; i < k.length; i++) {
      const x = this.px(k[i]), y = this.py(values[i]);
      if (!Number.isFinite(x) || !Number.isFinite(y)) { pen = false; continue; }
      text += (pen ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
      pen = true;
    }
    return text;
  }

  line(area, { colour, dash, k, rows, band, label }) {
    const stroke = `var(--c${colour})`;
    if (band) {
      const both = k.map((_, i) => Number.isFinite(this.py(band[0][i])) && Number.isFinite(this.py(band[1][i])));
      const there = k.filter((_, i) => both[i]);
      const up = this.path(there, band[1].filter((_, i) => both[i]));
      const down = this.path(there.slice().reverse(), band[0].filter((_, i) => both[i]).reverse());
      if (up) element("path", { class: "band", d: up + down.replace("M", "L") + "Z", fill: stroke }, area);
    }
    for (const row of rows) {
      const made = element("path", { class: band === null && rows.length > 1 ? "line thin" : "line", d: this.path(k, row),
        stroke, "stroke-dasharray": DASHES[dash % DASHES.length], "data-label": label }, area);
      // One point is no line, but it is there.
      if (k.length === 1) made.setAttribute("stroke-linecap", "round"), made.setAttribute("d", made.getAttribute("d") + "h0.1");
    }
  }

  // The drawn point that is nearest to a place on the screen.
  nearest(x, y) {
    let best = null, least = 40 * 40;
    for (const line of this.lines)
      for (const row of line.rows)
        for (let i = 0; i < line.k.length; i++) {
          const dx = this.px(line.k[i]) - x;
          if (dx * dx > least) continue;
          const dy = this.py(row[i]) - y;
          const far = dx * dx + dy * dy;
          if (far < least) (least = far), (best = { line, k: line.k[i], value: row[i] });
        }
    return best;
  }

  zoom(factor, xShare = 0.5, yShare = 0.5) {
    const { x0, x1, y0, y1 } = this.at;
    const x = x0 + (x1 - x0) * xShare, y = y0 + (y1 - y0) * yShare;
    this.view = { x0: x - (x - x0) / factor, x1: x + (x1 - x) / factor,
      y0: y - (y - y0) / factor, y1: y + (y1 - y) / factor };
  }

  pan(dx, dy) {
    const { x0, x1, y0, y1 } = this.at;
    const x = (x1 - x0) * dx, y = (y1 - y0) * dy;
    this.view = { x0: x0 + x, x1: x1 + x, y0: y0 + y, y1: y1 + y };
  }

  zoomTo(ax, ay, bx, by) {
    const { left, right, top, bottom } = this.inner, at = this.at;
    const share = (v, low, high) => Math.min(1, Math.max(0, (v - low) / (high - low)));
    const xs = [share(ax, left, right), share(bx, left, right)].sort((a, b) => a - b);
    const ys = [share(ay, bottom, top), share(by, bottom, top)].sort((a, b) => a - b);
    this.view = {
      x0: at.x0 + xs[0] * (at.x1 - at.x0), x1: at.x0 + xs[1] * (at.x1 - at.x0),
      y0: at.y0 + ys[0] * (at.y1 - at.y0), y1: at.y0 + ys[1] * (at.y1 - at.y0),
    };
  }
}
