// Draws plots over time with Bokeh, from the installed package, over the pictures that the server drew: who has no
// scripts sees those. A plot is made once; refreshing the page gives it new data.

const nonce = document.querySelector("script[nonce]").nonce;
const bokeh = document.querySelector("meta[name=bokeh]").content;
const views = new Map();
let loading = null;

// Bokeh writes its styles into elements of its own, which the policy of the page lets count with the nonce alone.
function with_nonce() {
  const make = document.createElement.bind(document);
  document.createElement = (name, ...rest) => {
    const made = make(name, ...rest);
    if (name === "style") { made.nonce = nonce; }
    return made;
  };
}

function load() {
  loading ??= new Promise((go, fail) => {
    with_nonce();
    const script = document.createElement("script");
    Object.assign(script, { src: bokeh, nonce, onload: go, onerror: fail });
    document.head.append(script);
  });
  return loading;
}

// Colours are those of the style sheet, light or dark.
function coloured(text) {
  const style = getComputedStyle(document.documentElement);
  return JSON.parse(text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim()));
}

// Instants are UTC; where somebody chose so, the axis has the clock of whoever looks, and under the mouse both are said.
const here = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short" });
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const is_local = () => document.getElementById("local-times")?.getAttribute("aria-pressed") === "true";

function with_clock(view) {
  const all = view.model.document;
  const [clock, axis] = ["clock", "hours"].map((name) => all.get_model_by_name(name));
  const of_utc = clock.doFormat.bind(clock);
  clock.doFormat = (ticks, options) => {
    if (!is_local()) { return of_utc(ticks, options); }
    const said = ticks.map((tick) => here.format(new Date(tick)));
    // the day stands where it begins
    return said.map((one, at) => (at && one.slice(0, 10) === said[at - 1].slice(0, 10) ? one.slice(11) : `${one.slice(11)}\n${one.slice(0, 10)}`));
  };
  return () => {
    axis.axis_label = is_local() ? zone : "UTC";
    clock.change.emit();
  };
}

function fill(view, told) {
  const { document: all } = view.model;
  for (const [name, data] of Object.entries(told.sources)) {
    all.get_model_by_name(name).data = { ...data, here: data.at.map((at) => here.format(new Date(at))) };
  }
  const range = all.get_model_by_name("time");
  if (told.span && range) { [range.start, range.end] = told.span; }
}

// A span of time that is selected in a plot becomes the range of the whole page, in its address.
const LEAST_MS = 600000;

function zoom(view, span) {
  const range = view.model.document.get_model_by_name("time");
  const [start, end] = [Math.max(range.start, span[0]), Math.min(range.end, span[1])];
  if (end - start >= 0.98 * (span[1] - span[0])) { return; }
  const address = new URL(location.href);
  const long = Math.max(end - start, LEAST_MS);
  address.searchParams.set("hours", String(Number((long / 3600000).toFixed(2))));
  address.searchParams.set("at", `${new Date(Math.min(start + long, span[1])).toISOString().slice(0, 19)}Z`);
  location.assign(address);
}

// The picture below says the same to screen readers and the keyboard; nothing in the plot is to be reached.
function out_of_reach(part) {
  for (const one of part.querySelectorAll("*")) {
    if (one.tabIndex >= 0) { one.tabIndex = -1; }
    if (one.shadowRoot) { out_of_reach(one.shadowRoot); }
  }
}

async function draw(place) {
  const address = place.dataset.plot;
  const answer = await fetch(address, { headers: { Accept: "application/json" }, cache: "no-store" });
  if (!answer.ok) { return; }
  const told = await answer.json();
  await load();
  const known = views.get(address);
  if (known?.place === place) { fill(known.view, told); known.span = told.span; return; }
  const box = document.createElement("div");
  box.className = "bokeh";
  box.setAttribute("aria-hidden", "true");
  place.append(box);
  const made = await Bokeh.embed.embed_item(coloured(JSON.stringify(told.frame)), box);
  const view = [...made][0];
  const set_clock = with_clock(view);
  fill(view, told);
  set_clock();
  out_of_reach(box);
  const drawn = { place, made, view, set_clock, span: told.span };
  views.set(address, drawn);
  // Bokeh lets the event go no further down, and has taken the selection when the next frame is drawn
  const taken = () => requestAnimationFrame(() => requestAnimationFrame(() => zoom(view, drawn.span)));
  box.addEventListener("pointerup", taken, { capture: true });
  place.classList.add("drawn");
}

function forget_those_that_are_gone() {
  for (const [address, one] of views) {
    if (!one.place.isConnected) {
      one.made.clear();
      views.delete(address);
    }
  }
}

async function draw_all() {
  forget_those_that_are_gone();
  for (const place of document.querySelectorAll("[data-plot]")) { await draw(place); }
}

document.addEventListener("refreshed", draw_all);
document.addEventListener("clock", () => { for (const one of views.values()) { one.set_clock(); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const [, one] of views) { one.made.clear(); one.place.querySelector(".bokeh").remove(); one.place.classList.remove("drawn"); }
  views.clear();
  draw_all();
});
draw_all();
