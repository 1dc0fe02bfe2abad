// The panels: buttons, keys and pointers. Texts from files only ever become textContent.

const THEMES = ["as the system", "light", "dark"];

function html(name, attributes, parent, text) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

function toggle(parent, text, pressed, change) {
  const made = html("button", { type: "button", "aria-pressed": pressed }, parent, text);
  made.addEventListener("click", () => {
    const now = made.getAttribute("aria-pressed") !== "true";
    made.setAttribute("aria-pressed", now);
    change(now);
  });
  return made;
}

// A method looks the same in every panel. Those that are drawn at first have the first colours.
function looksOf(panels) {
  const looks = new Map();
  for (const drawn of [true, false]) for (const { curves } of panels) for (const curve of curves) {
    if (curve.shown !== drawn || looks.has(curve.label)) continue;
    const rank = looks.size;
    looks.set(curve.label, { colour: rank % COLOURS, dash: Math.floor(rank / COLOURS) });
  }
  return looks;
}

class Panel {
  constructor(place, data, looks) {
    this.data = data;
    this.shown = data.curves.map((curve) => curve.shown);
    this.looks = data.curves.map((curve) => looks.get(curve.label));
    this.seeds = new Map();
    for (const curve of data.curves) for (const seed of curve.seeds) this.seeds.set(seed, true);
    this.metric = data.metric;
    this.each = false;
    const last = Math.max(...data.curves.map((c) => c.k[c.k.length - 1] || 1));
    const first = Math.min(...data.curves.map((c) => c.k[0] || 1));
    this.logX = last / Math.max(first, 1) > 50;
    this.logY = this.wantsLog();
    place.querySelector(".waiting").remove();
    this.controls(place);
    this.chart = new Chart(place, `${data.title}: curves; arrows move, plus and minus zoom, 0 resets`);
    this.readout = html("p", { class: "readout", "aria-live": "polite" }, place);
    this.legend(place);
    this.seedBar(place);
    html("p", { class: "help" }, place,
      "Drag with the mouse to zoom, double-click to reset. Keys on the chart: arrows move, + and - zoom, 0 resets.");
    this.listen();
    this.draw();
  }

  rows(curve) {
    const rows = curve.metrics[this.metric] || [];
    return rows.filter((_, i) => this.seeds.get(curve.seeds[i]));
  }

  wantsLog() {
    const values = this.data.curves.flatMap((c) => (c.metrics[this.metric] || []).flat()).filter((v) => v !== null);
    let low = Infinity, high = 0, zero = 0;
    for (const v of values) {
      if (v > 0) { if (v < low) low = v; if (v > high) high = v; } else zero++;
    }
    return high / low > 20 && zero < values.length / 2;
  }

  controls(place) {
    const bar = html("div", { class: "bar" }, place);
    const label = html("label", {}, bar, "Show ");
    const select = html("select", {}, label);
    for (const [name, meaning] of Object.entries(this.data.metrics)) {
      const option = html("option", { value: name }, select, meaning);
      option.selected = name === this.metric;
    }
    select.addEventListener("change", () => {
      this.metric = select.value;
      this.logY = this.wantsLog();
      this.logButton.setAttribute("aria-pressed", this.logY);
      this.reset();
    });
    this.logButton = toggle(bar, "Log y", this.logY, (on) => { this.logY = on; this.reset(); });
    toggle(bar, "Log x", this.logX, (on) => { this.logX = on; this.reset(); });
    toggle(bar, "Each seed", this.each, (on) => { this.each = on; this.draw(); });
    for (const [text, name, act] of [
      ["+", "Zoom in", () => this.chart.zoom(1.6)],
      ["−", "Zoom out", () => this.chart.zoom(1 / 1.6)],
      ["Reset", "Reset the zoom", () => { this.chart.view = null; }],
    ]) {
      const button = html("button", { type: "button", "aria-label": name }, bar, text);
      button.addEventListener("click", () => { act(); this.draw(); });
    }
  }

