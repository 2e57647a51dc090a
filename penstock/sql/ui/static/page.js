// Keeps the page up to date by server-sent events, and sorts its tables. The server writes everything that is shown.
"use strict";
const order = new Map();
const value = (row, column) => {
  const given = row.cells[column].dataset.value;
  if (given !== undefined) return given === "" ? "" : Number(given);
  const time = row.cells[column].querySelector("time");
  if (time) return time.dateTime;
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
// How long ago times were: counted from the server's clock, as this machine's may be wrong.
const UNITS = [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]];
let ahead = 0;
const span = (seconds) => {
  const unit = UNITS.find((each) => seconds >= each[0]);
  if (!unit) return `${seconds} s`;
  const part = Math.floor((seconds % unit[0]) / unit[2]);
  return `${Math.floor(seconds / unit[0])} ${unit[1]}` + (part ? ` ${part} ${unit[3]}` : "");
};
function ages() {
  for (const time of document.querySelectorAll("time.age")) {
    const seconds = Math.floor((Date.now() - ahead - Date.parse(time.dateTime)) / 1000);
    time.textContent = `${span(Math.max(seconds, 0))} ago`;
  }
}
const setClock = () => (ahead = Date.now() - Number(document.querySelector("main").dataset.now));
const FOCUSABLE = "a, button, pre, [tabindex]";
async function refresh() {
  const answer = await fetch(location.href);
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const main = document.querySelector("main");
  const focused = [...main.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  const shown = fresh.querySelector("main");
  main.dataset.now = shown.dataset.now;
  main.replaceChildren(...shown.childNodes);
  setClock();
  prepare();
  refreshLater();
  if (focused >= 0) main.querySelectorAll(FOCUSABLE)[focused]?.focus();
}
function refreshLater() {
  const waiting = document.querySelector("[data-refresh]");
  if (waiting) setTimeout(() => refresh().catch(() => {}), Number(waiting.dataset.refresh));
}
const connection = document.querySelector("#connection");
let silence = ""; // that the server does not answer, which goes before what it said itself
let problem = "";
const tell = () => (connection.textContent = silence || problem);
function lost() {
  if (silence) return;
  const now = new Date(Date.now() - ahead).toISOString().replace("T", " ").split(".")[0];
  silence = `The server has not answered since ${now}Z: what is below is of before.`;
  tell();
}
setClock();
prepare();
refreshLater();
setInterval(ages, 1000);
if (location.pathname === "/" || location.pathname.startsWith("/pipelines")) {
  const name = decodeURIComponent(location.pathname.slice("/pipelines/".length));
  let events = null;
  let first = true;
  let missed = false;
  const listen = () => {
    events = new EventSource("/api/v1/events");
    events.addEventListener("error", lost);
    events.addEventListener("open", () => {
      first = !silence && !missed; // what the server said meanwhile was missed
      missed = false;
      silence = problem = "";
      tell();
    });
    events.addEventListener("problem", (event) => {
      problem = JSON.parse(event.data);
      tell();
    });
    events.addEventListener("pipeline", (event) => {
      if (first) first = false;
      else if (name === "" || JSON.parse(event.data).includes(name)) refresh().catch(() => {});
    });
  };
  // the server makes nothing for a page that nobody sees
  const followWhileSeen = () => {
    events?.close();
    if (document.hidden) missed = true;
    else listen();
  };
  document.addEventListener("visibilitychange", followWhileSeen);
  followWhileSeen();
}
