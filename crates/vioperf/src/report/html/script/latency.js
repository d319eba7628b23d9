"use strict";
// A press on a path's name below a drawing of lines hides its line, or shows it again; values under the pointer.
for (const figure of document.querySelectorAll(".latency")) {
  const svg = figure.querySelector("svg");
  const names = [...svg.querySelectorAll("text.name")];
  const keys = document.createElement("p");
  keys.className = "legend small toggles";
  keys.append("Shown:");
  for (const name of names) {
    const style = [...name.classList].find((of) => /^l\d$/.test(of));
    const parts = [...svg.querySelectorAll(`[data-path="${CSS.escape(name.dataset.path)}"]`)];
    const button = document.createElement("button");
    button.type = "button";
    button.className = "toggle " + style;
    button.textContent = name.textContent;
    button.setAttribute("aria-pressed", "true");
    button.addEventListener("click", () => {
      const isShown = button.getAttribute("aria-pressed") === "true";
      button.setAttribute("aria-pressed", String(!isShown));
      for (const part of parts) part.style.display = isShown ? "none" : "";
    });
    keys.append(" ", button);
  }
  figure.after(keys);
}
