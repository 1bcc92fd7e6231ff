"""The script of a page: tables are sorted by their headings, a group is picked out. The page is whole without it."""

SCRIPT = """
(() => {
  "use strict";
  const number = text => {
    const found = parseFloat(text.replace("\\u2212", "-"));
    return Number.isNaN(found) ? -Infinity : found;
  };
  const sort = (table, place, heading) => {
    const rows = [...table.tBodies[0].rows];
    const text = row => row.cells[place].textContent.trim();
    const numeric = rows.every(row => /^[-\\u2212\\u2013\\d.]/.test(text(row)));
    const before = heading.getAttribute("aria-sort");
    const up = before ? before === "descending" : !numeric;
    const order = numeric ? (a, b) => number(text(a)) - number(text(b)) : (a, b) => text(a).localeCompare(text(b));
    rows.sort(up ? order : (a, b) => order(b, a));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", up ? "ascending" : "descending");
    table.tBodies[0].append(...rows);
  };
  for (const table of document.querySelectorAll("table")) {
    if (!table.tHead || table.tBodies[0].rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((heading, place) => {
      if (!heading.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.title = "sort";
      button.textContent = heading.textContent;
      button.addEventListener("click", () => sort(table, place, heading));
      heading.replaceChildren(button);
    });
  }
  let chosen = null;
  const marked = document.querySelectorAll("tr[data-group]");
  const buttons = [];
  const show = group => {
    for (const part of marked) part.classList.toggle("faint", group !== null && part.dataset.group !== group);
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.chooses === chosen));
  };
  if (marked.length) for (const card of document.querySelectorAll(".card")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "choose";
    button.dataset.chooses = card.dataset.group;
    button.textContent = "pick out in the tables";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      chosen = chosen === card.dataset.group ? null : card.dataset.group;
      show(chosen);
    });
    card.addEventListener("mouseenter", () => show(card.dataset.group));
    card.addEventListener("mouseleave", () => show(chosen));
    buttons.push(button);
    card.append(button);
  }
  addEventListener("beforeprint", () => { for (const part of document.querySelectorAll("details")) part.open = true; });
})();
"""
