"use strict";
// An address with a cell or a finding in it opens what that is folded away in.
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
  // Paper shows what is folded away.
  addEventListener("beforeprint", () => { for (const details of document.querySelectorAll("details.courses, details.heat")) details.open = true; });
}
