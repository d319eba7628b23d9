"use strict";
// What a reader may change: metric, panels, order, which levels are shown. Draws numbers that the page came with;
// nothing is computed from them here. Without scripts none of it is there, and everything else is.
{
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const place = document.getElementById("explore");
  const controls = place.querySelector("form");
  const drawing = place.querySelector(".drawing");
  const said = place.querySelector("[aria-live]");
  const table = place.querySelector("tbody");
  const symbols = { baseline: "square", paravirtual: "circle", emulated: "diamond", "passed through": "triangle" };
  const colours = { baseline: "var(--base)", paravirtual: "var(--para)", emulated: "var(--emul)", "passed through": "var(--pass)" };
  const wish = { metric: data.headline, panels: data.factors.some((factor) => factor.name === "load") ? "load" : "", order: "plan", log: false, hidden: new Set() };
  const title = 18;

  const three = (value) => {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3;
    return size >= 1e4 || (size < 1e-2 && size > 0) ? d3.format(".3~s")(value) : value.toFixed(digits);
  };
  // The prefix belongs to the unit: 610 Mbit/s.
  const withUnit = (value, unit) => three(value).replace(/([a-zA-Zµ]?)$/, (prefix) => " " + prefix + unit);
  const metricOf = (name) => data.metrics.find((metric) => metric.name === name);
  const levelOf = (cell, factor) => cell.levels[factor] ?? "–";

  function option(value, text, chosen) {
    const made = document.createElement("option");
    made.value = value;
    made.textContent = text;
    made.selected = value === chosen;
    return made;
  }

  function choice(label, options, chosen, changed) {
    const line = document.createElement("label");
    line.append(label + " ");
    const select = document.createElement("select");
    select.append(...options.map(([value, text]) => option(value, text, chosen)));
    select.addEventListener("change", () => { changed(select.value); show(); });
    line.append(select);
    return line;
  }

  function box(label, checked, changed) {
    const line = document.createElement("label");
    line.className = "box";
    const input = document.createElement("input");
    input.type = "checkbox";
    input.checked = checked;
    input.addEventListener("change", () => { changed(input.checked); show(); });
    line.append(input, " " + label);
    return line;
  }

  function build() {
    const metrics = data.metrics.map((metric) => [metric.name, `${metric.about} (${metric.unit})`]);
    const panels = [["", "one for all"], ...data.factors.map((factor) => [factor.name, factor.name])];
    controls.append(
      choice("Metric", metrics, wish.metric, (value) => { wish.metric = value; }),
      choice("A panel for each", panels, wish.panels, (value) => { wish.panels = value; }),
      choice("Order", [["plan", "of the plan"], ["value", "by value"], ["name", "by name"]], wish.order, (value) => { wish.order = value; }),
      box("logarithmic", wish.log, (checked) => { wish.log = checked; }),
    );
    const levels = document.createElement("details");
    levels.append(Object.assign(document.createElement("summary"), { textContent: "Hide levels" }));
    controls.append(levels);
    for (const factor of data.factors.filter((factor) => factor.levels.length > 1)) {
      const group = document.createElement("fieldset");
      const legend = document.createElement("legend");
      legend.textContent = factor.name;
      group.append(legend, ...factor.levels.map((level) => {
        const key = factor.name + "\n" + level;
        return box(level, true, (checked) => { checked ? wish.hidden.delete(key) : wish.hidden.add(key); });
      }));
      levels.append(group);
    }
    controls.addEventListener("submit", (event) => event.preventDefault());
    place.hidden = false;
    document.querySelector(".contents .explore").hidden = false;
  }

  function rows() {
    const isHidden = (cell) => data.factors.some((factor) => wish.hidden.has(factor.name + "\n" + levelOf(cell, factor.name)));
    const shown = data.cells.filter((cell) => cell.metrics[wish.metric] && !isHidden(cell));
    const value = (cell) => cell.metrics[wish.metric].mean;
    if (wish.order === "value") shown.sort((a, b) => value(b) - value(a));
    if (wish.order === "name") shown.sort((a, b) => d3.ascending(a.id, b.id));
    return shown.map((cell) => ({ cell, ...cell.metrics[wish.metric] }));
  }

  // What a row is called: its cell, less what its panel says.
  function label(cell) {
    if (wish.panels === "load") return cell.path;
    return wish.panels === "path" ? cell.load : `${cell.path}, ${cell.load}`;
  }

  function show() {
    const metric = metricOf(wish.metric);
    const shown = rows();
    const log = wish.log && shown.every((row) => row.mean > 0 && row.values.every((value) => value > 0));
    const panel = (row) => (wish.panels ? levelOf(row.cell, wish.panels) : "all");
    const name = (row) => label(row.cell);
    const floor = log ? d3.min(shown, (row) => d3.min([row.mean, ...row.values])) / 2 : undefined;
    const within = (value) => (log ? Math.max(value, floor) : value);
    const points = shown.flatMap((row) => row.values.map((value) => ({ cell: row.cell, value })));
    const names = [...new Set(shown.map(name))];
    const widest = d3.max(names, (text) => text.length) ?? 0;
    const left = Math.min(40 + 6.6 * widest, place.clientWidth * 0.4);
    const panels = new Set(shown.map(panel)).size || 1;
    const plot = Plot.plot({
      width: Math.max(place.clientWidth, 320),
      height: 64 + panels * (title + 14 + 24 * names.length),
      marginTop: title + 6,
      marginLeft: left,
      marginRight: 24,
      marginBottom: 42,
      ariaLabel: `${metric.about}, in ${metric.unit}, of ${shown.length} cells; the table below has the same numbers`,
      style: { background: "transparent", color: "var(--ink)", fontFamily: "inherit", fontSize: "12px", overflow: "visible" },
      x: { type: log ? "log" : "linear", label: `${metric.about}, ${metric.unit}`, grid: true, zero: !log, nice: !log, labelOffset: 38, tickFormat: three, ticks: Math.max(2, place.clientWidth / 160) },
      y: { label: null, domain: names, tickSize: 0, tickFormat: (text) => (text.length * 6.6 > left - 30 ? text.slice(0, Math.floor((left - 30) / 6.6)) + "…" : text) },
      fy: { label: null, domain: [...new Set(shown.map(panel))], axis: null, padding: wish.panels ? Math.min(0.4, (title + 10) / (24 * names.length + title + 10)) : 0 },
      symbol: { domain: Object.keys(symbols), range: Object.values(symbols) },
      marks: [
        Plot.text(wish.panels ? [...new Set(shown.map(panel))] : [], {
          text: (text) => text, fy: (text) => text, frameAnchor: "top-left", dx: -left, dy: -title + 2, fontWeight: 600, fontSize: 13, fill: "var(--ink)",
        }),
        Plot.link(shown.filter((row) => row.low !== null), {
          x1: (row) => within(row.low), x2: (row) => within(row.high), y: name, fy: panel,
          stroke: (row) => colours[row.cell.kind], strokeWidth: 2,
        }),
        Plot.dot(points, {
          x: (point) => within(point.value), y: (point) => label(point.cell), fy: (point) => panel(point),
          stroke: (point) => colours[point.cell.kind], fill: "var(--page)", r: 2.6,
        }),
        Plot.dot(shown, {
          x: (row) => within(row.mean), y: name, fy: panel, symbol: (row) => row.cell.kind, r: 5.5,
          fill: (row) => colours[row.cell.kind], stroke: "var(--page)", href: (row) => "#" + row.cell.anchor,
          ariaLabel: (row) => `${row.cell.id}: ${withUnit(row.mean, metric.unit)}`,
        }),
        Plot.tip(shown, Plot.pointerY({
          x: (row) => within(row.mean), y: name, fy: panel, fill: "var(--panel)", stroke: "var(--rule)",
          title: (row) => `${row.cell.id}\n${withUnit(row.mean, metric.unit)}` +
            (row.low === null ? "" : `\n95 % interval ${withUnit(row.low, metric.unit)} to ${withUnit(row.high, metric.unit)}`) + `\n${row.values.length} trials`,
        })),
      ],
    });
    // Groups and links have names that a screen reader takes.
    plot.setAttribute("role", "group");
    for (const group of plot.querySelectorAll("g[aria-label]")) group.setAttribute("role", "group");
    for (const link of plot.querySelectorAll("a")) {
      const mark = link.querySelector("[aria-label]");
      link.setAttribute("aria-label", mark?.getAttribute("aria-label") ?? "");
      mark?.removeAttribute("aria-label");
    }
    drawing.replaceChildren(plot);
    table.replaceChildren(...shown.map((row) => line(row)));
    said.textContent = `${shown.length} of ${data.cells.length} cells: ${metric.about}, in ${metric.unit}.`;
    place.querySelector("caption").textContent = `${metric.about}, in ${metric.unit}`;
  }

  function line(row) {
    const made = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    const link = document.createElement("a");
    link.href = "#" + row.cell.anchor;
    link.textContent = row.cell.id;
    head.append(link);
    made.append(head, ...[row.mean, row.low, row.high].map((value) => {
      const field = document.createElement("td");
      field.textContent = three(value);
      if (value !== null) field.dataset.value = value;
      return field;
    }), Object.assign(document.createElement("td"), { textContent: row.values.length }));
    return made;
  }

  // Where one lies far from the others, all are to be seen at first.
  const means = data.cells.map((cell) => cell.metrics[wish.metric]?.mean).filter((mean) => mean > 0);
  wish.log = means.length > 1 && d3.max(means) > 10 * d3.min(means);
  build();
  show();
  // Widths are those of the window; dark and light come with the colours themselves.
  let wait;
  addEventListener("resize", () => { clearTimeout(wait); wait = setTimeout(show, 150); });
}
