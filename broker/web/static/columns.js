// Lets columns of tables be chosen; what is shown of a table stands in the address as columns=TABLE:COLUMN,COLUMN;TABLE:...
// so that a page that is sent to somebody else, or refreshed, is the same. Without this module tables have the columns of
// the server, and a phone those that it has room for.

const FEWEST = 4;
const tables = () => [...document.querySelectorAll("main .table table")];

// Table by its place on the page to the places of the columns that are shown.
function asked() {
  const found = new Map();
  for (const part of (new URLSearchParams(location.search).get("columns") ?? "").split(";")) {
    const one = /^(\d+):(\d+(?:,\d+)*)$/.exec(part);
    if (one) { found.set(Number(one[1]), new Set(one[2].split(",").map(Number))); }
  }
  return found;
}

function keep(all) {
  const text = [...all].map(([table, columns]) => `${table}:${[...columns].sort((one, other) => one - other)}`).join(";");
  const address = new URL(location.href);
  if (text) { address.searchParams.set("columns", text); } else { address.searchParams.delete("columns"); }
  history.replaceState(null, "", address);
}

function show(table, columns) {
  const count = table.tHead.rows[0].cells.length;
  for (const row of table.rows) {
    if (row.cells.length !== count) { continue; }
    [...row.cells].forEach((cell, at) => {
      cell.classList.toggle("on", Boolean(columns?.has(at)));
      cell.classList.toggle("off", Boolean(columns) && !columns.has(at));
    });
  }
}

const is_shown = (head) => getComputedStyle(head).display !== "none";

function choose(table, at, box) {
  const heads = [...table.tHead.rows[0].cells];
  const all = asked();
  const shown = all.get(at) ?? new Set(heads.flatMap((head, column) => (is_shown(head) ? [column] : [])));
  const column = Number(box.value);
  if (box.checked) { shown.add(column); } else { shown.delete(column); }
  if (!shown.size) { box.checked = true; return; }
  all.set(at, shown);
  keep(all);
  show(table, shown);
}

function menu(table, at) {
  const part = document.createElement("details");
  part.className = "columns";
  const name = document.createElement("summary");
  name.textContent = "Columns";
  const list = document.createElement("div");
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const label = document.createElement("label");
    const box = document.createElement("input");
    Object.assign(box, { type: "checkbox", value: String(column), checked: is_shown(head) });
    box.addEventListener("change", () => choose(table, at, box));
    label.append(box, head.textContent);
    list.append(label);
  });
  part.append(name, list);
  part.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { part.open = false; name.focus(); }
  });
  return part;
}

function prepare() {
  const wanted = asked();
  tables().forEach((table, at) => {
    if (table.tHead.rows[0].cells.length < FEWEST || table.tBodies[0].rows.length < 2) { return; }
    show(table, wanted.get(at));
    const place = table.closest(".table");
    if (!place.querySelector(".columns")) { place.prepend(menu(table, at)); }
  });
}

document.addEventListener("refreshed", prepare);
prepare();
