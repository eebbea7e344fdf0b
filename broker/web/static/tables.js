// Sorts tables by a click on a heading; the column stands in the address as sort=TABLE.COLUMN, with a "d" for downwards,
// so that a page that is sent to somebody else, or refreshed, is the same. Without this module tables have the order of
// the server.

const UNITS = { d: 86400, h: 3600, min: 60, s: 1, ms: 0.001 };
const tables = () => [...document.querySelectorAll("main .table table")];

// What a cell is sorted by: what it says itself, an instant, a length of time, a number, or its words.
function value_of(cell) {
  if (cell.dataset.value) { return Number(cell.dataset.value); }
  const time = cell.querySelector("time");
  if (time) { return Date.parse(time.dateTime); }
  const text = cell.textContent.trim();
  const parts = [...text.matchAll(/(-?[\d,]+(?:\.\d+)?) (d|h|min|s|ms)\b/g)];
  if (parts.length && /^[-\d]/.test(text)) { return parts.reduce((sum, [, number, unit]) => sum + Number(number.replace(/,/g, "")) * UNITS[unit], 0); }
  const number = /^[-−]?[\d,]+(\.\d+)?/.exec(text);
  return number ? Number(number[0].replace(/,/g, "").replace("−", "-")) : text;
}

function compare(one, other) {
  if (typeof one === typeof other) { return typeof one === "number" ? one - other : one.localeCompare(other); }
  return typeof one === "number" ? -1 : 1;
}

function sort(table, column, down) {
  const body = table.tBodies[0];
  const rows = [...body.rows].filter((row) => row.cells.length > column);
  const known = rows.map((row, at) => ({ row, at, value: value_of(row.cells[column]) }));
  const is_none = (one) => one.value === "" || one.value === "–";
  known.sort((one, other) => is_none(one) - is_none(other) || (down ? -1 : 1) * compare(one.value, other.value) || one.at - other.at);
  const folded = rows.map((row) => "more" in row.dataset);
  known.forEach(({ row }, at) => { row.toggleAttribute("data-more", folded[at]); });
  body.append(...known.map((one) => one.row));
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    if (at === column) { head.setAttribute("aria-sort", down ? "descending" : "ascending"); } else { head.removeAttribute("aria-sort"); }
  });
}

function asked() {
  const found = /^(\d+)\.(\d+)(d?)$/.exec(new URLSearchParams(location.search).get("sort") ?? "");
  return found && { table: Number(found[1]), column: Number(found[2]), down: found[3] === "d" };
}

function choose(at, column) {
  const now = asked();
  const same = now?.table === at && now.column === column;
  const is_figure = tables()[at].tHead.rows[0].cells[column].classList.contains("n");
  const down = same ? !now.down : is_figure;
  const address = new URL(location.href);
  address.searchParams.set("sort", `${at}.${column}${down ? "d" : ""}`);
  history.replaceState(null, "", address);
  sort(tables()[at], column, down);
}

function prepare() {
  tables().forEach((table, at) => {
    if (table.tBodies[0].rows.length < 2) { return; }
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.querySelector("button")) { return; }
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => choose(at, column));
      head.append(button);
    });
  });
  const wanted = asked();
  const table = wanted && tables()[wanted.table];
  if (table && wanted.column < table.tHead.rows[0].cells.length) { sort(table, wanted.column, wanted.down); }
}

document.addEventListener("refreshed", prepare);
prepare();
