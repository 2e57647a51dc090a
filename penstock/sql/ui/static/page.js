// Keeps the page up to date by server-sent events, and sorts its tables. The server writes everything that is shown.
"use strict";
const order = new Map();
const value = (row, column) => {
  const text = row.cells[column].textContent.trim();
  const number = Number(text.replaceAll(",", ""));
  return text !== "" && !Number.isNaN(number) ? number : text;
};
const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
function sort(table, column, ascending) {
  const body = table.tBodies[0];
  const rows = [...body.rows].map((row) => [value(row, column), row]);
  rows.sort((a, b) => (ascending ? compare(a[0], b[0]) : compare(b[0], a[0])));
  body.append(...rows.map((pair) => pair[1]));
  [...table.tHead.rows[0].cells].forEach((cell, index) => {
    if (index === column) cell.setAttribute("aria-sort", ascending ? "ascending" : "descending");
    else cell.removeAttribute("aria-sort");
  });
}
function prepare() {
  for (const table of document.querySelectorAll("table.sortable")) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = cell.textContent;
      button.addEventListener("click", () => {
        const last = order.get(table.id);
        const ascending = !(last && last[0] === column && last[1]);
        order.set(table.id, [column, ascending]);
        sort(table, column, ascending);
      });
      cell.replaceChildren(button);
    });
    const chosen = order.get(table.id);
    if (chosen) sort(table, chosen[0], chosen[1]);
  }
}
const FOCUSABLE = "a, button, pre, [tabindex]";
async function refresh() {
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const main = document.querySelector("main");
  const focused = [...main.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  main.replaceChildren(...fresh.querySelector("main").childNodes);
  prepare();
  refreshLater();
  if (focused >= 0) main.querySelectorAll(FOCUSABLE)[focused]?.focus();
}
function refreshLater() {
  const waiting = document.querySelector("[data-refresh]");
  if (waiting) setTimeout(() => refresh().catch(() => {}), Number(waiting.dataset.refresh));
}
prepare();
refreshLater();
if (location.pathname === "/" || location.pathname.startsWith("/pipelines")) {
  let first = true;
  new EventSource("/api/v1/events").addEventListener("pipeline", () => {
    if (first) first = false;
    else refresh().catch(() => {});
  });
}
