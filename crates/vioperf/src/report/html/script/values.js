"use strict";
// The value under the pointer, in words beside it; by arrow keys, too. The words are the titles that the page came
// with: without scripts a browser shows them in its own way.
{
  const bubble = document.createElement("div");
  bubble.className = "bubble";
  bubble.hidden = true;
  const spoken = document.createElement("div");
  spoken.className = "spoken";
  spoken.setAttribute("role", "status");
  document.body.append(bubble, spoken);
  let [now, byKey] = [null, false];

  // A page that scrolls under a pointer at rest brings it over other values: nobody pointed at those.
  let last = [];
  function isMoved({ screenX, screenY }) {
    const moved = screenX !== last[0] || screenY !== last[1];
    last = [screenX, screenY];
    return moved;
  }

  function hide() {
    now?.classList.remove("told-now");
    now = null;
    bubble.hidden = true;
  }

  function show(spot) {
    if (spot === now) return;
    hide();
    now = spot;
    spot.classList.add("told-now");
    bubble.textContent = spot.dataset.told;
    bubble.hidden = false;
    place();
  }

  function place() {
    const [at, own] = [now.getBoundingClientRect(), bubble.getBoundingClientRect()];
    const left = at.left + at.width / 2 - own.width / 2;
    bubble.style.left = `${Math.max(8, Math.min(left, document.documentElement.clientWidth - own.width - 8))}px`;
    bubble.style.top = `${at.top > own.height + 14 ? at.top - own.height - 8 : at.bottom + 8}px`;
  }

  for (const figure of document.querySelectorAll("[data-values]")) {
    const all = [...figure.querySelectorAll(".spot")];
    if (!all.length) continue;
    for (const spot of all) {
      const title = spot.querySelector("title");
      spot.dataset.told = title.textContent;
      title.remove();
    }
    figure.tabIndex = 0;
    figure.setAttribute("aria-keyshortcuts", "ArrowRight ArrowLeft");
    figure.addEventListener("pointermove", (event) => {
      if (!isMoved(event)) return;
      const spot = event.target.closest(".spot");
      byKey = false;
      if (spot) show(spot); else hide();
    });
    figure.addEventListener("pointerleave", (event) => { if (isMoved(event)) hide(); });
    figure.addEventListener("blur", hide);
    figure.addEventListener("keydown", (event) => {
      if (event.key === "Escape") return hide();
      const seen = all.filter((spot) => spot.style.display !== "none");
      const at = seen.indexOf(now);
      const to = { ArrowRight: at + 1, ArrowLeft: at < 0 ? seen.length - 1 : at - 1, Home: 0, End: seen.length - 1 }[event.key];
      if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
      event.preventDefault();
      byKey = true;
      show(seen[Math.max(0, Math.min(to, seen.length - 1))]);
      spoken.textContent = bubble.textContent;
    });
  }
  addEventListener("scroll", () => { if (byKey && now) place(); else hide(); }, { passive: true, capture: true });
}
