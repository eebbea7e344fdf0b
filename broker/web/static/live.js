// Keeps a page up to date: server-sent events say when something happened, and the part of the page that shows answers
// is fetched again and put in place of the old. Without this module every page works, and shows what was when it was opened.

const AT_MOST_EVERY_MS = 3000;
const RETRY_MS = 10000;
const main = document.querySelector("main[data-live]");
const lamp = document.getElementById("live");
let wanted = false;
let timer = null;
let under_way = false;

function say(on) {
  lamp.className = on ? "on" : "";
  lamp.textContent = on ? "live" : "not live";
}

// What somebody has opened, typed or scrolled to stays as it is; what another module made, it makes again.
const OPENED = "details:not(.columns)";
const TYPED = "input:not([type=hidden], .columns *), select";

function state_of(part) {
  const open = [...part.querySelectorAll(OPENED)].map((one) => one.open);
  const typed = [...part.querySelectorAll(TYPED)].map((one) => [one.value, one.checked]);
  const across = [...part.querySelectorAll(".scroll")].map((one) => one.scrollLeft);
  return { open, typed, across };
}

function restore(part, state) {
  part.querySelectorAll(OPENED).forEach((one, at) => { one.open = state.open[at] ?? one.open; });
  part.querySelectorAll(TYPED).forEach((one, at) => {
    if (state.typed[at]) { [one.value, one.checked] = state.typed[at]; }
  });
  part.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = state.across[at] ?? 0; });
}

// A plot stays where it is, and is given its new data by its own module; the picture beneath it is the new one.
function keep_plots(fresh) {
  for (const old of main.querySelectorAll("[data-plot].drawn")) {
    const next = [...fresh.querySelectorAll("[data-plot]")].find((one) => one.dataset.plot === old.dataset.plot);
    if (!next) { continue; }
    old.querySelector(".picture").replaceWith(next.querySelector(".picture"));
    next.replaceWith(old);
  }
}

function is_in_use() {
  const focused = document.activeElement;
  return document.hidden || (main.contains(focused) && focused.matches("input, select, button, a, summary"));
}

async function refresh() {
  timer = null;
  if (!wanted || under_way) { return; }
  if (is_in_use()) { later(); return; }
  wanted = false;
  under_way = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (answer.ok && !answer.redirected) {
      const text = await answer.text();
      const found = new DOMParser().parseFromString(text, "text/html").querySelector("main");
      if (found && !is_in_use()) {
        const fresh = document.adoptNode(found);
        const state = state_of(main);
        keep_plots(fresh);
        main.replaceChildren(...fresh.childNodes);
        restore(main, state);
        main.dataset.refreshed = String(Number(main.dataset.refreshed || 0) + 1);
        document.dispatchEvent(new Event("refreshed"));
      }
    }
    say(answer.ok);
  } catch {
    say(false);
  } finally {
    under_way = false;
    if (wanted) { later(); }
  }
}

function later() {
  if (timer === null) { timer = setTimeout(refresh, AT_MOST_EVERY_MS); }
}

function something_happened() {
  wanted = true;
  later();
}

function listen() {
  const events = new EventSource("/api/v1/events");
  events.onopen = () => say(true);
  events.onerror = () => {
    say(false);
    if (events.readyState === EventSource.CLOSED) { setTimeout(listen, RETRY_MS); }
  };
  for (const kind of ["cycle", "outcome", "tuning", "source"]) { events.addEventListener(kind, something_happened); }
  events.onmessage = something_happened;
  addEventListener("pagehide", () => events.close(), { once: true });
}

// The key "/" goes to the search, unless somebody is typing.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) { return; }
  event.preventDefault();
  document.querySelector(".search input").focus();
});

document.addEventListener("visibilitychange", () => { if (!document.hidden && wanted) { later(); } });
if (main) { listen(); }
