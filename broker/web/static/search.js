// Suggests what may be meant while somebody types into the search; up and down choose, Enter goes there, Escape closes.
// Without this module Enter leads to the page of what was found.

const AFTER_MS = 180;
const box = document.querySelector(".search input");
const list = document.getElementById("suggestions");
let timer = null;
let newest = 0;

function close() {
  list.hidden = true;
  list.replaceChildren();
  box.setAttribute("aria-expanded", "false");
  box.removeAttribute("aria-activedescendant");
}

function line(one, at) {
  const item = document.createElement("li");
  Object.assign(item, { id: `suggestion-${at}`, role: "option" });
  item.setAttribute("aria-selected", "false");
  item.dataset.address = one.address;
  for (const [name, text] of [["b", one.name], ["span", one.kind], ["small", one.said]]) {
    const part = document.createElement(name);
    part.textContent = text;
    item.append(part);
  }
  // before the box loses the focus, which would close the list
  item.addEventListener("pointerdown", (event) => { event.preventDefault(); location.assign(one.address); });
  return item;
}

async function ask() {
  const text = box.value.trim();
  const number = (newest += 1);
  if (text.length < 2) { close(); return; }
  const answer = await fetch(`/search/suggestions?q=${encodeURIComponent(text)}`, { headers: { Accept: "application/json" } });
  if (!answer.ok || number !== newest) { return; }
  const { suggestions } = await answer.json();
  list.replaceChildren(...suggestions.map(line));
  list.hidden = !suggestions.length || document.activeElement !== box;
  box.setAttribute("aria-expanded", String(!list.hidden));
}

function move(by) {
  const items = [...list.children];
  const now = items.findIndex((one) => one.getAttribute("aria-selected") === "true");
  const next = Math.max(-1, Math.min(items.length - 1, now + by));
  items.forEach((one, at) => one.setAttribute("aria-selected", String(at === next)));
  if (next < 0) { box.removeAttribute("aria-activedescendant"); return; }
  box.setAttribute("aria-activedescendant", items[next].id);
  items[next].scrollIntoView({ block: "nearest" });
}

box.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, AFTER_MS); });
box.addEventListener("blur", close);
box.addEventListener("keydown", (event) => {
  const chosen = list.querySelector("[aria-selected=true]");
  if (event.key === "Escape" && !list.hidden) { event.preventDefault(); close(); }
  if (list.hidden) { return; }
  if (event.key === "ArrowDown" || event.key === "ArrowUp") { event.preventDefault(); move(event.key === "ArrowDown" ? 1 : -1); }
  if (event.key === "Enter" && chosen) { event.preventDefault(); location.assign(chosen.dataset.address); }
});
