"use strict";
// An address with a cell or a finding in it opens what that is folded away in; paper shows all but details of details.
{
  const open = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let at = target.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    target.scrollIntoView();
  };
  addEventListener("hashchange", open);
  open();

  const folds = [...document.querySelectorAll("details.more")];
  const contents = document.querySelector(".contents > ul");
  if (contents && folds.length > 1) {
    const button = document.createElement("button");
    button.type = "button";
    const name = () => { button.textContent = folds.every((fold) => fold.open) ? "Fold all" : "Unfold all"; };
    button.addEventListener("click", () => {
      const all = !folds.every((fold) => fold.open);
      for (const fold of folds) fold.open = all;
      name();
    });
    for (const fold of folds) fold.addEventListener("toggle", name);
    name();
    const line = document.createElement("li");
    line.append(button);
    contents.append(line);
  }
  // The list of loads folds when one is chosen, by Escape, and when something else is looked at.
  const menu = document.querySelector(".contents .menu");
  if (menu) {
    const fold = () => { menu.open = false; };
    menu.addEventListener("click", (event) => { if (event.target.closest("a")) fold(); });
    menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { fold(); menu.querySelector("summary").focus(); } });
    document.addEventListener("pointerdown", (event) => { if (!menu.contains(event.target)) fold(); });
  }

  let before = [];
  addEventListener("beforeprint", () => { before = folds.filter((fold) => !fold.open); for (const fold of before) fold.open = true; });
  addEventListener("afterprint", () => { for (const fold of before) fold.open = false; });
}