  legend(place) {
    const bar = html("div", { class: "bar legend", role: "group", "aria-label": "Methods" }, place);
    const hidden = this.shown.filter((on) => !on).length;
    let more = bar;
    if (hidden) {
      const details = html("details", {}, place);
      html("summary", {}, details, `${hidden} more curves`);
      more = html("div", { class: "bar legend", role: "group", "aria-label": "More methods" }, details);
    }
    const buttons = this.data.curves.map((curve, i) => {
      const home = this.shown[i] ? bar : more;
      const button = toggle(home, "", this.shown[i], (on) => { this.shown[i] = on; this.draw(); });
      const sample = element("svg", { width: 26, height: 10, "aria-hidden": "true" }, button);
      const { colour, dash } = this.looks[i];
      element("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: `var(--c${colour})`, "stroke-width": 2.5,
        "stroke-dasharray": DASHES[dash % DASHES.length] }, sample);
      html("span", {}, button, curve.label);
      if (curve.paper) button.title = `${curve.paper} in its paper`;
      return button;
    });
    for (const [text, on] of [["All", true], ["None", false]]) {
      html("button", { type: "button" }, bar, text).addEventListener("click", () => {
        this.shown.fill(on);
        for (const button of buttons) button.setAttribute("aria-pressed", on);
        this.draw();
      });
    }
  }

  seedBar(place) {
    if (this.seeds.size < 2) return;
    const bar = html("div", { class: "bar seeds", role: "group", "aria-label": "Seeds" }, place);
    html("span", {}, bar, "Seeds");
    for (const seed of this.seeds.keys())
      toggle(bar, String(seed), true, (on) => { this.seeds.set(seed, on); this.draw(); });
  }

  draw() {
    const lines = [];
    this.data.curves.forEach((curve, i) => {
      const rows = this.shown[i] ? this.rows(curve) : [];
      if (!rows.length) return;
      const line = { label: curve.label, k: curve.k, ...this.looks[i] };
      if (this.each || rows.length === 1) lines.push({ ...line, rows, band: null });
      else {
        const { middle, least, most } = summary(rows);
        lines.push({ ...line, rows: [middle], band: [least, most] });
      }
    });
    this.chart.draw(lines, { logX: this.logX, logY: this.logY, unit: this.data.unit, meaning: this.data.metrics[this.metric] || "" });
    const middle = this.each ? "each seed" : "median over seeds, shaded from the least to the largest";
    const hidden = this.logY && lines.some((l) => l.rows.some((r) => r.some((v) => v !== null && v <= 0)));
    this.resting = `Lines: ${middle}.${hidden ? " Values of 0 and less are not on a logarithmic axis." : ""}`;
    this.readout.textContent = lines.length ? this.resting : "No method is shown: choose one below.";
  }

  reset() {
    this.chart.view = null;
    this.draw();
  }

  listen() {
    const svg = this.chart.svg;
    let start = null;
    const place = (event) => {
      const box = svg.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse") return this.tell(...place(event));
      if (event.button !== 0) return;
      start = place(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (start) return this.drawBox(start, [x, y]);
      this.tell(x, y);
    });
    svg.addEventListener("pointerup", (event) => {
      if (!start) return;
      const [x, y] = place(event), [a, b] = start;
      start = null;
      if (Math.abs(x - a) > 8 && Math.abs(y - b) > 8) this.chart.zoomTo(a, b, x, y);
      this.draw();
    });
    svg.addEventListener("pointerleave", () => { this.readout.textContent = this.resting; });
    svg.addEventListener("dblclick", () => this.reset());
    svg.addEventListener("keydown", (event) => {
      const moves = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, 0.15], ArrowDown: [0, -0.15] };
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (moves[event.key]) this.chart.pan(...moves[event.key]);
      else if (event.key === "+" || event.key === "=") this.chart.zoom(1.6);
      else if (event.key === "-") this.chart.zoom(1 / 1.6);
      else if (event.key === "0" || event.key === "Escape") this.chart.view = null;
      else return;
      event.preventDefault();
      this.draw();
    });
  }

  drawBox([a, b], [x, y]) {
    const box = this.chart.box;
    box.setAttribute("visibility", "visible");
    for (const [name, value] of Object.entries({ x: Math.min(a, x), y: Math.min(b, y), width: Math.abs(x - a), height: Math.abs(y - b) }))
      box.setAttribute(name, value);
  }

  tell(x, y) {
    const found = this.chart.nearest(x, y), mark = this.chart.mark;
    mark.setAttribute("visibility", found ? "visible" : "hidden");
    if (!found) return;
    mark.setAttribute("cx", this.chart.px(found.k));
    mark.setAttribute("cy", this.chart.py(found.value));
    mark.setAttribute("stroke", `var(--c${found.line.colour})`);
    this.readout.textContent = `${found.line.label}: ${shortNumber(found.value)} at ${this.data.unit} ${found.k.toLocaleString("en")}`;
  }
}

function begin() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const made = new Map(), looks = looksOf(data);
  // A chart is made when it comes near the screen, so that a long page opens at once.
  const watch = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting || made.has(target)) continue;
      made.set(target, new Panel(target, data[Number(target.dataset.panel)], looks));
      widths.observe(target);
    }
  }, { rootMargin: "400px" });
  const seen = new Map();
  const widths = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) {
      if (seen.has(target) && seen.get(target) !== contentRect.width) made.get(target).draw();
      seen.set(target, contentRect.width);
    }
  });
  for (const place of document.querySelectorAll(".panel")) watch.observe(place);
  const theme = document.getElementById("theme");
  let chosen = 0;
  theme.addEventListener("click", () => {
    chosen = (chosen + 1) % THEMES.length;
    theme.textContent = `Theme: ${THEMES[chosen]}`;
    if (chosen) document.documentElement.dataset.theme = THEMES[chosen];
    else delete document.documentElement.dataset.theme;
  });
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
}

begin();
