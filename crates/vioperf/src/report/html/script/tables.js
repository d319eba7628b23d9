"use strict";
// Tables with one line of heads are sorted by a press on one. Numbers as numbers, with k, M, G and the unit's own
// prefix; what has no number stands last.
{
  const prefixes = { n: 1e-9, µ: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  function valueOf(field) {
    if (field.dataset.value !== undefined) return Number(field.dataset.value);
    const found = field.textContent.trim().match(/^([+-]?\d+(?:\.\d+)?)(?:\s*±\s*[\d.]+)?\s*(?:([nµmkMGT])(?:bit\/s|\/s|$))?/u);
    return found ? Number(found[1]) * (prefixes[found[2]] ?? 1) : null;
  }
  function compare(a, b) {
    const [x, y] = [valueOf(a), valueOf(b)];
    if (x !== null && y !== null) return x - y;
    if (x === null && y === null) return a.textContent.localeCompare(b.textContent);
    return x === null ? 1 : -1;
  }
  function sort(table, head, column) {
    const down = head.getAttribute("aria-sort") === "descending";
    for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "ascending" : "descending");
    const body = table.tBodies[0];
    const lines = [...body.rows].sort((a, b) => compare(a.cells[column], b.cells[column]));
    body.append(...(down ? lines : lines.reverse()));
  }
  for (const table of document.querySelectorAll("table")) {
    const heads = table.tHead?.rows;
    const body = table.tBodies[0];
    if (heads?.length !== 1 || !body) continue;
    [...heads[0].cells].forEach((head, column) => {
      if (head.hasAttribute("data-unsorted")) return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, column));
      head.append(button);
    });
  }
}
